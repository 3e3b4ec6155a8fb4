"""Stability: what comes back when rows are resampled and moved, and what one cloud would give."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.core.kmeans import observed_kmeans
from intarsia.core.stability import Part, figures, gaussian_like, jaccard, resample, stability, tasks


def _part(values, labels=None, observed=None):
    values = np.asarray(values, dtype=np.float64)
    observed = np.ones(values.shape, dtype=bool) if observed is None else observed
    labels = np.zeros(len(values), dtype=np.intp) if labels is None else labels
    return Part(values, observed, np.arange(values.shape[1]), np.asarray(labels))


def _kmeans(k):
    def recluster(parts, seed):
        (part,) = parts
        rng = np.random.default_rng(seed)
        return [observed_kmeans(part.values, part.observed, k, rng, n_init=3).labels]

    return recluster


def _measured(values, k, seed):
    recluster = _kmeans(k)
    part = _part(values)
    (labels,) = recluster([part], seed)
    return stability([_part(values, labels)], k, recluster, seed), labels


def test_jaccard_by_hand():
    before, after = np.array([0, 0, 0, 1, 1, 2]), np.array([1, 1, 0, 0, 0, 0])
    assert jaccard(before, after, 4).tolist() == pytest.approx([2 / 3, 2 / 4, 1 / 4, np.nan], nan_ok=True)


def test_jaccard_does_not_depend_on_the_numbers_of_clusters():
    rng = np.random.default_rng(0)
    before, after = rng.integers(4, size=50), rng.integers(4, size=50)
    swapped = rng.permutation(4)[after]
    np.testing.assert_array_equal(jaccard(before, after, 4), jaccard(before, swapped, 4))
    np.testing.assert_array_equal(jaccard(before, before, 4), np.ones(4))


def test_rows_without_a_cluster_belong_to_no_old_cluster_and_are_one_new_cluster():
    assert jaccard(np.array([0, 0, -1, -1]), np.array([0, 0, 0, -1]), 1).tolist() == [2 / 3]
    assert jaccard(np.array([0, 0, 1]), np.array([-1, -1, -1]), 2).tolist() == [2 / 3, 1 / 3]


def test_a_resample_has_half_the_rows_moved_within_their_cluster():
    values = np.array([[0.0], [1.0], [2.0], [100.0], [100.0], [100.0]])
    part = _part(values, [0, 0, 0, 1, 1, 1])
    drawn = resample(part, np.random.default_rng(0))
    assert len(drawn.labels) == 3
    offsets = drawn.values - np.where(drawn.labels == 1, 100.0, 0.0)[:, None]
    assert (offsets[drawn.labels == 1] == 0).all()  # all its rows are at its mean
    moved = (offsets[drawn.labels == 0] % 1.0).round(9)
    assert set(moved.ravel()) <= {0.0, 0.3, 0.7}


def test_missing_values_are_not_moved():
    observed = np.array([[True, False], [True, True], [True, True], [True, True]])
    part = _part(np.where(observed, np.arange(8.0).reshape(4, 2), 0.0), observed=observed)
    for seed in range(10):
        drawn = resample(part, np.random.default_rng(seed))
        assert (drawn.values[~drawn.observed] == 0).all()


def test_the_reference_has_the_covariance_of_all_rows_also_where_columns_differ():
    rng = np.random.default_rng(0)
    mixing = np.array([[2.0, 0.0, 0.0], [1.5, 1.0, 0.0], [0.0, 0.5, 1.0]])
    rows = rng.normal(size=(6000, 3)) @ mixing.T + 5.0
    left = Part(rows[:3000, :2], np.ones((3000, 2), dtype=bool), np.array([0, 1]), np.zeros(3000, dtype=np.intp))
    right = Part(rows[3000:, 1:], np.ones((3000, 2), dtype=bool), np.array([1, 2]), np.zeros(3000, dtype=np.intp))
    a, b = gaussian_like([left, right], np.random.default_rng(1))
    for drawn, given in ((a, left), (b, right)):
        np.testing.assert_allclose(np.cov(drawn.values.T), np.cov(given.values.T), atol=0.4)
        np.testing.assert_allclose(drawn.values.mean(axis=0), 5.0, atol=0.2)


def test_figures_by_hand():
    assert [task.is_reference for task in tasks(3)] == [False] * 3 + [True] * 2
    resampled = [np.array([0.9, 0.4, np.nan]), np.array([0.9, 0.6, np.nan]), np.array([0.9, np.nan, np.nan])]
    found = figures([*resampled, np.array([0.7]), np.array([0.9])], 3)
    assert found.reference == pytest.approx(0.8)
    assert found.jaccard.tolist() == pytest.approx([0.9, 0.5, np.nan], nan_ok=True)
    assert found.scores.tolist() == pytest.approx([0.5, 0.0, np.nan], nan_ok=True)
    assert found.dissolved.tolist() == pytest.approx([0.0, 0.5, np.nan], nan_ok=True)


@pytest.mark.parametrize("n_columns", [1, 2, 10, 50])
def test_clear_clusters_come_back_and_parts_of_a_cloud_do_not(n_columns):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        cloud = rng.normal(size=(240, n_columns))
        centres = np.zeros((3, n_columns))
        centres[:, 0] = [0.0, 7.0, 14.0]
        clear, _ = _measured(cloud + centres[rng.integers(3, size=240)], 3, seed)
        assert clear.scores.min() >= 0.9
        cut, labels = _measured(cloud, 3, seed)
        assert cut.scores @ np.bincount(labels) / 240 < 0.6


def test_a_long_cloud_is_cut_at_the_same_places_and_still_has_a_low_score():
    rows = np.random.default_rng(3).normal(size=(400, 3)) * [8.0, 1.0, 1.0]
    found, _ = _measured(rows, 3, 0)
    assert found.jaccard.mean() > 0.75  # Hennig's figure alone would call these stable
    assert found.scores.mean() < 0.6


def test_only_the_halves_of_a_cloud_are_low_beside_clear_clusters():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [80, 80, 160])
    centres = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    rows = centres[truth] + rng.normal(size=(320, 2)) * np.where(truth == 2, 2.0, 1.0)[:, None]
    found, labels = _measured(rows, 4, 0)
    halves = np.isin(np.arange(4), labels[truth == 2])
    assert halves.sum() == 2
    assert found.scores[~halves].min() >= 0.9
    assert found.scores[halves].max() < 0.6


def test_the_same_seed_gives_the_same_figures():
    rows = np.random.default_rng(0).normal(size=(60, 2))
    (a, _), (b, _) = _measured(rows, 3, 5), _measured(rows, 3, 5)
    np.testing.assert_array_equal(a.jaccard, b.jaccard)
    assert a.reference == b.reference
