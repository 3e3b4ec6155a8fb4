"""Linkages are scipy's where all see everything, and the paper's table, group by group, where some do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform

from intarsia.core.distances import Extent, extent_of
from intarsia.core.grouping.agglomeration import MergeTree
from intarsia.core.grouping.linkages import LINKAGES, OF_MOMENTS, OF_POINTS, Moments, tree_of_moments, tree_of_points
from tests import naive

OTHERS = LINKAGES[1:]


def cases(seed, d=3, most=7):
    """Points of some clusters over some of the features, and which these are."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, most))
    seen = rng.random((m, d)) < 0.7
    seen[np.arange(m), rng.integers(d, size=m)] = True
    return [rng.normal(rng.normal(size=s.sum()) * 2, 1, size=(rng.integers(1, 6), s.sum())) for s in seen], seen


def extent_of_points(points, seen):
    low, high = np.zeros(seen.shape), np.zeros(seen.shape)
    for z, rows in enumerate(points):
        low[z, seen[z]], high[z, seen[z]] = rows.min(axis=0), rows.max(axis=0)
    return Extent(extent_of(low, seen).low, extent_of(high, seen).high)


def tree_of(name, points, seen):
    extent = extent_of_points(points, seen)
    if name in OF_POINTS:
        return tree_of_points(name, points, seen, extent)
    counts, means, variances = np.zeros((3, *seen.shape))
    for z, rows in enumerate(points):
        counts[z, seen[z]], means[z, seen[z]], variances[z, seen[z]] = len(rows), rows.mean(axis=0), rows.var(axis=0)
    return tree_of_moments(name, Moments(counts, means, variances), extent)


def spread(points, seen, clusters, j):
    """All values of a feature in some clusters."""
    return [row[seen[z][:j].sum()] for z in clusters if seen[z][j] for row in points[z]]


def between(name, points, seen, width, r, s):
    """The linkage between two groups of clusters, from all their points, or None."""
    if name in OF_MOMENTS:
        shared = [j for j in range(len(width)) if width[j] > 0 and all(any(seen[z][j] for z in g) for g in (r, s))]
        if not shared:
            return None
        total = 0.0
        for j in shared:
            x, y = (np.array(spread(points, seen, g, j)) for g in (r, s))
            both = np.concatenate([x, y])
            if name == "variance":
                total += both.var() - x.var() - y.var()
            elif name == "ward":
                total += both.var() * len(both) - x.var() * len(x) - y.var() * len(y)
            else:
                total += (x.mean() - y.mean()) ** 2
        return total / sum(width[j] ** 2 for j in shared)
    means, smallest, sums, pairs = [], [], 0.0, 0
    for a in r:
        for b in s:
            shared = [j for j in range(len(width)) if width[j] > 0 and seen[a][j] and seen[b][j]]
            if not shared:
                continue
            reach = math.sqrt(sum(width[j] ** 2 for j in shared))
            distances = [
                math.sqrt(sum((x[seen[a][:j].sum()] - y[seen[b][:j].sum()]) ** 2 for j in shared)) / reach
                for x in points[a]
                for y in points[b]
            ]
            means.append(sum(distances) / len(distances))
            smallest.append(min(distances))
            sums, pairs = sums + sum(distances), pairs + len(distances)
    if not pairs:
        return None
    return {"smallest": min(smallest), "smallest_mean": min(means), "mean": sums / pairs}[name]


@given(st.integers(0, 2**32 - 1), st.sampled_from(OTHERS))
def test_every_merge_joins_the_closest_two_groups_of_the_definition(seed, name):
    points, seen = cases(seed)
    width, tree = extent_of_points(points, seen).width, tree_of(name, points, seen)
    for k in range(tree.n_leaves, tree.fewest_groups, -1):
        before = [np.flatnonzero(tree.cut(k) == g).tolist() for g in range(k)]
        after = naive.partition(tree.cut(k - 1))
        (joined,) = [(r, s) for r in before for s in before if r < s and frozenset(r + s) in after]
        values = [between(name, points, seen, width, r, s) for r in before for s in before if r < s]
        closest = between(name, points, seen, width, *joined)
        assert closest == pytest.approx(min(v for v in values if v is not None), rel=1e-9, abs=1e-9)
    groups = [np.flatnonzero(tree.cut(tree.fewest_groups) == g).tolist() for g in range(tree.fewest_groups)]
    assert all(between(name, points, seen, width, r, s) is None for r in groups for s in groups if r != s)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("smallest", "single"),
        ("smallest_mean", "single"),
        ("mean", "average"),
        ("ward", "ward"),
        ("centroid", "centroid"),
    ],
)
def test_of_single_points_that_see_everything_it_is_scipy_s(name, theirs):
    points = np.random.default_rng(3).normal(size=(40, 2))
    tree = tree_of(name, list(points[:, None]), np.ones((40, 2), dtype=bool))
    expected = linkage(points, theirs)
    for k in range(1, 41):  # cut_tree needs heights that grow, which those of centroids need not
        assert (tree.cut(k) == MergeTree(40, expected[:, :2].astype(int), expected[:, 2]).cut(k)).all()
    reach = np.linalg.norm(np.ptp(points, axis=0))
    heights = tree.to_linkage(2.0)[:, 2] * reach
    if name == "ward":  # scipy's is √2 times as high
        heights *= math.sqrt(2)
    np.testing.assert_allclose(heights, np.maximum.accumulate(expected[:, 2]))


def test_mean_distances_of_clusters_of_one_size_are_average_linkage_of_their_means():
    rng = np.random.default_rng(0)
    points = [rng.normal(rng.normal(size=2) * 5, 1, size=(6, 2)) for _ in range(9)]
    reach = np.linalg.norm(np.ptp(np.concatenate(points), axis=0))
    d = np.array([[np.linalg.norm(p[:, None] - q[None], axis=2).mean() / reach for q in points] for p in points])
    np.fill_diagonal(d, 0.0)
    expected = linkage(squareform(d, checks=False), "average")
    tree = tree_of("mean", points, np.ones((9, 2), dtype=bool))
    for k in range(1, 10):
        assert naive.partition(tree.cut(k)) == naive.partition(cut_tree(expected, k)[:, 0])


@pytest.mark.parametrize("name", OTHERS)
def test_equal_points_and_clusters_apart_give_trees_that_a_file_can_hold(name):
    tree = tree_of(name, [np.zeros((3, 1)), np.zeros((2, 1)), np.ones((4, 1))], np.ones((3, 1), dtype=bool))
    assert naive.partition(tree.cut(2)) == {frozenset({0, 1}), frozenset({2})}
    assert ((tree.strengths > 0) & (tree.strengths < np.inf)).all()
    apart = tree_of(name, [np.arange(4.0)[:, None]] * 2, np.eye(2, dtype=bool))
    assert apart.fewest_groups == 2


@pytest.mark.parametrize("seed", range(20))
def test_of_equally_close_groups_the_first_in_order_are_joined(seed):
    rows = np.random.default_rng(seed).integers(0, 3, size=(12, 2)).astype(float)
    tree = tree_of("smallest", [row[None] for row in rows], np.ones(rows.shape, dtype=bool))
    values = np.square(rows[:, None] - rows[None]).sum(axis=2)
    np.fill_diagonal(values, np.inf)
    name = np.arange(12)
    for step, (left, right) in enumerate(tree.merges):
        r, s = divmod(int(values.argmin()), 12)  # the first of the smallest of all pairs
        assert (left, right) == (name[r], name[s])
        values[r] = values[:, r] = np.minimum(values[r], values[s])
        values[r, r] = np.inf
        values[s] = values[:, s] = np.inf
        name[r] = 12 + step
