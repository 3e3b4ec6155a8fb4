"""Centroids that know which of their entries are real, and how to merge them (eq:merge_centroids_function)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from intarsia.core.blocks import by_rows, cleared
from intarsia.core.types import BoolArray, FloatArray, IntArray

_DENSE = 1 << 23  # memberships that are held as a matrix: 64 MiB
_TOP = 1000  # rows, in which nearly always every column has a cell


@dataclass(frozen=True)
class MaskedCentroids:
    """m centroids over the union of features, with the number of points behind each entry.

    ``counts[k, m] == 0`` hides feature m of centroid k; its value is then 0 and never read.
    """

    values: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, values: FloatArray, counts: FloatArray) -> MaskedCentroids:
        """Wrap, with hidden values set to 0 whatever they were."""
        counts = np.asarray(counts, dtype=np.float64)
        return cls(np.where(counts > 0, values, 0.0), counts)

    @property
    def seen(self) -> BoolArray:
        """Which entries are real."""
        return self.counts > 0

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: IntArray | BoolArray | slice) -> MaskedCentroids:
        """The centroids at these positions."""
        return MaskedCentroids(self.values[index], self.counts[index])

    def wider(self, n_features: int) -> MaskedCentroids:
        """The same with more features at the end, which nobody has seen."""
        more = ((0, 0), (0, n_features - self.values.shape[1]))
        return MaskedCentroids(np.pad(self.values, more), np.pad(self.counts, more))

    def with_nan(self) -> FloatArray:
        """The values as a table would show them: NaN where hidden."""
        return np.where(self.seen, self.values, np.nan)


def merge(centroids: MaskedCentroids, groups: IntArray, n_groups: int) -> MaskedCentroids:
    """Weighted mean of each group, feature by feature, over those who see the feature.

    The paper prints an unweighted numerator over ``min(1, ·)``; its text asks for a weighted average. Weights are the
    counts, and they are per feature, so that merging in steps (Method A) equals merging at once. Group −1 is ignored.

    >>> two = MaskedCentroids.of(np.array([[1.0, 2.0], [4.0, np.nan]]), np.array([[1.0, 1.0], [2.0, 0.0]]))
    >>> merge(two, np.array([0, 0]), 1)
    MaskedCentroids(values=array([[3., 2.]]), counts=array([[3., 1.]]))
    """
    member = membership(groups, n_groups) if n_groups * len(groups) <= _DENSE else _sparse(groups, n_groups)
    counts = member @ centroids.counts
    # sums around the plain mean, not around 0, keep the digits when the values are large and close together
    origin = _plain_mean(centroids, member)
    offsets = np.where(centroids.seen, centroids.values - origin[np.maximum(groups, 0)], 0.0)
    sums = member @ (centroids.counts * offsets)
    return MaskedCentroids.of(origin + sums / np.where(counts > 0, counts, 1.0), counts)


def _plain_mean(centroids: MaskedCentroids, member: FloatArray | csr_array) -> FloatArray:
    """For each group and feature the unweighted mean of those who see it: close to all of them."""
    how_many = member @ centroids.seen
    return np.asarray(member @ np.where(centroids.seen, centroids.values, 0.0) / np.maximum(how_many, 1.0))


def centroids_of_rows(rows: FloatArray, observed: BoolArray, labels: IntArray, n_clusters: int) -> MaskedCentroids:
    """Mean and count of the observed entries of each cluster's rows; label −1 (noise) belongs to none."""
    sums, counts = np.zeros((n_clusters, rows.shape[1])), np.zeros((n_clusters, rows.shape[1]))
    # sums around a cell of each column, so that the mean of equal cells is that cell to the last digit
    origin = first_cells(rows, observed)
    for some in by_rows(len(rows), max(rows.shape[1], n_clusters)):
        member, there = membership(labels[some], n_clusters), observed[some]
        sums += member @ cleared(rows[some] - origin, there)
        counts += member.sum(axis=1, keepdims=True) if there.all() else member @ there
    return MaskedCentroids.of(origin + sums / np.maximum(counts, 1.0), counts)


def first_cells(rows: FloatArray, observed: BoolArray) -> FloatArray:
    """The first cell of every column; of one without any, 0."""
    if not len(rows):
        return np.zeros(rows.shape[1])
    top = observed[:_TOP]
    first = (top if top.any(axis=0).all() else observed).argmax(axis=0)
    columns = np.arange(rows.shape[1])
    return np.where(observed[first, columns], rows[first, columns], 0.0)


def membership(labels: IntArray, n_clusters: int) -> FloatArray:
    """1 where a row is in a cluster: clusters by rows."""
    return np.asarray(labels[None, :] == np.arange(n_clusters)[:, None], dtype=np.float64)


def _sparse(labels: IntArray, n_clusters: int) -> csr_array:
    there = np.flatnonzero(labels >= 0)
    return csr_array((np.ones(len(there)), (labels[there], there)), shape=(n_clusters, len(labels)))


def refill(labels: IntArray, misfit: FloatArray, n_clusters: int) -> IntArray:
    """Give every empty cluster the worst-fitted member of one that can spare it; label −1 can always be spared.

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
