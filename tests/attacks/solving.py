"""The listener who knows which rows are behind every told sum (arXiv 2511.07073): an upper bound of all subtraction.

Rows with the same history form a group. Told sums are A y with A sets × groups and y the sums of groups. The sum of group g
follows from what was told if and only if e_g is in the row space of A. Sums of squares around a centre c are
``q − 2 c s + n c²`` of the unknown sums s and squares q of the groups, so that they are part of the same linear system.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from intarsia.core.alignment import local_start
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent
from intarsia.core.kmeans import lloyd
from intarsia.core.rows import ArrayRows, Nearest, means
from intarsia.protocol import Labelled, LocalSummary, Refinement
from tests.attacks.listening import Heard, Rows, Spied, Squares, Told, squares_told, sums_told

FEWEST = 5
SOLVED = 1e-6
Labelling = np.ndarray


class Solved(NamedTuple):
    """Rows in groups below the minimum whose sum follows from the numbers, single rows among them, and known sets."""

    rows: frozenset[int]
    single: frozenset[int]
    known: int
    told: int


def solve(heard: Heard, more: Iterable[Labelling] = ()) -> Solved:
    """Return what follows for whoever knows all labellings of a run; ``more`` are labellings beside the usual ones."""
    labellings = [heard.local_labels, heard.labels, *rounds(heard), *more]
    return solve_sets(sums_told(heard.messages), squares_told(heard.messages), labellings, heard.rows)


def solve_sets(
    told: Sequence[Told], squares: Sequence[Squares], labellings: Sequence[Labelling], rows: Rows, fewest: int = FEWEST
) -> Solved:
    """Return the rows in solvable groups: column by column where values are missing, verified against the numbers."""
    sets = _sets(labellings, len(rows.values))
    sums = [(one, at) for one in told if (at := _members(one, sets, rows)) is not None]
    second = [(one, at) for one in squares if (at := _members_of_squares(one, sets, rows)) is not None]
    small: set[int] = set()
    single: set[int] = set()
    seen: dict[bytes, tuple[set[int], set[int]]] = {}
    for j in range(rows.values.shape[1]):
        used = [Equation(sets[at], one.sums[j]) for one, at in sums if one.counts[j] > 0]
        around = [
            Equation(sets[at], one.squares[j] - one.counts[j] * one.centre[j] ** 2, one.centre[j])
            for one, at in second
            if one.counts[j] > 0
        ]
        told_here = np.array([one.counts[j] > 0 for one, _ in sums], dtype=bool)
        pattern = np.packbits(np.r_[rows.observed[:, j], told_here]).tobytes()
        if not around and pattern in seen:  # the same equations with other numbers
            few, one_row = seen[pattern]
        else:
            few, one_row = solve_column(used, around, rows, j, fewest)
            seen[pattern] = few, one_row
        small |= few
        single |= one_row
    return Solved(frozenset(small), frozenset(single), len(sums) + len(second), len(told) + len(squares))


class Equation(NamedTuple):
    """A told number about a column: Σ x over some rows, or Σ x² − 2 c Σ x where there is a centre c."""

    members: np.ndarray
    number: float
    centre: float | None = None


def solve_column(
    sums: Sequence[Equation], squares: Sequence[Equation], rows: Rows, j: int, fewest: int = FEWEST
) -> tuple[set[int], set[int]]:
    """Return the rows of groups below the minimum whose sums in one column follow, and single rows among them."""
    cells = np.flatnonzero(rows.observed[:, j])
    if not sums and not squares:
        return set(), set()
    history = np.stack([one.members[cells] for one in (*sums, *squares)])
    _, first, group, sizes = np.unique(history, axis=1, return_index=True, return_inverse=True, return_counts=True)
    group, A = group.reshape(-1), history[:, first].astype(float)
    told = np.array([one.number for one in (*sums, *squares)])
    truth = np.bincount(group, weights=rows.values[cells, j], minlength=len(sizes))
    if squares:
        upper, lower = A[: len(sums)], A[len(sums) :]
        centre = np.array([one.centre for one in squares])
        A = np.block([[upper, np.zeros_like(upper)], [-2.0 * centre[:, None] * lower, lower]])
        truth = np.r_[truth, np.bincount(group, weights=rows.values[cells, j] ** 2, minlength=len(sizes))]
    u, s, vt = np.linalg.svd(A, full_matrices=False)
    keep = s > s.max() * 1e-10
    u, s, vt = u[:, keep], s[keep], vt[keep]
    solution = vt.T @ ((u.T @ told) / s)
    few, single = set(), set()
    for members in _solvable(vt, np.tile(sizes, 2) if squares else sizes, len(sizes), fewest):
        if abs(solution[members].sum() - truth[members].sum()) < SOLVED * (1.0 + np.abs(truth).max()):
            which = cells[np.isin(group, np.unique(np.array(members) % len(sizes)))]
            few |= set(which.tolist())
            single |= set(which.tolist()) if len(which) == 1 else set()
    return few, single


def solve_recorded(heard: Heard, fewest: int = FEWEST) -> Solved:
    """Return what follows for whoever knows the very labels that each sum was told over, column by column.

    A participant with rules does not tell sums over nearest centroids; a spy at its audit has written the labels down.
    """
    small: set[int] = set()
    single: set[int] = set()
    known = n_told = 0
    for j in range(heard.rows.values.shape[1]):
        sums: list[Equation] = [
            Equation(np.ones(len(heard.rows.values), dtype=bool), total) for total in _total(heard, j)
        ]
        squares: list[Equation] = []
        for spied, part, centres in _spied_parts(heard):
            for k in np.flatnonzero((part.sizes > 0) & (part.counts[:, j] > 0)):
                n_told += 1
                possible = (_equations(one.of_column(j), int(k), part, centres, heard.rows, j) for one in spied)
                if (equation := next(chain.from_iterable(possible), None)) is not None:
                    (sums if equation.centre is None else squares).append(equation)
                    known += 1
        few, one_row = solve_column(sums, squares, heard.rows, j, fewest)
        small |= few
        single |= one_row
    return Solved(frozenset(small), frozenset(single), known, n_told)


def _total(heard: Heard, j: int) -> list[float]:
    return [one.sums[j] for one in sums_told(heard.messages) if one.source == "moments" and one.counts[j] > 0]


def _spied_parts(heard: Heard) -> Iterable[tuple[Sequence[Spied], Any, np.ndarray | None]]:
    """Yield the labels of a message, each part of it that they are behind, and the centres of its squares."""
    for (request, reply), spied in zip(heard.messages, heard.spied, strict=True):
        if isinstance(reply, Refinement):
            yield from ((spied, part, None) for part in reply.refined)
        elif isinstance(reply, LocalSummary) and request.columns is not None:
            yield spied, reply, None
        elif isinstance(reply, Labelled) and reply.squares is not None:
            yield spied, reply, request.centres.values


def _equations(
    labels: np.ndarray, k: int, part: Any, centres: np.ndarray | None, rows: Rows, j: int
) -> Iterable[Equation]:
    """Yield the equation of a told cluster, whichever number it has in the labels, if the numbers are really those."""
    for number in [k, *(n for n in np.unique(labels) if n not in {k, -1})]:
        members = (labels == number) & rows.observed[:, j]
        if members.sum() != part.counts[k, j]:
            continue
        x = rows.values[members, j]
        if centres is None:
            told, true = part.values[k, j] * part.counts[k, j], x.sum()
        else:
            told, true = part.squares[k, j], np.square(x - centres[k, j]).sum()
        if abs(told - true) < 1e-7 * (1.0 + np.abs(x).sum()):
            c = None if centres is None else float(centres[k, j])
            yield Equation(labels == number, told if c is None else told - len(x) * c**2, c)


def _solvable(vt: np.ndarray, sizes: np.ndarray, n_groups: int, fewest: int) -> Iterable[list[int]]:
    """Yield groups, and pairs of groups, with fewer rows than the minimum whose indicator is in the row space."""
    projector = vt.T @ vt
    alone = np.diag(projector)
    small = np.flatnonzero((sizes < fewest) & (alone > 1e-9))
    yield from ([int(g)] for g in small[alone[small] > 1.0 - 1e-9])
    rest = small[alone[small] <= 1.0 - 1e-9]
    both = alone[rest][:, None] + alone[rest][None] + 2.0 * projector[np.ix_(rest, rest)]
    same = (rest[:, None] // n_groups) == (rest[None] // n_groups)
    few = sizes[rest][:, None] + sizes[rest][None] < fewest
    for a, b in zip(*np.nonzero((both > 2.0 - 1e-9) & few & same), strict=True):
        if a < b:
            yield [int(rest[a]), int(rest[b])]


def _sets(labellings: Sequence[Labelling], n_rows: int) -> np.ndarray:
    """Return all clusters of all labellings, and all rows, as sets × rows; each set once."""
    sets = [np.ones(n_rows, dtype=bool)]
    for labels in labellings:
        sets += [labels == k for k in np.unique(labels) if k >= 0]
    return np.unique(np.stack(sets), axis=0)


def _members(told: Told, sets: np.ndarray, rows: Rows) -> int | None:
    """Return the set whose sums were told; None if the numbers are those of no known set."""
    for at in np.flatnonzero(sets.sum(axis=1) == told.size):
        counts = rows.observed[sets[at]].sum(axis=0)
        told_columns = told.counts > 0
        sums = rows.values[sets[at]].sum(axis=0)
        close = np.abs(sums - told.sums) < 1e-7 * (1.0 + np.abs(rows.values[sets[at]]).sum(axis=0))
        if (counts == told.counts)[told_columns].all() and close[told_columns].all():
            return int(at)
    return None


def _members_of_squares(told: Squares, sets: np.ndarray, rows: Rows) -> int | None:
    for at in np.flatnonzero(sets.sum(axis=1) == told.size):
        apart = np.where(rows.observed[sets[at]], rows.values[sets[at]] - told.centre, 0.0)
        close = np.abs(np.square(apart).sum(axis=0) - told.squares) < 1e-7 * (1.0 + told.squares)
        if close[told.counts > 0].all():
            return int(at)
    return None


def rounds(heard: Heard) -> list[Labelling]:
    """Compute the labelling behind each set of centroids of each round again, as an unguarded participant does it."""
    rows = ArrayRows(heard.rows.values, heard.rows.observed)
    found = []
    for request, reply in heard.messages:
        if isinstance(reply, Refinement):
            found += [_round(rows, sent, request) for sent in request.rivals]
    return found


def _round(rows: ArrayRows, sent: Any, request: Any) -> Labelling:
    centres, extent = MaskedCentroids.of(sent.values, sent.known.astype(float)), Extent(sent.low, sent.high)
    near = Nearest(rows, centres, extent)
    labels = np.concatenate([near.labels(piece) for piece in rows.pieces(len(centres))])
    tally = means(rows, labels, len(centres))
    start = local_start(centres, tally.centroids(), rows.mean[None])[tally.sizes >= request.min_points]
    fit = lloyd(rows, MaskedCentroids.of(start, np.ones_like(start)), request.max_iter)
    return np.asarray(fit.labels)
