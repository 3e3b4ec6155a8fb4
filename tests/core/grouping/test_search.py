from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.features import overlap_graph
from intarsia.core.grouping.agglomeration import renumber, same_owner
from intarsia.core.grouping.methods import (
    LocalCentroids,
    excess_components,
    method_a,
    method_b,
    objective,
    pieces_too_many,
)
from intarsia.core.grouping.objective import CentroidProblem, ForceProblem, MovingSums, MovingWide
from intarsia.core.grouping.search import (
    assign,
    grow,
    is_allowed,
    margins,
    neighbours,
    rematch,
    search,
    search_centroids,
    search_forces,
    turned_blocks,
)
from intarsia.core.randomness import stream
from tests.naive import partition
from tests.strategies import FEW, local_centroids


def streams(k):
    return stream(0, "test", k)


def overlap_of(local):
    n = local.owner.max() + 1
    seen = np.array([local.centroids.seen[local.owner == i].any(axis=0) for i in range(n)])
    return overlap_graph(seen)


def planted(rng, n=5, k=3, d=6, noise=0.05):
    """n participants that each see half of the features, with k well separated clusters."""
    truth = rng.normal(size=(k, d)) * 3
    values, counts, owner, label = [], [], [], []
    for i in range(n):
        seen = np.zeros(d, dtype=bool)
        seen[[0, 1 + i % (d - 1), 1 + (i + 1) % (d - 1)]] = True
        for g in rng.permutation(k):
            values.append(truth[g] + noise * rng.normal(size=d))
            counts.append(np.where(seen, 10, 0))
            owner.append(i)
            label.append(g)
    return LocalCentroids(MaskedCentroids.of(np.array(values), np.array(counts)), np.array(owner)), np.array(label)


def test_search_finds_the_planted_groups_and_is_sure():
    local, label = planted(np.random.default_rng(0))
    found = search_centroids(local, 3, overlap_of(local), 20, streams)
    assert partition(found.groups) == partition(label)
    assert found.confidence > 0.5


@given(local_centroids())
def test_search_is_never_worse_than_an_allowed_heuristic(case):
    local, k = case
    found = search_centroids(local, k, overlap_of(local), 4, streams)
    problem = CentroidProblem(local, k)
    assert is_allowed(problem, found.groups)
    pieces = excess_components(local.comparable, found.groups)
    for method in (method_a, method_b):
        groups = renumber(method(local, k))
        if is_allowed(problem, groups) and excess_components(local.comparable, groups) <= pieces:
            assert found.loss <= objective(local, groups, k) + 1e-12


@pytest.mark.parametrize("kept", [MovingSums, MovingWide])
@given(local_centroids(), st.integers(0, 2**32 - 1))
def test_sums_that_are_kept_cost_what_sums_from_scratch_do(kept, case, seed):
    local, k = case
    rng = np.random.default_rng(seed)
    problem = CentroidProblem(local, k)
    moving = kept(problem, rng.integers(-1, k, size=len(local)))
    for i in rng.permutation(np.unique(local.owner)):
        mine = np.flatnonzero(local.owner == i)
        moving.take_out(mine)
        np.testing.assert_allclose(moving.costs(mine), problem.costs(mine, moving.groups), rtol=1e-6, atol=1e-9)
        moving.put(mine, rng.integers(k, size=len(mine)))
    some = np.flatnonzero(rng.random(len(local)) < 0.5)
    moving.take_out(some)
    np.testing.assert_allclose(moving.costs(some), problem.costs(some, moving.groups), rtol=1e-6, atol=1e-9)
    moving.put(some, rng.integers(k, size=len(some)))
    assert moving.loss() == pytest.approx(problem.loss(moving.groups), rel=1e-6, abs=1e-9)


def test_with_many_features_search_finds_the_same(monkeypatch):
    for seed in range(5):
        local, _ = planted(np.random.default_rng(seed), noise=1.0)
        exact = search_centroids(local, 3, overlap_of(local), 5, streams)
        with monkeypatch.context() as patch:
            patch.setattr("intarsia.core.grouping.objective.WIDE", 0)
            assert CentroidProblem(local, 3).is_wide
            wide = search_centroids(local, 3, overlap_of(local), 5, streams)
        np.testing.assert_array_equal(wide.groups, exact.groups)
        assert wide[1:5] == exact[1:5]


@pytest.mark.parametrize("many", [3000, 10])
def test_starts_at_once_end_as_starts_in_turn(monkeypatch, many):
    """Also where starts that agree end the search: those that were begun by then do not count."""
    monkeypatch.setattr("intarsia.core.grouping.objective.WIDE", 0)
    monkeypatch.setattr("intarsia.core.grouping.objective.MANY", many)
    for seed in range(4):
        local, _ = planted(np.random.default_rng(seed), n=6, noise=1.5)
        one, *others = (search_centroids(local, 3, overlap_of(local), 12, streams, n_jobs) for n_jobs in (1, 2, 5, -1))
        for other in others:
            np.testing.assert_array_equal(other.groups, one.groups)
            assert other[1:5] == one[1:5]
            assert [rival.tobytes() for rival in other.rivals] == [rival.tobytes() for rival in one.rivals]


@FEW
@given(local_centroids())
def test_with_many_features_search_is_never_worse_than_method_a_either(case):
    local, k = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("intarsia.core.grouping.objective.WIDE", 0)
        found = search_centroids(local, k, overlap_of(local), 4, streams)
    problem = CentroidProblem(local, k)
    assert is_allowed(problem, found.groups)
    groups = renumber(method_a(local, k))
    if pieces_too_many(local, groups) <= pieces_too_many(local, found.groups):
        assert found.loss <= objective(local, groups, k) + 1e-12


@FEW
@given(local_centroids())
def test_with_many_clusters_search_is_never_worse_than_method_a_either(case):
    local, k = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("intarsia.core.grouping.objective.MANY", 0)
        found = search_centroids(local, k, overlap_of(local), 4, streams)
    problem = CentroidProblem(local, k)
    assert is_allowed(problem, found.groups)
    groups = renumber(method_a(local, k))
    if pieces_too_many(local, groups) <= pieces_too_many(local, found.groups):
        assert found.loss <= objective(local, groups, k) + 1e-12


def test_with_many_clusters_search_stops_when_starts_agree(monkeypatch):
    local, label = planted(np.random.default_rng(0), n=20)
    monkeypatch.setattr("intarsia.core.grouping.objective.MANY", 30)
    asked = []

    def counted(k):
        asked.append(k)
        return streams(k)

    found = search_centroids(local, 3, overlap_of(local), 30, counted)
    assert partition(found.groups) == partition(label)
    assert len(asked) == 3  # Method A, Method B and three more agree


@given(local_centroids(), st.integers(0, 2**32 - 1))
def test_pieces_are_counted_without_all_pairs(case, seed):
    local, k = case
    groups = np.random.default_rng(seed).integers(k, size=len(local))
    expected = excess_components(local.comparable, groups)
    assert pieces_too_many(local, groups) == expected
    d = local.centroids.values.shape[1]
    assert pieces_too_many(replace(local, centroids=local.centroids.wider(d + len(local))), groups) == expected


def test_search_reaches_the_best_of_all_groupings_where_all_can_be_listed():
    rng = np.random.default_rng(4)
    for _ in range(10):
        local, _ = planted(rng, n=3, k=3, noise=2.0)
        found = search_centroids(local, 3, overlap_of(local), 20, streams)
        orders = [
            np.concatenate(parts)
            for parts in product([np.arange(3)], *[list(map(np.array, permutations(range(3))))] * 2)
        ]
        best = min(objective(local, groups, 3) for groups in orders)
        assert found.loss == pytest.approx(best, rel=1e-9)


def test_force_search_reaches_the_best_of_all_groupings():
    rng = np.random.default_rng(5)
    for _ in range(10):
        forces = rng.random((9, 9))
        forces = forces + forces.T
        np.fill_diagonal(forces, np.nan)
        owner = np.repeat(np.arange(3), 3)
        found = search_forces(forces, owner, 3, np.ones((3, 3), dtype=bool), 30, streams)
        problem = ForceProblem(forces, owner, 3)
        orders = [
            np.concatenate(parts)
            for parts in product([np.arange(3)], *[list(map(np.array, permutations(range(3))))] * 2)
        ]
        assert found.loss == pytest.approx(min(problem.loss(groups) for groups in orders))


def test_force_loss_counts_each_pair_inside_once_and_incomparable_pairs_not_at_all():
    nan = np.nan
    forces = np.array([[nan, 2.0, 5.0], [2.0, nan, nan], [5.0, nan, nan]])
    problem = ForceProblem(forces, np.array([0, 1, 2]), 1)
    assert problem.loss(np.array([0, 0, 0])) == -7.0


def test_a_grouping_in_pieces_loses_against_one_that_hangs_together():
    # 0 and 1 share nothing; together they would cost nothing, and 2 and 3 could be apart for free
    t, f = True, False
    seen = np.array([[t, f], [f, t], [t, t], [t, t]])
    values = np.array([[0.0, 0.0], [0.0, 9.0], [0.1, 0.2], [0.3, 9.1]])
    local = LocalCentroids(MaskedCentroids.of(values, seen.astype(float)), np.arange(4))
    found = search_centroids(local, 2, overlap_of(local), 20, streams)
    assert excess_components(local.comparable, found.groups) == 0


def test_confidence_is_zero_for_a_tie_even_if_every_start_agrees():
    forces = np.full((4, 4), np.nan)
    owner = np.array([0, 0, 1, 1])
    forces[0, 2] = forces[2, 0] = forces[1, 3] = forces[3, 1] = 1.0
    forces[0, 3] = forces[3, 0] = forces[1, 2] = forces[2, 1] = 1.0
    problem = ForceProblem(forces, owner, 2)
    found = search(problem, [np.array([0, 1, 0, 1])], np.ones((2, 2), dtype=bool))
    assert found.n_different == 1
    assert found.confidence == 0.0


def test_confidence_sees_a_rival_that_no_start_led_to():
    # 0.499 and 0.501 between 0 and 1: swapped they would cost hardly more
    values = np.array([[0.0], [1.0], [0.499], [0.501]])
    local = LocalCentroids(MaskedCentroids.of(values, np.ones((4, 1))), np.array([0, 0, 1, 1]))
    found = search_centroids(local, 2, np.ones((2, 2), dtype=bool), 10, streams)
    assert found.confidence < 0.02


def test_only_random_starts_solve_this_one():
    """Without random starts the search ends above the best loss on some of these; with them on none."""
    rng = np.random.default_rng(11)
    fewer = 0
    for _ in range(15):
        local, _ = planted(rng, n=6, k=3, noise=2.5)
        with_starts = search_centroids(local, 3, overlap_of(local), 30, streams).loss
        without = search_centroids(local, 3, overlap_of(local), 0, streams).loss
        assert with_starts <= without + 1e-12
        fewer += with_starts < without - 1e-9
    assert fewer > 0


def test_rematch_repairs_a_swapped_participant():
    local, label = planted(np.random.default_rng(7), n=9)
    wrong = label.copy()
    wrong[local.owner == 2] = np.roll(wrong[local.owner == 2], 1)
    assert partition(rematch(CentroidProblem(local, 3), wrong)) == partition(label)


@given(local_centroids())
def test_random_starts_are_groupings(case):
    local, k = case
    groups = grow(CentroidProblem(local, k), overlap_of(local), streams(0))
    assert len(np.unique(groups)) == k
    together = (groups[:, None] == groups[None, :]) & ~np.eye(len(groups), dtype=bool)
    assert not (together & same_owner(local.owner, k)).any()


def test_assign_is_one_to_one_or_each_on_its_own():
    costs = np.array([[1.0, 2.0], [1.0, 9.0]])
    assert assign(costs, one_per_group=True).tolist() == [1, 0]
    assert assign(costs, one_per_group=False).tolist() == [0, 0]


def test_margins_tell_the_clear_from_the_doubtful():
    values = np.array([[0.0], [10.0], [0.0], [10.0], [5.01]])
    local = LocalCentroids(MaskedCentroids.of(values, np.ones((5, 1))), np.array([0, 0, 1, 1, 2]))
    margin = margins(CentroidProblem(local, 2), np.array([0, 1, 0, 1, 1]))
    assert margin[0] == 1.0
    assert margin[4] < 0.02


def test_a_cluster_that_only_one_participant_has_is_not_doubtful():
    values = np.array([[0.0], [10.0], [20.0], [0.1]])
    local = LocalCentroids(MaskedCentroids.of(values, np.ones((4, 1))), np.array([0, 0, 0, 1]))
    groups = np.array([0, 1, 2, 0])
    assert (margins(CentroidProblem(local, 3), groups) > 0.9).all()
    forces = 1.0 / (np.abs(values - values.T) + 0.1)
    assert (margins(ForceProblem(forces, local.owner, 3), groups) > 0.9).all()


def test_one_group_needs_no_choice():
    local, _ = planted(np.random.default_rng(1), n=2, k=1)
    found = search_centroids(local, 1, overlap_of(local), 3, streams)
    assert found.groups.tolist() == [0, 0]
    assert margins(CentroidProblem(local, 1), found.groups).tolist() == [1.0, 1.0]


def test_everything_behind_a_weak_link_is_turned_as_one():
    # a and b agree on x, d and e on z; c links them by clusters that hardly differ in either
    values = np.zeros((10, 3))
    values[:, 0] = [0, 9, 0, 9, 4.4, 4.6, 0, 0, 0, 0]
    values[:, 2] = [0, 0, 0, 0, 4.6, 4.4, 0, 9, 0, 9]
    seen = np.repeat([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 1]], 2, axis=0).astype(float)
    seen[:, 1] = 0
    local = LocalCentroids(MaskedCentroids.of(values, seen), np.repeat(np.arange(5), 2))
    overlap = overlap_of(local)
    best = np.array([0, 1, 0, 1, 0, 1, 1, 0, 1, 0])
    other = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    problem = CentroidProblem(local, 2)
    assert problem.loss(best) < problem.loss(other)
    assert not any((renumber(g) == other).all() for g in neighbours(problem, best))
    assert any((renumber(g) == other).all() for g in turned_blocks(problem, best, overlap))
    found = search_centroids(local, 2, overlap, 5, streams)
    assert (found.groups == best).all()
    assert any((g == other).all() for g in found.rivals)
    assert found.confidence < 0.1
