from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.kmeans import lloyd, loss, observed_kmeans, plus_plus
from intarsia.core.rows import ArrayRows


def blobs(rng, n=90, d=5, k=3):
    truth = rng.integers(k, size=n)
    return rng.normal(size=(k, d))[truth] * 6 + rng.normal(size=(n, d)), truth


def complete(rows):
    return ArrayRows(rows, np.ones(rows.shape, dtype=bool))


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_without_gaps_lloyd_is_scikit_learn_s_from_the_same_start(seed, k):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, 4))
    start = rows[rng.choice(60, k, replace=False)]
    table = complete(rows)
    ours = lloyd(table, MaskedCentroids.of(start, np.ones(start.shape)))
    theirs = KMeans(k, init=start, n_init=1, tol=0, algorithm="lloyd").fit(rows)
    np.testing.assert_array_equal(ours.labels, theirs.labels_)
    np.testing.assert_allclose(ours.centres.values, theirs.cluster_centers_)
    np.testing.assert_allclose(loss(table, ours), theirs.inertia_)


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
    fit = lloyd(complete(rows), start)
    assert sorted(np.bincount(fit.labels).tolist()) == [1, 2]
    assert fit.labels[2] != fit.labels[0]


def test_starts_are_distinct_rows_even_among_duplicates():
    rows = np.zeros((4, 2))
    start = plus_plus(rows, np.ones(rows.shape, dtype=bool), 3, complete(rows), np.random.default_rng(0))
    assert len(start) == 3


def by_hand(rows, observed, values, known, n_iter):
    """Cell by cell, as the formulas say."""
    labels = []
    low, high = (getattr(np, f"nan{name}")(np.where(observed, rows, np.nan), axis=0) for name in ("min", "max"))
    for _ in range(n_iter):
        shared = observed[:, None] & known & (high > low)
        squares = np.where(shared, np.square(rows[:, None] - values), 0.0).sum(axis=2)
        reach = np.where(shared, np.square(high - low), 0.0).sum(axis=2)
        labels = np.where(reach > 0, squares / np.where(reach > 0, reach, 1.0), np.inf).argmin(axis=1)
        if len(set(labels)) < len(values):
            return None  # what happens then has a test of its own
        for k in range(len(values)):
            known[k] = observed[labels == k].any(axis=0)
            cells = np.where(observed[labels == k], rows[labels == k], 0.0)
            values[k] = cells.sum(axis=0) / np.maximum(observed[labels == k].sum(axis=0), 1)
    return labels


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.2, 0.6]),
    st.sampled_from([0.0, 1e3]),
    st.booleans(),
    st.booleans(),
)
def test_lloyd_is_what_the_formulas_say(seed, gaps, far, partial, cut):
    """With missing values or none, near 0 and far from it, and where a centre does not know a feature; also in blocks."""
    rng = np.random.default_rng(seed)
    rows = far + rng.normal(size=(150, 4))
    observed = rng.random(rows.shape) >= gaps
    observed[:, 0] |= ~observed.any(axis=1)
    rows[:, 3] = far  # no centre is nearer for it
    values = far + rng.normal(size=(3, 4))
    known = np.ones(values.shape, dtype=bool)
    known[0, 1] = not partial
    table = ArrayRows(np.where(observed, rows, np.nan), observed, piece_values=0 if cut else 1 << 18)
    ours = lloyd(table, MaskedCentroids.of(values, known.astype(float)), 3).labels
    expected = by_hand(rows, observed, values.copy(), known.copy(), 3)
    if expected is not None:
        np.testing.assert_array_equal(ours, expected)


def test_the_first_of_equal_centres_is_taken():
    rows = np.array([[0.0, 0.0], [4.0, 4.0], [2.0, 2.0], [2.0, 2.0]])
    start = MaskedCentroids.of(np.array([[4.0, 4.0], [0.0, 0.0]]), np.ones((2, 2)))
    assert lloyd(complete(rows), start, 1).labels.tolist() == [1, 0, 0, 0]


def test_every_emptied_cluster_takes_a_different_row_and_no_cluster_loses_its_last_one():
    rows = np.array([[0.0], [1.0], [5.0], [9.0], [100.0]])
    start = MaskedCentroids.of(np.array([[2.0], [100.0], [1e6], [2e6]]), np.ones((4, 1)))
    fit = lloyd(complete(rows), start, 1)
    assert fit.labels.tolist() == [0, 0, 3, 2, 1]  # 9 is farthest from 2, then 5; 100 is the last of its cluster
    assert fit.sizes.tolist() == [2, 1, 1, 1]
    np.testing.assert_allclose(fit.centres.values[:, 0], [0.5, 100.0, 9.0, 5.0])


def test_fewer_different_rows_than_clusters_converge():
    rows = np.repeat([[0.0, 0.0], [1.0, 1.0]], 200, axis=0)
    start = MaskedCentroids.of(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]), np.ones((3, 2)))
    assert lloyd(complete(rows), start, 50).n_iter <= 3


def test_a_tolerance_ends_the_iterations_early():
    rows = np.random.default_rng(0).normal(size=(500, 2))
    start = MaskedCentroids.of(rows[:4], np.ones((4, 2)))
    assert lloyd(complete(rows), start, tol=1e-2).n_iter < lloyd(complete(rows), start).n_iter
