"""Groupings by the sum of squares of rows: by hand, against every grouping, and against plain k-means."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.grouping.pooled import pooled_groupings, share_moved, squares_between
from intarsia.core.randomness import stream

GENERATOR = partial(stream, 0, "test", "pooled")


def best_of(centroids, n_groups, n_starts=40):
    return pooled_groupings(centroids, n_groups, n_starts, GENERATOR)[0]


def test_rows_count_not_local_clusters():
    # one heavy point at 0, one light at 1 and two light ones at 3: the heavy one stays alone where they weigh little
    values = np.array([[0.0], [1.0], [3.0], [3.2]])
    heavy = MaskedCentroids.of(values, np.array([[1000.0], [30.0], [1.0], [1.0]]))
    even = MaskedCentroids.of(values, np.ones((4, 1)))
    assert best_of(heavy, 2).groups.tolist() == [0, 1, 1, 1]
    assert best_of(even, 2).groups.tolist() == [0, 0, 1, 1]


def test_squares_by_hand():
    values, counts = np.array([[0.0, 5.0], [2.0, 0.0], [9.0, 1.0]]), np.array([[1.0, 2.0], [3.0, 0.0], [1.0, 1.0]])
    # first feature: mean 1.5 of 0 (1) and 2 (3): 2.25 + 3 · 0.25; the second is known to one of the two only
    assert squares_between(MaskedCentroids.of(values, counts), np.array([0, 0, 1]), 2) == pytest.approx(3.0)


@st.composite
def masked(draw):
    n, d = draw(st.integers(4, 7)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    counts = rng.integers(1, 20, size=(n, d)) * (rng.random((n, d)) < 0.8)
    counts[:, 0] = np.maximum(counts[:, 0], 1)
    return MaskedCentroids.of(rng.normal(size=(n, d)) + 100.0, counts.astype(float))


@settings(max_examples=40, deadline=None)
@given(masked())
def test_the_best_of_all_groupings_is_found(centroids):
    n = len(centroids)
    every = [np.array((0, *rest)) for rest in product(range(2), repeat=n - 1) if any(rest)]
    least = min(squares_between(centroids, groups, 2) for groups in every)
    found = best_of(centroids, 2)
    # a k-means may end where moving a single point would help; with this many starts on so few points it is rare
    assert found.squares == pytest.approx(squares_between(centroids, found.groups, 2))
    assert found.squares >= least - 1e-9
    assert found.squares <= 1.5 * least + 1e-9


def test_equal_counts_are_plain_kmeans():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 4)) + 4 * rng.integers(0, 3, size=(60, 1))
    found = best_of(MaskedCentroids.of(points, np.full(points.shape, 7.0)), 3)
    plain = KMeans(3, n_init=20, random_state=0).fit(points)
    assert found.squares / 7.0 == pytest.approx(plain.inertia_)
    assert (found.groups == renumber(plain.labels_)).all()


def test_groupings_are_different_and_sorted():
    rng = np.random.default_rng(1)
    found = pooled_groupings(MaskedCentroids.of(rng.normal(size=(30, 5)), np.ones((30, 5))), 4, 50, GENERATOR)
    squares = [each.squares for each in found]
    assert len(found) > 3
    assert squares == sorted(squares)
    assert len({each.groups.tobytes() for each in found}) == len(found)
    assert all(int(each.groups.max()) == 3 for each in found)


def test_as_many_groups_as_points():
    found = best_of(MaskedCentroids.of(np.zeros((3, 2)), np.ones((3, 2))), 3, 3)
    assert sorted(found.groups.tolist()) == [0, 1, 2]


def test_share_moved_does_not_depend_on_numbers_of_groups():
    groups, rows = np.array([0, 1, 2, 2]), np.array([5, 5, 5, 5])
    assert share_moved(groups, np.array([2, 0, 1, 1]), rows) == pytest.approx(0.0)
    assert share_moved(groups, np.array([2, 0, 1, 0]), rows) == pytest.approx(0.25)
