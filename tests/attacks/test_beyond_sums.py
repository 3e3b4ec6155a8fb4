"""Numbers that are computed from rows, not only from told sums: do they tell whether a known row is there?

Iterations of k-means within a round could move centres by exact means, and stability could be measured on exact labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intarsia import ReleasePolicy
from intarsia.protocol import Centres, Columns, Describe, Failure, MeasureStability, Refine, Summarize
from tests.attacks.listening import participant_of

D, N = 4, 15
REACH = np.full(D, 1e3)


def columns_of(one: Any) -> Columns:
    moments = one.handle(Describe(scale="standard")).moments
    return Columns(moments.mean.copy(), np.sqrt(moments.m2 / moments.count), {})


def ask(one: Any, request: Any) -> Any:
    reply = one.handle(request)
    assert not isinstance(reply, Failure), reply
    return reply


def centres(values: np.ndarray) -> Centres:
    return Centres(values, np.ones(values.shape, bool), -REACH, REACH)


def with_a_small_group(seed: int, with_row: bool) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A table with seven rows far from all others, and a known row among the many, or another in its place."""
    rng = np.random.default_rng(seed)
    small = rng.normal(size=(7, D)) * 0.3 + np.r_[12.0, np.zeros(D - 1)]
    many, row, other = rng.normal(size=(300, D)), rng.normal(size=D), rng.normal(size=D)
    values = np.r_[many, small, [row if with_row else other]][rng.permutation(308)]
    return {f"x{j}": values[:, j].copy() for j in range(D)}, row


def says_there(one: Any, row: np.ndarray, max_iter: int) -> bool:
    """Lay a thin slab through the mean of the small group and the known row, then one beside the row.

    The group is told with the slab, because its mean is there, but its rows are not in it: exact means of the first
    iteration are those of the known row alone, or of nothing.
    """
    columns = columns_of(one)
    summary = ask(one, Summarize(seed=0, n_clusters=3, n_local_clusters=3, max_local_clusters=3, columns=columns))
    group = summary.values[np.argmin(summary.sizes)]
    known = (row - columns.shift) / columns.scale
    way = (known - group) / np.linalg.norm(known - group)
    across = np.random.default_rng(1).normal(size=D)
    basis = np.linalg.qr(np.stack([way, group], 1))[0]
    across -= basis @ (basis.T @ across)
    across /= np.linalg.norm(across)
    sizes = []
    for number, turn in ((1, 1e-4), (2, 0.0)):
        normal = across + turn * way
        slab = np.stack([group - 1e-6 * normal, group, group + 1e-6 * normal])
        request = Refine(
            seed=0, round=number, rivals=(centres(slab),), min_points=1, max_iter=max_iter, columns=columns
        )
        sizes.append(ask(one, request).refined[0].sizes.tolist())
    return sizes[0] != sizes[1] if min(map(min, sizes)) < 5 else summary.sizes.min() not in sizes[1]


@pytest.mark.parametrize("max_iter", [2, 10])
def test_iterations_within_a_round_do_not_tell_whether_a_known_row_is_there(max_iter):
    def right(policy: ReleasePolicy | None) -> float:
        hits = 0
        for seed in range(N):
            for there in (True, False):
                table, row = with_a_small_group(seed, there)
                hits += says_there(participant_of(table, "a", policy), row, max_iter) == there
        return hits / (2 * N)

    assert right(None) >= 0.9
    assert 0.4 <= right(ReleasePolicy()) <= 0.6


SMALL = np.r_[8.0, np.zeros(D - 1)]


def with_a_known_row_at_the_end(seed: int) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """A table with a small cluster, the row at its far end, and another place at this end where no row is."""
    rng = np.random.default_rng(seed)
    cluster = SMALL + rng.normal(size=(25, D))
    values = np.r_[rng.normal(size=(250, D)), cluster]
    ends = SMALL + rng.normal(size=(200, D))

    def far(rows: np.ndarray) -> np.ndarray:
        rows = rows[rows[:, 0] > SMALL[0]]
        return rows[np.argsort(-np.linalg.norm(rows - SMALL, axis=1))]

    return {f"x{j}": values[:, j].copy() for j in range(D)}, far(cluster)[0], far(ends)[10]


def scores_differ(one: Any, row: np.ndarray) -> bool:
    """Put the border of the small cluster just behind the known row, then just before it."""
    columns = columns_of(one)
    known, middle, other = ((x - columns.shift) / columns.scale for x in (row, SMALL, np.zeros(D)))
    scores = []
    for at in (1 - 1e-4, 1 + 1e-4):
        values = np.stack([middle, other, middle + 2 * at * (known - middle)])
        scores.append(ask(one, MeasureStability(seed=0, centres=centres(values), columns=columns)).scores)
    return not np.array_equal(*scores, equal_nan=True)


def test_stability_does_not_tell_whether_a_known_row_is_there():
    worlds = [with_a_known_row_at_the_end(seed) for seed in range(N)]

    def right(policy: ReleasePolicy | None) -> float:
        hits = [scores_differ(participant_of(table, "a", policy), member) for table, member, _ in worlds]
        misses = [not scores_differ(participant_of(table, "a", policy), other) for table, _, other in worlds]
        return float(np.mean([*hits, *misses]))

    assert right(None) >= 0.9
    assert 0.4 <= right(ReleasePolicy()) <= 0.6
