"""The blind listener: subtracts told sums, without knowing which rows are behind them.

Two sums whose sizes differ by one may differ by one row. Sums that differ by two rows, or by one row in and one out, give
another row when one of the two is known (peeling). What comes out is compared with the real rows; a blind attacker is
sure of a row that follows from two different pairs of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tests.attacks.listening import Rows, Told

TOLERANCE = 1e-6
MOST_DIFFERENCES = 20_000  # that are combined with known rows


class Recovered(NamedTuple):
    """The rows that were computed, those of them that the attacker is sure of, and confirmed results that are no rows."""

    rows: frozenset[int]
    sure: frozenset[int]
    false: int


class Differences(NamedTuple):
    """Differences of two told sums: by feature the count and the sum, and where both were told."""

    counts: np.ndarray
    sums: np.ndarray
    usable: np.ndarray
    reach: np.ndarray  # the size of the sums, by which errors are measured


def blind(told: Sequence[Told], rows: Rows, rounds_of_peeling: int = 5) -> Recovered:
    """Return the rows that follow from pairs of told sums, and from these rows again."""
    if len(told) < 2:
        return Recovered(frozenset(), frozenset(), 0)
    single = differences(told, 1)
    place, row = matches(single, rows)
    known = set(row.tolist())
    sure, false = _confirmed(single, dict(zip(place.tolist(), row.tolist(), strict=True)))
    swaps, pairs = differences(told, 0), differences(told, 2)
    new = set(known)
    for _ in range(rounds_of_peeling):
        if not new:
            break
        found: set[int] = set()
        for r in new:
            for sign, more in ((1.0, swaps), (-1.0, pairs)):
                cells, seen = rows.values[r], rows.observed[r].astype(float)
                moved = more._replace(counts=more.counts + sign * seen, sums=more.sums + sign * cells * seen)
                found |= set(matches(moved, rows)[1].tolist())
        new = found - known
        known |= new
    return Recovered(frozenset(known), frozenset(sure), false)


def differences(told: Sequence[Told], n_rows: int) -> Differences:
    """Return the differences of any two sums whose sizes differ by ``n_rows``."""
    sizes = np.array([one.size for one in told])
    counts, sums = np.stack([one.counts for one in told]), np.stack([one.sums for one in told])
    more, less = np.nonzero(sizes[:, None] - sizes[None] == n_rows)
    keep = more != less
    more, less = more[keep][:MOST_DIFFERENCES], less[keep][:MOST_DIFFERENCES]
    usable = (counts[more] > 0) & (counts[less] > 0)
    by = np.where(usable, counts[more] - counts[less], 0.0)
    possible = (np.abs(by) <= max(n_rows, 1)).all(axis=1) & (usable.sum(axis=1) * 2 >= counts.shape[1])
    more, less, usable, by = more[possible], less[possible], usable[possible], by[possible]
    reach = 1.0 + np.abs(sums[more]) + np.abs(sums[less])
    return Differences(by, np.where(usable, sums[more] - sums[less], 0.0), usable, reach)


def matches(apart: Differences, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return which differences are rows, and which rows: the same values in all columns that were told, and in three."""
    plausible = ((apart.counts == 0) | (apart.counts == 1)).all(axis=1)
    enough = ((apart.counts == 1) & apart.usable).sum(axis=1) >= min(3, rows.values.shape[1])
    which = np.flatnonzero(plausible & enough)
    found: list[tuple[int, int]] = []
    order = np.argsort([-len(np.unique(rows.values[:, j])) for j in range(rows.values.shape[1])])
    for at in which:
        left = np.arange(len(rows.values))
        allowed = TOLERANCE * (1e-3 * apart.reach[at] + 1.0)
        for j in order[apart.usable[at][order]]:
            same = rows.observed[left, j] == (apart.counts[at, j] == 1)
            left = left[
                same & (~rows.observed[left, j] | (np.abs(rows.values[left, j] - apart.sums[at, j]) < allowed[j]))
            ]
            if not len(left):
                break
        found += [(int(at), int(r)) for r in left[:1]]
    at, row = np.array(found, dtype=int).reshape(-1, 2).T
    return at, row


def _confirmed(apart: Differences, row_of: dict[int, int]) -> tuple[set[int], int]:
    """Return rows that follow from two pairs of sums, and how many other results do."""
    seen: dict[bytes, list[int]] = {}
    for at in range(len(apart.sums)):
        if ((apart.counts[at] == 0) | (apart.counts[at] == 1)).all():
            seen.setdefault((np.round(apart.sums[at], 6) + 0.0).tobytes(), []).append(at)
    often = [group for group in seen.values() if len(group) > 1]
    sure = {row_of[at] for group in often for at in group if at in row_of}
    return sure, sum(not any(at in row_of for at in group) for group in often)
