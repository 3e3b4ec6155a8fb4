"""Lines 4 to 10 of Algorithm 1: the assumptions are tested in the paper's order, and decide between Methods A and B."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.grouping.aggregations import AGGREGATIONS
from intarsia.core.grouping.local_centroids import LocalCentroids
from intarsia.core.grouping.method_a import method_a
from intarsia.core.grouping.method_b import method_b
from intarsia.core.grouping.paper import CONDITIONS, as_printed, n_nearer_to_others, unmet_1, unmet_2_and_3
from tests.core.grouping.cases import line, many_centroids, masks_of, options


def masked(rows, owner):
    """Local centroids in which NaN marks a feature that the participant does not have."""
    values = np.array(rows, dtype=float)
    counts = np.where(np.isnan(values), 0.0, 4.0)
    return LocalCentroids(MaskedCentroids.of(np.nan_to_num(values), counts), np.array(owner))


def printed(local, n_groups):
    return as_printed(local, n_groups, options(local, 0))


NO = float("nan")
# b sees both features, a and c one each
CHAIN = masked([[0, NO], [9, NO], [0.1, 5], [9.1, 1], [NO, 5.1], [NO, 1.1]], [0, 0, 1, 1, 2, 2])
# the core x is shared; what a participant adds tells the clusters apart, and x has a bias of its own
BIASED = masked([[0, 0, NO], [4, 9, NO], [5, NO, 0], [9, NO, 9]], [0, 0, 1, 1])


def test_assumption_1_is_tested_first_so_that_method_a_is_taken_where_both_hold():
    local = line([0, 9, 0.1, 9.1, 0.2, 8.9], [0, 0, 1, 1, 2, 2])
    grouping = printed(local, 2)
    assert (grouping.branch, dict(grouping.unmet)) == ("method_a", {})
    assert unmet_2_and_3(local, method_b(local, 2), 2, masks_of(local)) == {}
    assert grouping.groups.tolist() == method_a(local, 2).tolist() == [0, 1, 0, 1, 0, 1]


def test_a_chain_that_is_connected_and_covered_satisfies_assumption_1_and_not_2():
    assert printed(CHAIN, 2).branch == "method_a"
    groups = np.array([0, 1, 0, 1, 0, 1])
    assert unmet_1(CHAIN, groups, masks_of(CHAIN)) == {}
    assert unmet_2_and_3(CHAIN, groups, 2, masks_of(CHAIN)) == {"2.1": 2}


def test_local_versions_that_are_nearer_to_another_cluster_break_item_3_of_assumption_1_and_lead_to_method_b():
    grouping = printed(BIASED, 2)
    assert grouping.branch == "method_b"
    assert grouping.unmet["1.3"] > 0
    assert grouping.groups.tolist() == method_b(BIASED, 2).tolist()


def test_a_group_without_a_feature_breaks_both_assumptions_and_the_default_is_method_b():
    local = masked([[0, NO], [9, NO], [0.1, 5]], [0, 0, 1])
    grouping = printed(local, 2)
    assert grouping.branch == "method_b"
    assert {"1.2", "2.2"} <= set(grouping.unmet) <= set(CONDITIONS)
    assert grouping.unmet["1.2"] == 1


def test_a_group_whose_participants_share_nothing_breaks_item_1_of_both_assumptions():
    local = masked([[0, NO], [NO, 0]], [0, 1])
    groups = np.zeros(2, dtype=int)
    assert unmet_1(local, groups, masks_of(local)) == {"1.1": 1}
    assert unmet_2_and_3(local, groups, 1, masks_of(local)) == {"2.1": 1}


def test_a_local_cluster_between_two_groups_speaks_against_assumption_3():
    local = line([0, 10, 0.1, 9.9, 5.0], [0, 0, 1, 1, 2])
    groups = np.array([0, 1, 0, 1, 0])
    assert unmet_2_and_3(local, groups, 2, masks_of(local)) == {"3": 1}


def test_splitting_a_true_cluster_does_not_speak_against_assumption_3():
    local = line([0, 0.5, 10, 0.2, 10.2], [0, 0, 0, 1, 1])
    assert unmet_2_and_3(local, np.array([0, 0, 1, 0, 1]), 2, masks_of(local)) == {}


def test_methods_by_name_say_what_does_not_hold_and_have_no_branch():
    for name, conditions in (("method_a", {"1.3"}), ("method_b", {"3"})):
        local = line([0, 10, 0.1, 9.9, 5.0, 5.1], [0, 0, 1, 1, 2, 3])
        grouping = AGGREGATIONS[name].of_centroids(local, 2, options(local, 0))
        assert grouping.branch is None
        assert set(grouping.unmet) == conditions


def naive_nearer_to_others(local, groups):
    count = 0
    for z in range(len(local)):
        own = [local.distances[z, y] for y in range(len(local)) if y != z and groups[y] == groups[z]]
        other = [local.distances[z, y] for y in range(len(local)) if groups[y] != groups[z]]
        count += any(a >= b for a in own for b in other if not np.isnan(a) and not np.isnan(b))
    return count


@given(many_centroids(), st.integers(0, 2**32 - 1))
def test_counting_by_blocks_agrees_with_all_pairs(case, seed):
    local, k = case
    for groups in (method_a(local, k), np.random.default_rng(seed).integers(k, size=len(local))):
        expected = naive_nearer_to_others(local, groups)
        assert n_nearer_to_others(local, groups) == expected


def test_some_of_many_local_centroids_are_tested_against_all():
    points = np.arange(1000.0)
    local, alternating = line(points, np.arange(1000)), np.arange(1000) % 2
    assert n_nearer_to_others(local, alternating) == 1000
    assert n_nearer_to_others(local, alternating, most_pairs=200_000) == 200
    assert n_nearer_to_others(local, alternating, most_pairs=1) == 100
    assert n_nearer_to_others(local, (points >= 500).astype(int), most_pairs=1) > 0


@given(many_centroids())
def test_the_branch_follows_from_the_assumptions(case):
    local, k = case
    grouping, masks = printed(local, k), masks_of(local)
    by_a, by_b = method_a(local, k), method_b(local, k)
    holds = not unmet_1(local, by_a, masks)
    assert grouping.branch == ("method_a" if holds else "method_b")
    assert grouping.groups.tolist() == (by_a if holds else by_b).tolist()
