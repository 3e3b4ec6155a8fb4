from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.centroids import MaskedCentroids, centroids_of_rows, merge
from tests import naive
from tests.strategies import local_centroids


def test_merge_averages_each_feature_over_those_who_see_it():
    # feature 0: (1·2 + 3·4) / 4 = 3.5; feature 1: only the first sees it; feature 2: nobody
    c = MaskedCentroids.of(np.array([[2.0, 5.0, 1.0], [4.0, 9.0, 1.0]]), np.array([[1.0, 2.0, 0.0], [3.0, 0.0, 0.0]]))
    m = merge(c, np.array([0, 0]), 1)
    assert m.values.tolist() == [[3.5, 5.0, 0.0]]
    assert m.counts.tolist() == [[4.0, 2.0, 0.0]]
    assert np.isnan(m.with_nan()[0, 2])


@given(local_centroids(), st.data())
def test_merge_equals_the_formula(case, data):
    local, k = case
    groups = np.array([data.draw(st.integers(-1, k - 1)) for _ in range(len(local))])
    fast = merge(local.centroids, groups, k)
    for g in range(k):
        values, counts = naive.merge(local.centroids.values, local.centroids.counts, np.flatnonzero(groups == g))
        np.testing.assert_allclose(fast.values[g], values, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(fast.counts[g], counts)


@given(local_centroids(), st.integers(1, 10))
def test_merging_in_steps_equals_merging_at_once(case, cut):
    local, _ = case
    c = local.centroids
    cut = min(cut, len(c))
    one = np.zeros(len(c), dtype=np.intp)
    at_once = merge(c, one, 1)
    first, rest = merge(c.take(slice(cut)), one[:cut], 1), c.take(slice(cut, None))
    both = MaskedCentroids(np.vstack([first.values, rest.values]), np.vstack([first.counts, rest.counts]))
    in_steps = merge(both, np.zeros(len(both), dtype=np.intp), 1)
    np.testing.assert_allclose(in_steps.values, at_once.values, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(in_steps.counts, at_once.counts)


def test_merging_one_returns_it_to_the_last_digit():
    c = MaskedCentroids.of(np.array([[0.1, 1e9 + 0.3]]), np.array([[3.0, 7.0]]))
    np.testing.assert_array_equal(merge(c, np.array([0]), 1).values, c.values)


def test_centroids_of_rows_count_observed_cells_and_skip_noise():
    rows = np.array([[1.0, np.nan], [3.0, 4.0], [50.0, 50.0]])
    c = centroids_of_rows(rows, ~np.isnan(rows), np.array([0, 0, -1]), 1)
    assert c.values.tolist() == [[2.0, 4.0]]
    assert c.counts.tolist() == [[2.0, 1.0]]


@given(local_centroids())
def test_memberships_may_be_sparse(case):
    local, k = case
    groups = np.arange(len(local)) % (k + 1) - 1
    dense = merge(local.centroids, groups, k)
    sparse = merge(local.centroids, groups, k, dense=0)
    np.testing.assert_allclose(sparse.values, dense.values, rtol=1e-12)
    np.testing.assert_array_equal(sparse.counts, dense.counts)
