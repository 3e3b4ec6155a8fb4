"""Centroids that know which of their entries are real, and how to merge them (eq:merge_centroids_function)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from intarsia.core.blocks import by_rows, cleared
from intarsia.core.types import BoolArray, FloatArray, IntArray

DENSE = 1 << 23  # numbers in a dense membership matrix: 64 MiB
_TOP = 1000  # rows, in which nearly always every column has an observed value


@dataclass(frozen=True)
class MaskedCentroids:
    """m centroids over the union of features, with the number of points behind each entry.

    ``counts[k, m] == 0`` hides feature m of centroid k; its value is then 0 and never read.
    """

    values: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, values: FloatArray, counts: FloatArray) -> MaskedCentroids:
        """Create centroids, with hidden values set to 0."""
        counts = np.asarray(counts, dtype=np.float64)
        return cls(np.where(counts > 0, values, 0.0), counts)

    @property
    def seen(self) -> BoolArray:
        """Which entries are known."""
        return self.counts > 0

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: IntArray | BoolArray | slice) -> MaskedCentroids:
        """Return the centroids at these positions."""
        return MaskedCentroids(self.values[index], self.counts[index])

    def weighted(self, weights: FloatArray | float | None) -> MaskedCentroids:
        """Return the centroids with counts in which each point of a centroid counts with its weight; None: all with 1."""
        if weights is None:
            return self
        return MaskedCentroids(self.values, self.counts * np.reshape(weights, (-1, 1)))

    def wider(self, n_features: int) -> MaskedCentroids:
        """Return the centroids with more features at the end, which are unknown."""
        more = ((0, 0), (0, n_features - self.values.shape[1]))
        return MaskedCentroids(np.pad(self.values, more), np.pad(self.counts, more))

    def with_nan(self) -> FloatArray:
        """Return the values, NaN where they are hidden."""
        return np.where(self.seen, self.values, np.nan)


def merge(centroids: MaskedCentroids, groups: IntArray, n_groups: int, dense: int = DENSE) -> MaskedCentroids:
    """Return the weighted mean of each group, feature by feature, over the centroids that know the feature.

    The paper prints an unweighted numerator over ``min(1, ·)``; its text asks for a weighted average. Weights are the
    counts, and they are per feature, so that merging in steps (Method A) equals merging at once. Group −1 is ignored.

    >>> two = MaskedCentroids.of(np.array([[1.0, 2.0], [4.0, np.nan]]), np.array([[1.0, 1.0], [2.0, 0.0]]))
    >>> merge(two, np.array([0, 0]), 1)
    MaskedCentroids(values=array([[3., 2.]]), counts=array([[3., 1.]]))
    """
    member = membership(groups, n_groups) if n_groups * len(groups) <= dense else _sparse(groups, n_groups)
    counts = member @ centroids.counts
    # sums around the plain mean, not around 0, lose no digits if values are large and close together
    origin = _plain_mean(centroids, member)
    offsets = np.where(centroids.seen, centroids.values - origin[np.maximum(groups, 0)], 0.0)
    sums = member @ (centroids.counts * offsets)
    return MaskedCentroids.of(origin + sums / np.where(counts > 0, counts, 1.0), counts)


def _plain_mean(centroids: MaskedCentroids, member: FloatArray | csr_array) -> FloatArray:
    """Return the unweighted mean of each group and feature over the centroids that know it."""
    how_many = member @ centroids.seen
    return np.asarray(member @ np.where(centroids.seen, centroids.values, 0.0) / np.maximum(how_many, 1.0))


def centroids_of_rows(rows: FloatArray, observed: BoolArray, labels: IntArray, n_clusters: int) -> MaskedCentroids:
    """Return mean and count of the observed values of each cluster; negative labels belong to none."""
    sums, counts = np.zeros((n_clusters, rows.shape[1])), np.zeros((n_clusters, rows.shape[1]))
    # sums around a value of each column, so that the mean of equal values is that value to the last digit
    origin = first_cells(rows, observed)
    for some in by_rows(len(rows), max(rows.shape[1], n_clusters)):
        member, there = membership(labels[some], n_clusters), observed[some]
        sums += member @ cleared(rows[some] - origin, there)
        counts += member.sum(axis=1, keepdims=True) if there.all() else member @ there
    return MaskedCentroids.of(origin + sums / np.maximum(counts, 1.0), counts)


def first_cells(rows: FloatArray, observed: BoolArray) -> FloatArray:
    """Return the first observed value of every column; 0 if it has none."""
    if not len(rows):
        return np.zeros(rows.shape[1])
    top = observed[:_TOP]
    first = (top if top.any(axis=0).all() else observed).argmax(axis=0)
    columns = np.arange(rows.shape[1])
    return np.where(observed[first, columns], rows[first, columns], 0.0)


def membership(labels: IntArray, n_clusters: int) -> FloatArray:
    """Return a matrix of clusters × rows that is 1 where a row is in a cluster."""
    return np.asarray(labels[None, :] == np.arange(n_clusters)[:, None], dtype=np.float64)


def _sparse(labels: IntArray, n_clusters: int) -> csr_array:
    there = np.flatnonzero(labels >= 0)
    return csr_array((np.ones(len(there)), (labels[there], there)), shape=(n_clusters, len(labels)))


def refill(labels: IntArray, misfit: FloatArray, n_clusters: int) -> IntArray:
    """Move the member with the largest misfit into each empty cluster, unless it is the last of its cluster.

    >>> refill(np.array([0, 0, 0]), np.array([0.1, 0.7, 0.2]), 2)
    array([0, 1, 0])
    """
    labels, misfit = labels.copy(), np.nan_to_num(misfit, nan=np.inf, posinf=np.inf, neginf=-np.inf)
    sizes = np.bincount(labels[labels >= 0], minlength=n_clusters)
    for k in np.flatnonzero(sizes == 0):
        spare = (labels < 0) | (sizes[np.maximum(labels, 0)] > 1)
        worst = int(np.flatnonzero(spare)[misfit[spare].argmax()])
        if labels[worst] >= 0:
            sizes[labels[worst]] -= 1
        labels[worst], sizes[k], misfit[worst] = k, 1, -np.inf
    return labels
