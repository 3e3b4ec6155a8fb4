from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import extent_of
from intarsia.core.observed_kmeans import lloyd, observed_kmeans, plus_plus


def blobs(rng, n=90, d=5, k=3):
    truth = rng.integers(k, size=n)
    return rng.normal(size=(k, d))[truth] * 6 + rng.normal(size=(n, d)), truth


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_without_gaps_lloyd_is_scikit_learn_s_from_the_same_start(seed, k):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, 4))
    start = rows[rng.choice(60, k, replace=False)]
    ours = lloyd(rows, np.ones(rows.shape, dtype=bool), MaskedCentroids.of(start, np.ones(start.shape)))
    theirs = KMeans(k, init=start, n_init=1, tol=0, algorithm="lloyd").fit(rows)
    np.testing.assert_array_equal(ours.labels, theirs.labels_)
    np.testing.assert_allclose(ours.centres.values, theirs.cluster_centers_)
    np.testing.assert_allclose(ours.loss, theirs.inertia_)


def test_gaps_do_not_hide_clear_clusters():
    rng = np.random.default_rng(0)
    rows, truth = blobs(rng)
    rows[rng.random(rows.shape) < 0.3] = np.nan
    rows = rows[keep := ~np.isnan(rows).all(axis=1)]
    fit = observed_kmeans(rows, ~np.isnan(rows), 3, rng)
    table = np.array([[np.sum((fit.labels == a) & (truth[keep] == b)) for b in range(3)] for a in range(3)])
    assert table.max(axis=1).sum() >= 0.95 * len(rows)


def test_the_loss_counts_observed_entries_only_and_restarts_help():
    rng = np.random.default_rng(1)
    rows, _ = blobs(rng, k=5)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    observed = ~np.isnan(rows)
    fit = observed_kmeans(rows, observed, 5, np.random.default_rng(2), n_init=10)
    by_hand = sum(
        (rows[i, m] - fit.centres.values[fit.labels[i], m]) ** 2 for i, m in zip(*np.nonzero(observed), strict=True)
    )
    np.testing.assert_allclose(fit.loss, by_hand)
    assert fit.loss <= observed_kmeans(rows, observed, 5, np.random.default_rng(2), n_init=1).loss


def test_an_emptied_cluster_takes_the_worst_row():
    rows = np.array([[0.0], [1.0], [9.0]])
    start = MaskedCentroids.of(np.array([[0.0], [100.0]]), np.ones((2, 1)))
    fit = lloyd(rows, np.ones(rows.shape, dtype=bool), start)
    assert sorted(np.bincount(fit.labels).tolist()) == [1, 2]
    assert fit.labels[2] != fit.labels[0]


def test_starts_are_distinct_rows_even_among_duplicates():
    rows = np.zeros((4, 2))
    observed = np.ones(rows.shape, dtype=bool)
    start = plus_plus(rows, observed, 3, extent_of(rows, observed), np.random.default_rng(0))
    assert len(start) == 3
