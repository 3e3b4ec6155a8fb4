from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.centroids import MaskedCentroids, refill
from intarsia.core.distances import nearest
from intarsia.core.fast import closest_pair, farthest_pair
from intarsia.core.grouping.methods import (
    LocalCentroids,
    _every_distance,
    _Wide,
    by_size,
    excess_components,
    far_apart,
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


@st.composite
def many_centroids(draw):
    """A few dozen participants with a few clusters each, tied or not, some of whom see little."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d, k = draw(st.integers(2, 40)), draw(st.integers(2, 12)), draw(st.integers(1, 5))
    sizes = rng.integers(1, k + 1 + draw(st.sampled_from([0, 2])), size=n)
    owner = np.repeat(np.arange(n), sizes)
    centres = rng.normal(size=(k, d)) * 3
    values = np.concatenate([centres[rng.permutation(np.arange(size) % k)] for size in sizes])
    values += draw(st.sampled_from([0.0, 0.1, 1.0, 10.0])) * rng.normal(size=values.shape)
    seen = rng.random((n, d)) < draw(st.sampled_from([0.2, 0.5, 1.0]))
    counts = seen[owner] * rng.integers(1, 30, size=values.shape)
    counts[rng.random(counts.shape) < draw(st.sampled_from([0.0, 0.1]))] = 0
    if draw(st.booleans()):
        values, counts = np.round(values), np.where(counts > 0, 4, 0)  # ties; sums of a power of two are exact
    values *= 10.0 ** rng.integers(-3, 4, size=d) if draw(st.booleans()) else 1.0
    metric = draw(st.sampled_from(["euclidean", "manhattan"]))
    return LocalCentroids(MaskedCentroids.of(values, counts), owner, metric), min(k, len(owner))


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


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
@given(data=st.data())
def test_seeds_without_all_distances_are_those_with_them(metric, data):
    local, k = data.draw(st.one_of(local_centroids(metric), many_centroids()))
    local = LocalCentroids(local.centroids, local.owner, metric)
    seeds = max_min_seeds(local.distances, k).tolist()
    assert far_apart(local, k).tolist() == seeds
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"_HIGH": 3, "_WIDE": 5, "_EXACT": 2}.items():
            patch.setattr(farthest_pair, name, value)
        assert far_apart(local, k).tolist() == seeds


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


@contextmanager
def narrow_windows():
    """Windows so small that bounds decide, and are looked at again and again."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"_CORE": 2, "_WINDOW": 5, "_SHORT": 3, "_LONG": 4, "_WIDEST": 4, "_POOL": 2}.items():
            patch.setattr(closest_pair, name, value)
        yield


@given(many_centroids())
def test_method_a_with_bounds_equals_all_distances_computed_again_to_the_last_tie(case):
    local, k = case
    apart = np.bincount(local.owner)[local.owner] <= k
    plain = _every_distance(local, apart, method_a_seeds(local, k))
    np.testing.assert_array_equal(method_a(local, k), plain)
    with narrow_windows():
        np.testing.assert_array_equal(method_a(local, k), plain)


def test_method_a_on_copies_of_the_same_table_takes_them_in_order():
    local = line([0, 10] * 40, np.arange(80) // 2)
    with narrow_windows():
        assert method_a(local, 2).tolist() == [0, 1] * 40


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


@given(many_centroids())
def test_method_b_by_products_equals_method_b_by_differences(case):
    local, k = case
    centres = local.centroids.take(np.arange(k))
    np.testing.assert_array_equal(_Wide(local).nearest(centres), nearest(local.distances_to(centres)))


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
