"""Medians with capped weights: no single centroid moves them beyond the others."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.robust import robust_merge


def some_centroids(rng, n, d, missing=0.0):
    counts = rng.integers(1, 100, size=(n, d)) * (rng.random((n, d)) >= missing)
    return MaskedCentroids.of(rng.normal(size=(n, d)), counts)


@given(st.integers(0, 2**32 - 1), st.integers(3, 8), st.floats(-1e9, 1e9), st.integers(1, 10**12))
def test_one_centroid_cannot_move_a_median_beyond_the_others(seed, n, value, count):
    rng = np.random.default_rng(seed)
    honest = some_centroids(rng, n, 4)
    values, counts = honest.values.copy(), honest.counts.copy()
    values[0], counts[0] = value, count
    merged = robust_merge(MaskedCentroids.of(values, counts), np.zeros(n, dtype=np.intp), 1).values[0]
    assert (merged >= honest.values[1:].min(axis=0)).all()
    assert (merged <= honest.values[1:].max(axis=0)).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_with_equal_counts_it_is_the_median(seed, n):
    rng = np.random.default_rng(seed)
    centroids = MaskedCentroids.of(rng.normal(size=(n, 3)), np.full((n, 3), 7.0))
    merged = robust_merge(centroids, np.zeros(n, dtype=np.intp), 1)
    np.testing.assert_allclose(merged.values[0], np.median(centroids.values, axis=0))


@given(st.integers(0, 2**32 - 1))
def test_entries_and_counts_are_those_of_the_mean(seed):
    rng = np.random.default_rng(seed)
    centroids, groups = some_centroids(rng, 12, 5, missing=0.5), rng.integers(-1, 4, size=12)
    robust, mean = robust_merge(centroids, groups, 4), merge(centroids, groups, 4)
    np.testing.assert_array_equal(robust.counts, mean.counts)
    alone = np.array([[(centroids.seen[groups == k, m]).sum() <= 1 for m in range(5)] for k in range(4)])
    np.testing.assert_allclose(robust.values[alone], mean.values[alone])


def test_of_two_it_is_the_middle_whatever_their_counts():
    two = MaskedCentroids.of(np.array([[1.0], [5.0]]), np.array([[10.0], [10_000.0]]))
    assert robust_merge(two, np.array([0, 0]), 1).values.item() == 3.0
