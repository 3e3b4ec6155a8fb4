from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.grouping.local_centroids import LocalCentroids
from intarsia.core.grouping.method_a import method_a, method_a_seeds
from intarsia.exceptions import TooFewClustersError
from tests import naive
from tests.core.grouping.cases import line
from tests.strategies import local_centroids


def test_method_a_merges_the_closest_first_and_moves_the_centre():
    # seeds 0 and 10 (participant 0); 2 joins 0 (centre 1), 9 joins 10, and 5.6 is nearer to 9.5 than to 1
    local = line([0, 10, 2, 9, 5.6], [0, 0, 1, 1, 2])
    assert method_a(local, 2).tolist() == [0, 1, 0, 1, 1]


def test_method_a_never_puts_two_clusters_of_a_participant_together():
    local = line([0, 10, 1, 2], [0, 0, 1, 1])
    assert method_a(local, 2).tolist() == [0, 1, 0, 1]


def test_method_a_lets_a_participant_that_overclusters_share_a_group():
    local = line([0, 10, 1, 2, 9], [0, 0, 1, 1, 1])
    assert method_a(local, 2).tolist() == [0, 1, 0, 0, 1]


def test_method_a_seeds_by_max_min_when_nobody_has_all_clusters():
    local = line([0, 5, 0.1, 10, 5.1, 9.9], [0, 0, 1, 1, 2, 2])
    assert naive.partition(method_a(local, 3)) == {frozenset({0, 2}), frozenset({1, 4}), frozenset({3, 5})}
    assert sorted(method_a_seeds(local, 3).tolist()) == [0, 1, 3]


@given(local_centroids())
def test_method_a_equals_the_printed_loop(case):
    local, k = case
    slow = naive.method_a(local.centroids.values, local.centroids.counts, local.owner.tolist(), k)
    fast = method_a(local, k)
    assert len(np.unique(fast)) == k
    if slow is not None:  # the printed loop does not say what to do when it is stuck
        assert fast.tolist() == slow


def chebyshev(u, v):
    return float(np.abs(u - v).max())


@pytest.mark.parametrize("metric", ["manhattan", "cosine", chebyshev])
@given(data=st.data())
def test_method_a_equals_the_printed_loop_with_any_metric(metric, data):
    local, k = data.draw(local_centroids(metric))
    # with these counts the mean of one centroid is that centroid: two that span a feature are at distance 1 in both
    jitter = np.random.default_rng(0).normal(size=local.centroids.values.shape)  # no other ties
    values = local.centroids.values + 0.01 * np.abs(local.centroids.values).max() * jitter
    own = MaskedCentroids.of(values, np.where(local.centroids.seen, 4, 0))
    local = LocalCentroids(own, local.owner, metric)
    slow = naive.method_a(own.values, own.counts, local.owner.tolist(), k, metric)
    fast = method_a(local, k)
    if slow is not None:
        assert fast.tolist() == slow


def test_method_a_with_duplicate_centroids_breaks_ties_by_order():
    # integers and counts of 1 and 2: every sum is exact, so ties are real ties in both
    local = line([0, 8, 0, 8, 8, 0], [0, 0, 1, 1, 2, 2])
    slow = naive.method_a(local.centroids.values, local.centroids.counts, local.owner.tolist(), 2)
    assert method_a(local, 2).tolist() == slow == [0, 1, 0, 1, 1, 0]


def test_more_groups_than_local_clusters_is_refused_with_counts():
    with pytest.raises(TooFewClustersError, match="5 global clusters .* 2 participant.* only 3 local"):
        method_a(line([0, 1, 2], [0, 0, 1]), 5)
