from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.grouping.agglomeration import LocalForces, renumber
from intarsia.core.grouping.certainty import margins
from intarsia.core.grouping.local_centroids import (
    LocalCentroids,
    excess_components,
    excess_components_of_centroids,
    objective,
)
from intarsia.core.grouping.method_a import method_a
from intarsia.core.grouping.method_b import method_b
from intarsia.core.grouping.objective import CentroidObjective, ForceObjective
from intarsia.core.grouping.search import SearchOptions, is_allowed, search, search_centroids, search_forces
from tests.core.grouping.cases import options, planted, streams
from tests.naive import partition
from tests.strategies import FEW, local_centroids


def test_search_finds_the_planted_groups_and_is_sure():
    local, label = planted(np.random.default_rng(0))
    found = search_centroids(local, 3, options(local, 20))
    assert partition(found.groups) == partition(label)
    assert found.confidence > 0.5


@given(local_centroids())
def test_search_is_never_worse_than_an_allowed_heuristic(case):
    local, k = case
    found = search_centroids(local, k, options(local, 4))
    problem = CentroidObjective(local, k)
    assert is_allowed(problem, found.groups)
    pieces = excess_components(local.comparable, found.groups)
    for method in (method_a, method_b):
        groups = renumber(method(local, k))
        if is_allowed(problem, groups) and excess_components(local.comparable, groups) <= pieces:
            assert found.loss <= objective(local, groups, k) + 1e-12


def test_with_many_features_search_finds_the_same():
    for seed in range(5):
        local, _ = planted(np.random.default_rng(seed), noise=1.0)
        exact = search_centroids(local, 3, options(local, 5))
        wide = search_centroids(local, 3, options(local, 5, wide=0))
        np.testing.assert_array_equal(wide.groups, exact.groups)
        assert wide[1:5] == exact[1:5]


@pytest.mark.parametrize("many", [3000, 10])
def test_starts_at_once_end_as_starts_in_turn(many):
    """Also where starts that agree end the search: those that were begun by then do not count."""
    for seed in range(4):
        local, _ = planted(np.random.default_rng(seed), n=6, noise=1.5)
        one, *others = (
            search_centroids(local, 3, options(local, 12, n_jobs, wide=0, many=many)) for n_jobs in (1, 2, 5, -1)
        )
        for other in others:
            np.testing.assert_array_equal(other.groups, one.groups)
            assert other[1:5] == one[1:5]
            assert [rival.tobytes() for rival in other.rivals] == [rival.tobytes() for rival in one.rivals]


@FEW
@given(local_centroids())
def test_with_many_features_search_is_never_worse_than_method_a_either(case):
    local, k = case
    found = search_centroids(local, k, options(local, 4, wide=0))
    problem = CentroidObjective(local, k)
    assert is_allowed(problem, found.groups)
    groups = renumber(method_a(local, k))
    if excess_components_of_centroids(local, groups) <= excess_components_of_centroids(local, found.groups):
        assert found.loss <= objective(local, groups, k) + 1e-12


@FEW
@given(local_centroids())
def test_with_many_clusters_search_is_never_worse_than_method_a_either(case):
    local, k = case
    found = search_centroids(local, k, options(local, 4, many=0))
    problem = CentroidObjective(local, k)
    assert is_allowed(problem, found.groups)
    groups = renumber(method_a(local, k))
    if excess_components_of_centroids(local, groups) <= excess_components_of_centroids(local, found.groups):
        assert found.loss <= objective(local, groups, k) + 1e-12


def test_with_many_clusters_search_stops_when_starts_agree():
    local, label = planted(np.random.default_rng(0), n=20)
    asked = []

    def counted(k):
        asked.append(k)
        return streams(k)

    found = search_centroids(local, 3, options(local, 30, stream=counted, many=30))
    assert partition(found.groups) == partition(label)
    assert len(asked) == 3  # Method A, Method B and three more agree


def test_search_reaches_the_best_of_all_groupings_where_all_can_be_listed():
    rng = np.random.default_rng(4)
    for _ in range(10):
        local, _ = planted(rng, n=3, k=3, noise=2.0)
        found = search_centroids(local, 3, options(local, 20))
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
        found = search_forces(LocalForces(forces, owner), 3, SearchOptions(np.ones((3, 1), dtype=bool), 30, streams))
        problem = ForceObjective(forces, owner, 3)
        orders = [
            np.concatenate(parts)
            for parts in product([np.arange(3)], *[list(map(np.array, permutations(range(3))))] * 2)
        ]
        assert found.loss == pytest.approx(min(problem.loss(groups) for groups in orders))


def test_a_grouping_in_pieces_loses_against_one_that_hangs_together():
    # 0 and 1 share nothing; together they would cost nothing, and 2 and 3 could be apart for free
    t, f = True, False
    seen = np.array([[t, f], [f, t], [t, t], [t, t]])
    values = np.array([[0.0, 0.0], [0.0, 9.0], [0.1, 0.2], [0.3, 9.1]])
    local = LocalCentroids(MaskedCentroids.of(values, seen.astype(float)), np.arange(4))
    found = search_centroids(local, 2, options(local, 20))
    assert excess_components(local.comparable, found.groups) == 0


def test_confidence_is_zero_for_a_tie_even_if_every_start_agrees():
    forces = np.full((4, 4), np.nan)
    owner = np.array([0, 0, 1, 1])
    forces[0, 2] = forces[2, 0] = forces[1, 3] = forces[3, 1] = 1.0
    forces[0, 3] = forces[3, 0] = forces[1, 2] = forces[2, 1] = 1.0
    problem = ForceObjective(forces, owner, 2)
    found = search(problem, [np.array([0, 1, 0, 1])], np.ones((2, 1), dtype=bool))
    assert found.n_different == 1
    assert found.confidence == 0.0


def test_confidence_sees_a_rival_that_no_start_led_to():
    # 0.499 and 0.501 between 0 and 1: swapped they would cost hardly more
    values = np.array([[0.0], [1.0], [0.499], [0.501]])
    local = LocalCentroids(MaskedCentroids.of(values, np.ones((4, 1))), np.array([0, 0, 1, 1]))
    found = search_centroids(local, 2, options(local, 10))
    assert found.confidence < 0.02


def test_one_group_needs_no_choice():
    local, _ = planted(np.random.default_rng(1), n=2, k=1)
    found = search_centroids(local, 1, options(local, 3))
    assert found.groups.tolist() == [0, 0]
    assert margins(CentroidObjective(local, 1), found.groups).tolist() == [1.0, 1.0]
