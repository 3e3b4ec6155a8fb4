from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.centroids import refill
from intarsia.core.distances import nearest
from intarsia.core.fast.farthest_pair import BlockSizes
from intarsia.core.grouping.local_centroids import LocalCentroids
from intarsia.core.grouping.method_b import NearestCentre, far_apart, method_b
from tests import naive
from tests.core.grouping.cases import line, many_centroids
from tests.strategies import local_centroids


def test_max_min_seeds_are_the_farthest_pair_then_the_farthest_from_both():
    assert far_apart(line([0, 4, 10, 9], range(4)), 3).tolist() == [0, 2, 1]


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
@given(data=st.data())
def test_max_min_seeds_equal_the_formula_with_blocks_of_any_size(metric, data):
    local, k = data.draw(st.one_of(local_centroids(metric), many_centroids()))
    local = LocalCentroids(local.centroids, local.owner, metric)
    seeds = naive.max_min_seeds([[None if np.isnan(x) else x for x in row] for row in local.distances], k)
    assert far_apart(local, k).tolist() == seeds
    assert far_apart(local, k, BlockSizes(rows=3, columns=5, exact=2)).tolist() == seeds


@given(local_centroids())
def test_method_b_equals_the_printed_loop(case):
    local, k = case
    slow = naive.method_b(local.centroids.values, local.centroids.counts, k)
    fast = method_b(local, k)
    assert (fast >= 0).all()
    assert fast.max() < k
    if slow is not None:
        assert fast.tolist() == slow


@given(many_centroids())
def test_method_b_by_products_equals_method_b_by_differences(case):
    local, k = case
    centres = local.centroids.take(np.arange(k))
    np.testing.assert_array_equal(NearestCentre(local).nearest(centres), nearest(local.distances_to(centres)))


def test_an_emptied_group_gets_the_worst_fitted_centroid():
    misfit = np.array([0.1, 0.2, 0.7, 9.0])
    assert refill(np.array([0, 0, 0, 1]), misfit, 3).tolist() == [0, 0, 2, 1]  # 1 has a single member, which stays
    assert refill(np.array([0, 0, -1]), np.array([0.1, 0.2, np.inf]), 2).tolist() == [0, 0, 1]
