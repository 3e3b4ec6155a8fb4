from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cut_tree, is_valid_linkage, linkage
from scipy.spatial.distance import squareform

from intarsia.core.grouping.agglomeration import agglomerate, renumber, same_owner
from tests import naive


@st.composite
def affinities(draw, incomparable=True):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 10))
    a = rng.random((n, n)) + 0.01
    a = (a + a.T) / 2
    if incomparable:
        hidden = rng.random((n, n)) < draw(st.sampled_from([0.0, 0.3, 0.8]))
        a[hidden | hidden.T] = np.nan
    return a


@given(affinities())
def test_every_cut_equals_the_printed_loop(a):
    levels = naive.agglomerate(a.tolist())
    tree = agglomerate(a)
    assert tree.fewest_groups == min(levels)
    for k, expected in levels.items():
        assert naive.partition(tree.cut(k)) == expected


@given(affinities(), st.integers(1, 3))
def test_cannot_link_equals_the_printed_loop(a, per_owner):
    owner = np.arange(len(a)) // per_owner
    forbidden = same_owner(owner, n_clusters=3)
    levels = naive.agglomerate(a.tolist(), forbidden & ~np.eye(len(a), dtype=bool))
    tree = agglomerate(a, forbidden)
    assert {k: naive.partition(tree.cut(k)) for k in levels} == levels


@st.composite
def tables(draw):
    """Up to 40 clusters, ties from none to all, incomparable and forbidden pairs."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 40))
    a = (
        rng.random((n, n))
        if (levels := draw(st.sampled_from([1, 2, 5, None]))) is None
        else rng.integers(levels, size=(n, n))
    )
    a = np.triu(a, 1).astype(float) * draw(st.sampled_from([1.0, 0.1, -1.0]))
    a += a.T
    hidden = np.triu(rng.random((n, n)) < draw(st.sampled_from([0.0, 0.3, 0.8])), 1)
    a[hidden | hidden.T] = np.nan
    per_owner = draw(st.sampled_from([None, 1, 2, 3]))
    return a, None if per_owner is None else same_owner(np.arange(n) // per_owner, n_clusters=3)


@given(tables(), st.sampled_from([None, 3, 100]))
def test_merges_and_strengths_are_the_printed_loop_s_to_the_last_bit(case, most):
    a, forbidden = case
    weights = None if most is None else np.random.default_rng(len(a)).integers(1, most, size=len(a), endpoint=True)
    merges, strengths = naive.agglomerate_in_order(a, forbidden, weights)
    tree = agglomerate(a, forbidden, weights=weights)
    assert tree.merges.tolist() == merges
    assert tree.strengths.tolist() == strengths


@given(tables(), st.floats(0.1, 1000.0))
def test_equal_weights_change_no_bit(case, weight):
    a, forbidden = case
    one, other = agglomerate(a, forbidden), agglomerate(a, forbidden, weights=np.full(len(a), weight))
    assert one.merges.tolist() == other.merges.tolist()
    assert one.strengths.tolist() == other.strengths.tolist()


def test_a_cluster_counts_with_its_points():
    # 0 and 1 are joined first; their mean force on 2 is (1·1 + 9·5) / 10 = 4.6, above the 4 between 2 and 3
    forces = np.array([[0, 9, 1, 1], [9, 0, 5, 1], [1, 5, 0, 4], [1, 1, 4, 0.0]])
    assert agglomerate(forces).merges.tolist() == [[0, 1], [2, 3], [4, 5]]
    tree = agglomerate(forces, weights=np.array([1.0, 9.0, 2.0, 3.0]))
    assert tree.merges.tolist() == [[0, 1], [4, 2], [5, 3]]
    assert tree.strengths.tolist() == [9.0, 4.6, pytest.approx((10 * 1 + 2 * 4) / 12)]


def test_the_table_is_closed_up_on_the_way():
    rng = np.random.default_rng(0)
    a = rng.integers(50, size=(300, 300)).astype(float)
    a += a.T
    a[rng.random((300, 300)) < 0.2] = np.nan
    a[np.isnan(a.T)] = np.nan
    merges, strengths = naive.agglomerate_in_order(a)
    tree = agglomerate(a)
    assert tree.merges.tolist() == merges
    assert tree.strengths.tolist() == strengths


def test_with_ties_a_nearest_neighbour_chain_would_find_another_tree():
    # worked out in docs/theory/agglomeration.md
    a = np.full((4, 4), np.nan)
    for r, t, f in ((0, 3, 1.0), (1, 3, 1.0), (1, 2, 1.0), (2, 3, 0.5)):
        a[r, t] = a[t, r] = f
    assert agglomerate(a).merges.tolist() == [[0, 3], [4, 1], [5, 2]]


@given(affinities())
def test_strengths_never_grow(a):
    tree = agglomerate(a)
    assert (np.diff(tree.strengths) <= 1e-12).all()


@given(affinities(incomparable=False))
def test_linkage_is_valid_and_cuts_alike(a):
    if len(a) < 2:
        return
    tree = agglomerate(a)
    z = tree.to_linkage()
    assert is_valid_linkage(z)
    for k in range(1, len(a) + 1):
        assert naive.partition(cut_tree(z, k)[:, 0]) == naive.partition(tree.cut(k))


def test_minus_distance_is_average_linkage():
    points = np.random.default_rng(3).normal(size=(12, 2))
    d = np.linalg.norm(points[:, None] - points[None], axis=2)
    theirs = linkage(squareform(d), "average")
    tree = agglomerate(-d)
    for k in range(1, 13):
        assert naive.partition(cut_tree(theirs, k)[:, 0]) == naive.partition(tree.cut(k))


def test_a_tree_in_pieces_has_no_linkage_and_says_so():
    a = np.full((3, 3), np.nan)
    a[0, 1] = a[1, 0] = 1.0
    tree = agglomerate(a)
    assert tree.fewest_groups == 2
    with pytest.raises(ValueError, match="ends in 2"):
        tree.to_linkage()
    with pytest.raises(ValueError, match="between 2 and 3"):
        tree.cut(1)


def test_incomparable_pairs_leave_numerator_and_denominator():
    nan = np.nan
    # 0 and 1 are joined first; their mean force on 2 is then 4, not (4 + 0) / 2, and 4 beats 3
    forces = np.array([[nan, 9.0, 4.0, nan], [9.0, nan, nan, nan], [4.0, nan, nan, 3.0], [nan, nan, 3.0, nan]])
    tree = agglomerate(forces)
    assert tree.merges[:2].tolist() == [[0, 1], [4, 2]]
    assert tree.strengths.tolist() == [9.0, 4.0, 3.0]


def test_a_merge_can_make_groups_comparable():
    nan = np.nan
    a = np.array([[nan, 3.0, nan], [3.0, nan, 1.0], [nan, 1.0, nan]])
    assert agglomerate(a).fewest_groups == 1


def test_renumber_is_by_first_member():
    assert renumber(np.array([7, 3, 7, 9])).tolist() == [0, 1, 0, 2]


def test_same_owner_is_lifted_for_those_who_overcluster():
    owner = np.array([0, 0, 1, 1, 1])
    rule = same_owner(owner, 2)
    assert rule[0, 1]
    assert not rule[2, 3]
