"""A merge of centroids that a single participant cannot move far: medians with capped weights."""

from __future__ import annotations

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.types import FloatArray, IntArray


def robust_merge(centroids: MaskedCentroids, groups: IntArray, n_groups: int) -> MaskedCentroids:
    """Return the weighted median of each group, feature by feature, over the centroids that know the feature.

    Weights are counts, but none is larger than the median of those that know the feature (the lower one of two). A median
    follows the majority: with three or more centroids one cannot move it beyond the others. With two it is their mean, and
    either may be wrong. Counts are summed as in :func:`~intarsia.core.centroids.merge`.

    >>> three = MaskedCentroids.of(np.array([[1.0, 2.0], [4.0, 4.0], [900.0, 0.0]]), np.array([[5.0, 5], [5, 5], [9000, 0]]))
    >>> robust_merge(three, np.array([0, 0, 0]), 1)
    MaskedCentroids(values=array([[4., 3.]]), counts=array([[9010.,   10.]]))
    """
    values = np.zeros((n_groups, centroids.values.shape[1]))
    counts = np.zeros_like(values)
    for k in range(n_groups):
        part = centroids.take(groups == k)
        values[k], counts[k] = _medians(part.values, _capped(part.counts)), part.counts.sum(axis=0)
    return MaskedCentroids.of(values, counts)


def caps(rows: FloatArray) -> FloatArray:
    """Return the share of its rows with which each participant counts, so that none counts for more than the median one.

    >>> caps(np.array([100.0, 50.0, 200.0, 100_000.0]))
    array([1.   , 1.   , 0.5  , 0.001])
    """
    median = np.sort(rows)[(len(rows) - 1) // 2]
    return np.asarray(np.minimum(1.0, median / rows))


def _capped(counts: FloatArray) -> FloatArray:
    """Return the counts of every column, none larger than the lower median of those above 0."""
    ranked = np.sort(counts, axis=0)
    known = (counts > 0).sum(axis=0)
    middle = len(counts) - known + np.maximum(known - 1, 0) // 2
    cap = np.take_along_axis(ranked, np.minimum(middle, len(counts) - 1)[None], axis=0) if len(counts) else ranked
    return np.minimum(counts, cap)


def _medians(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted median of every column: the middle of the two values if a half of the weight ends between them."""
    if not len(values):
        return np.zeros(values.shape[1])
    order = np.argsort(np.where(weights > 0, values, np.inf), axis=0, kind="stable")
    values, weights = np.take_along_axis(values, order, axis=0), np.take_along_axis(weights, order, axis=0)
    reached, half = weights.cumsum(axis=0), weights.sum(axis=0) / 2
    below, above = (reached < half).sum(axis=0), (reached <= half).sum(axis=0)
    last = np.maximum((weights > 0).sum(axis=0) - 1, 0)
    low, high = (np.take_along_axis(values, np.minimum(at, last)[None], axis=0)[0] for at in (below, above))
    return np.asarray(low + (high - low) / 2)
