from __future__ import annotations

import numpy as np
import pytest

from intarsia.exceptions import InputError
from intarsia.results.metrics import (
    aggregation_accuracy,
    centroid_agreement,
    clustering_accuracy,
    majority_classes,
    optimal_masked_centroids,
)


def test_accuracy_is_under_the_best_matching_and_noise_is_wrong():
    assert clustering_accuracy([0, 0, 1, 1], [5, 5, 3, 3]) == 1.0
    assert clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 1]) == 0.75
    assert clustering_accuracy([0, 0, 1, 1], [1, -1, 0, -1]) == 0.5
    assert clustering_accuracy([0, 0, 1, 1], [0, 1, 2, 3]) == 0.5


def test_aggregation_accuracy_of_local_clusters():
    assert aggregation_accuracy(["a", "b", "a", "b"], [0, 1, 0, 0]) == 0.75


def test_majority_classes():
    assert majority_classes([7, 7, 8, 8, 8], [0, 0, 0, 1, -1]).tolist() == [7, 8]


def test_centroid_agreement_matches_first_and_leaves_out_what_is_hidden():
    true = np.array([[3.0, 4.0, np.nan], [0.0, 1.0, 1.0]])
    found = np.array([[0.0, 1.0, 1.0], [3.0, 4.5, 9.0]])
    e3 = centroid_agreement(found, true)
    assert e3.match.tolist() == [1, 0]
    assert e3.relative_distance == pytest.approx((0.5 / 5 + 0) / 2)
    assert e3.cosine_similarity == pytest.approx((np.dot([3, 4.5], [3, 4]) / np.hypot(3, 4.5) / 5 + 1) / 2)


def test_a_mostly_hidden_centroid_is_not_close_to_everything():
    nan = np.nan
    e3 = centroid_agreement(np.array([[3, nan, nan], [0.5, 6, 6]]), np.array([[0.0, 0, 0], [4, 9, 9]]))
    assert e3.match.tolist() == [1, 0]


def test_optimal_masked_centroids_average_what_is_seen():
    X = np.array([[1.0, 10.0], [3.0, 20.0], [5.0, 30.0]])
    masks = np.array([[True, False], [True, True]])
    result = optimal_masked_centroids(X, ["a", "a", "b"], [0, 1, 0], masks)
    np.testing.assert_array_equal(result, [[2.0, 20.0], [5.0, np.nan]])


def test_lengths_must_agree():
    with pytest.raises(InputError, match="2 true classes and 1 labels"):
        clustering_accuracy([1, 2], [1])
    with pytest.raises(InputError, match="K × features"):
        centroid_agreement(np.ones((2, 2)), np.ones((3, 2)))
