from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from intarsia.core.centroids import MaskedCentroids, refill
from intarsia.core.meta_clustering import (
    LocalCentroids,
    by_size,
    excess_components,
    max_min_seeds,
    method_a,
    method_a_seeds,
    method_b,
    objective,
)
from intarsia.exceptions import TooFewClustersError
from tests import naive
from tests.strategies import local_centroids


def line(points, owner, d=1):
    values = np.array(points, dtype=float).reshape(-1, d)
    return LocalCentroids(MaskedCentroids.of(values, np.ones(values.shape)), np.array(owner))


def test_objective_worked_by_hand():
    # extent 10; group {0, 2} has centre 1 and two members at distance 0.1; group {10} is its own centre
    assert objective(line([0, 2, 10], [0, 1, 0]), np.array([0, 0, 1]), 2) == pytest.approx(2 * 0.1**2)


@given(local_centroids())
def test_objective_equals_the_formula(case):
    local, k = case
    groups = np.arange(len(local)) % k
    slow = naive.objective(local.centroids.values, local.centroids.counts, groups.tolist())
    assert objective(local, groups, k) == pytest.approx(slow, rel=1e-9, abs=1e-12)


def test_max_min_seeds_are_the_farthest_pair_then_the_farthest_from_both():
    assert max_min_seeds(line([0, 4, 10, 9], range(4)).distances, 3).tolist() == [0, 2, 1]


@given(local_centroids())
def test_max_min_seeds_equal_the_formula(case):
    local, k = case
    d = local.distances
    slow = [[None if np.isnan(x) else x for x in row] for row in d]
    assert max_min_seeds(d, k).tolist() == naive.max_min_seeds(slow, k)


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


def test_method_a_with_duplicate_centroids_breaks_ties_by_order():
    # integers and counts of 1 and 2: every sum is exact, so ties are real ties in both
    local = line([0, 8, 0, 8, 8, 0], [0, 0, 1, 1, 2, 2])
    slow = naive.method_a(local.centroids.values, local.centroids.counts, local.owner.tolist(), 2)
    assert method_a(local, 2).tolist() == slow == [0, 1, 0, 1, 1, 0]


@given(local_centroids())
def test_method_b_equals_the_printed_loop(case):
    local, k = case
    slow = naive.method_b(local.centroids.values, local.centroids.counts, k)
    fast = method_b(local, k)
    assert (fast >= 0).all()
    assert fast.max() < k
    if slow is not None:
        assert fast.tolist() == slow


def test_an_emptied_group_gets_the_worst_fitted_centroid():
    misfit = np.array([0.1, 0.2, 0.7, 9.0])
    assert refill(np.array([0, 0, 0, 1]), misfit, 3).tolist() == [0, 0, 2, 1]  # 1 has a single member, which stays
    assert refill(np.array([0, 0, -1]), np.array([0.1, 0.2, np.inf]), 2).tolist() == [0, 0, 1]


def test_more_groups_than_local_clusters_is_refused_with_counts():
    with pytest.raises(TooFewClustersError, match="5 global clusters .* 2 participant.* only 3 local"):
        method_a(line([0, 1, 2], [0, 0, 1]), 5)


def test_groups_are_numbered_by_size():
    assert by_size(np.array([5, 5, 2, 7]), np.array([1.0, 1.0, 9.0, 2.0])).tolist() == [1, 1, 0, 2]


def test_excess_components_counts_pieces_that_cannot_be_compared():
    comparable = np.eye(4, dtype=bool)
    comparable[0, 1] = comparable[1, 0] = True
    assert excess_components(comparable, np.array([0, 0, 1, 1])) == 1
    assert excess_components(comparable, np.array([0, 0, 1, 2])) == 0
