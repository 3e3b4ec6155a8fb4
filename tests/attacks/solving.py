"""The listener who knows which rows are behind every told sum (arXiv 2511.07073): an upper bound of all subtraction.

Rows with the same history form a group. Told sums are A y with A sets × groups and y the sums of groups. The sum of group g
follows from what was told if and only if e_g is in the row space of A. Sums of squares around a centre c are
``q − 2 c s + n c²`` of the unknown sums s and squares q of the groups, so that they are part of the same linear system.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from intarsia.core.alignment import local_start
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent
from intarsia.core.kmeans import lloyd
from intarsia.core.rows import ArrayRows, Nearest, means
from intarsia.protocol import Refinement
from tests.attacks.listening import Heard, Rows, Squares, Told, squares_told, sums_told

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
        used = [(one, at) for one, at in sums if one.counts[j] > 0]
        around = [(one, at) for one, at in second if one.counts[j] > 0]
        pattern = np.packbits(
            np.r_[rows.observed[:, j], np.array([one.counts[j] > 0 for one, _ in sums], dtype=bool)]
        ).tobytes()
        if not around and pattern in seen:  # the same equations with other numbers
            few, one_row = seen[pattern]
        else:
            few, one_row = _column(used, around, sets, rows, j, fewest)
            seen[pattern] = few, one_row
        small |= few
        single |= one_row
    return Solved(frozenset(small), frozenset(single), len(sums) + len(second), len(told) + len(squares))


def _column(
    sums: list[tuple[Told, int]],
    squares: list[tuple[Squares, int]],
    sets: np.ndarray,
    rows: Rows,
    j: int,
    fewest: int,
) -> tuple[set[int], set[int]]:
    cells = np.flatnonzero(rows.observed[:, j])
    history = sets[[at for _, at in sums] + [at for _, at in squares]][:, cells]
    if not len(history):
        return set(), set()
    _, first, group, sizes = np.unique(history, axis=1, return_index=True, return_inverse=True, return_counts=True)
    group, A = group.reshape(-1), history[:, first].astype(float)
    told = np.array([one.sums[j] for one, _ in sums])
    if squares:
        upper, lower = A[: len(sums)], A[len(sums) :]
        centre = np.array([one.centre[j] for one, _ in squares])
        A = np.block([[upper, np.zeros_like(upper)], [-2.0 * centre[:, None] * lower, lower]])
        told = np.r_[told, [one.squares[j] - one.counts[j] * one.centre[j] ** 2 for one, _ in squares]]
    u, s, vt = np.linalg.svd(A, full_matrices=False)
    keep = s > s.max() * 1e-10
    u, s, vt = u[:, keep], s[keep], vt[keep]
    truth = np.bincount(group, weights=rows.values[cells, j], minlength=len(sizes))
    if squares:
        truth = np.r_[truth, np.bincount(group, weights=rows.values[cells, j] ** 2, minlength=len(sizes))]
    solution = vt.T @ ((u.T @ told) / s)
    few, single = set(), set()
    for members in _solvable(vt, np.tile(sizes, 2) if squares else sizes, len(sizes), fewest):
        if abs(solution[members].sum() - truth[members].sum()) < SOLVED * (1.0 + np.abs(truth).max()):
            which = cells[np.isin(group, np.unique(np.array(members) % len(sizes)))]
            few |= set(which.tolist())
            single |= set(which.tolist()) if len(which) == 1 else set()
    return few, single


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
