from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.distances import (
    Extent,
    check_metric,
    distances_to_centres,
    extent_of,
    nearest,
    nearest_centre,
    rescaled_distances,
)
from intarsia.exceptions import SettingError
from tests import naive
from tests.strategies import local_centroids

METRICS = ["euclidean", "manhattan", "cosine", lambda u, v: float(np.max(np.abs(u - v)))]


def test_distance_is_the_share_of_the_largest_over_shared_features():
    # shared: the first two features, extents 3 and 4, largest distance 5; the points differ by (3, 0)
    S = Extent(np.array([0.0, 0.0, 0.0]), np.array([3.0, 4.0, 100.0]))
    x, y = np.array([[0.0, 1.0, 50.0]]), np.array([[3.0, 1.0, 0.0]])
    d = rescaled_distances(x, np.array([[True, True, True]]), y, np.array([[True, True, False]]), S)
    assert d[0, 0] == pytest.approx(3 / 5)


def test_nothing_shared_or_only_constants_is_incomparable():
    S = Extent(np.array([0.0, 2.0, 0.0]), np.array([1.0, 2.0, 1.0]))
    x, y = np.zeros((1, 3)), np.ones((1, 3))
    t, f = True, False
    assert np.isnan(rescaled_distances(x, np.array([[t, f, f]]), y, np.array([[f, f, t]]), S)).all()
    assert np.isnan(rescaled_distances(x, np.array([[f, t, f]]), y, np.array([[f, t, f]]), S)).all()


@pytest.mark.parametrize("metric", METRICS, ids=["euclidean", "manhattan", "cosine", "callable"])
@given(data=st.data())
def test_fast_distances_equal_the_formula(metric, data):
    local, _ = data.draw(local_centroids(metric=metric))
    slow = naive.all_distances(local.centroids.values, local.centroids.counts, metric)
    slow = np.array([[np.nan if d is None else d for d in row] for row in slow])
    np.testing.assert_allclose(local.distances, slow, rtol=1e-9, atol=1e-9)


@given(local_centroids())
def test_euclidean_distances_are_symmetric_within_one_and_zero_on_the_diagonal(case):
    local, _ = case
    d = local.distances
    np.testing.assert_array_equal(d, d.T)
    assert (d[~np.isnan(d)] <= 1 + 1e-12).all()
    assert (np.diag(d)[~np.isnan(np.diag(d))] == 0).all()


@given(local_centroids())
def test_matrix_products_give_the_same_distances_as_differences(case):
    local, _ = case
    c, e = local.centroids, local.extent
    fast = distances_to_centres(c.values, c.seen, c.values, c.seen, e, "euclidean")
    np.testing.assert_allclose(fast, local.distances, atol=1e-6)


def test_distances_keep_their_digits_far_from_the_origin():
    rng = np.random.default_rng(0)
    rows, centres = rng.normal(size=(50, 4)), rng.normal(size=(3, 4))
    all_rows, all_centres = np.ones((50, 4), dtype=bool), np.ones((3, 4), dtype=bool)
    near = distances_to_centres(rows, all_rows, centres, all_centres, extent_of(rows, all_rows), "euclidean")
    far = distances_to_centres(
        rows + 1e6, all_rows, centres + 1e6, all_centres, extent_of(rows + 1e6, all_rows), "euclidean"
    )
    np.testing.assert_allclose(near, far, rtol=1e-6)


@given(local_centroids(), st.floats(-1e6, 1e6))
def test_hidden_values_never_matter(case, noise):
    local, _ = case
    c = local.centroids
    disturbed = np.where(c.seen, c.values, noise)
    d = rescaled_distances(disturbed, c.seen, disturbed, c.seen, extent_of(disturbed, c.seen))
    np.testing.assert_array_equal(d, local.distances)


def test_extent_ignores_hidden_entries():
    e = extent_of(np.array([[1.0, 99.0], [4.0, 5.0]]), np.array([[True, False], [True, False]]))
    assert e.width.tolist() == [3.0, 0.0]
    assert np.isnan(e.low[1])
    assert e.varies.tolist() == [True, False]


def test_nearest_takes_the_first_of_equals_and_says_minus_one_for_nobody():
    assert nearest(np.array([[2.0, 1.0, 1.0], [np.nan, np.nan, np.nan], [np.nan, 3.0, 4.0]])).tolist() == [1, -1, 1]


def test_rows_that_only_share_constants_go_to_the_first_centre_and_strangers_to_none():
    e = Extent(np.array([1.0, 0.0]), np.array([1.0, 1.0]))
    rows, known = np.array([[1.0, np.nan], [np.nan, 0.9]]), np.array([[True, False], [True, False]])
    labels = nearest_centre(rows, ~np.isnan(rows), np.array([[1.0, 0.0], [1.0, 0.0]]), known, e, "euclidean")
    assert labels.tolist() == [0, -1]


def test_unknown_metric_is_refused_by_name():
    with pytest.raises(SettingError, match="metric must be one of .*'chebyshev'"):
        check_metric("chebyshev")


def test_blocks_do_not_change_the_answer():
    rng = np.random.default_rng(1)
    x, seen = rng.normal(size=(23, 5)), rng.random((23, 5)) < 0.7
    whole = rescaled_distances(x, seen, x, seen, extent_of(x, seen))
    in_blocks = rescaled_distances(x, seen, x, seen, extent_of(x, seen), block_values=7)
    np.testing.assert_array_equal(in_blocks, whole)
