"""Silhouettes: of rows, and of all cuts of a merge tree of local clusters."""

from __future__ import annotations

import numpy as np

from intarsia.core.grouping.agglomeration import MergeTree
from intarsia.core.types import FloatArray, IntArray


def silhouettes_of_rows(distances: FloatArray, labels: IntArray) -> FloatArray:
    """Return the silhouette of every row, from all distances between rows; 0 for a cluster of one row."""
    member = _membership(labels)
    return _silhouettes(distances @ member, member)


def silhouettes_of_complete_rows(rows: FloatArray, labels: IntArray, block: int = 200) -> FloatArray:
    """Return the silhouette of every row by Euclidean distances, for rows without missing values.

    Distances are computed once, for ``block`` × ``block`` rows at a time, and not kept.
    """
    member = _membership(labels)
    rows = rows - rows.mean(axis=0)
    squares, total = np.einsum("ij,ij->i", rows, rows), np.zeros(member.shape)
    starts = range(0, len(rows), block)
    for top in starts:
        upper = slice(top, top + block)
        for left in starts[top // block :]:
            lower = slice(left, left + block)
            distances = rows[upper] @ (-2.0 * rows[lower].T)
            distances += squares[upper, None]
            distances += squares[lower]
            np.sqrt(np.maximum(distances, 0.0, out=distances), out=distances)
            if left == top:
                np.fill_diagonal(distances, 0.0)
            else:
                total[lower] += distances.T @ member[upper]
            total[upper] += distances @ member[lower]
    return _silhouettes(total, member)


def _membership(labels: IntArray) -> FloatArray:
    return np.asarray(labels[:, None] == np.unique(labels), dtype=np.float64)


def _silhouettes(total: FloatArray, member: FloatArray) -> FloatArray:
    """Return silhouettes from the sum of the distances of every row to all rows of each cluster."""
    sizes, inside = member.sum(axis=0), member > 0
    size = sizes[inside.argmax(axis=1)]
    within = total[inside] / np.maximum(size - 1.0, 1.0)
    other = np.where(inside, np.inf, total / sizes).min(axis=1)
    larger = np.maximum(within, other)
    return np.where((size > 1) & (larger > 0), (other - within) / np.where(larger > 0, larger, 1.0), 0.0)


def silhouettes_of_cuts(tree: MergeTree, distances: FloatArray, weights: FloatArray) -> dict[int, float]:
    """Return the mean silhouette of every cut of the tree from 2 groups on, without those that are NaN.

    ``distances`` between local clusters has the spread of each cluster on its diagonal; cluster z stands for ``weights[z]``
    points. A merge changes one row of the mean distances from all groups to all m local clusters. Every cluster keeps the
    nearest group that is not its own, and looks for another only when that one is gone or farther now, so that all cuts
    together cost little more than m².
    """
    cuts = _Cuts(tree.n_leaves, np.nan_to_num(distances) * weights, ~np.isnan(distances) * weights, weights)
    scores = {tree.n_leaves: cuts.score()}
    row_of = {leaf: leaf for leaf in range(tree.n_leaves)}  # the row of every group of the tree
    for step, (left, right) in enumerate(tree.merges.tolist()):
        into, gone = row_of.pop(left), row_of.pop(right)
        row_of[tree.n_leaves + step] = into
        cuts.join(into, gone)
        scores[tree.n_leaves - step - 1] = cuts.score()
    return {k: score for k, score in sorted(scores.items()) if k >= 2 and not np.isnan(score)}


class _Cuts:
    """Groups of local clusters that are joined: sums of weighted distances and of weights, by group (row) and cluster."""

    def __init__(self, n: int, total: FloatArray, pairs: FloatArray, weights: FloatArray) -> None:
        self._total, self._pairs = np.ascontiguousarray(total.T), np.ascontiguousarray(pairs.T)
        self._weights = weights
        self._group = np.arange(n)
        self._size = weights.copy()
        self._mean = np.divide(self._total, self._pairs, out=np.full((n, n), np.inf), where=self._pairs > 0)
        self._within = self._mean.diagonal().copy()
        np.fill_diagonal(self._mean, np.inf)  # from here on, means of others only
        self._nearest = self._mean.argmin(axis=0)
        self._other = self._mean.min(axis=0)

    def join(self, into: int, gone: int) -> None:
        """Join two groups in the row of the first."""
        for table in (self._total, self._pairs):
            table[into] += table[gone]
        self._size[into] += self._size[gone]
        self._group[self._group == gone] = into
        row = np.divide(
            self._total[into], self._pairs[into], out=np.full(len(self._group), np.inf), where=self._pairs[into] > 0
        )
        members = self._group == into
        self._within[members] = row[members]
        row[members] = np.inf
        self._mean[into], self._mean[gone] = row, np.inf
        lost_nearest = (self._nearest == into) | (self._nearest == gone)
        closer = row <= self._other
        self._other[closer], self._nearest[closer] = row[closer], into
        lost = np.flatnonzero(lost_nearest & ~closer)
        if len(lost):
            means = self._mean[:, lost]
            self._nearest[lost] = means.argmin(axis=0)
            self._other[lost] = means.min(axis=0)

    def score(self) -> float:
        """Return the mean silhouette of the current groups, NaN where no cluster can be compared with another group."""
        within, other, size = self._within, self._other, self._size[self._group]
        valid = np.isfinite(other) & np.isfinite(within) & (np.maximum(within, other) > 0) & (self._weights > 0)
        if not valid.any():
            return float("nan")
        within, other = within[valid], other[valid]
        single = (size[valid] <= 1.0) & (within == 0)  # a row by itself has no silhouette
        each = np.where(single, 0.0, (other - within) / np.maximum(within, other))
        return float(np.average(each, weights=self._weights[valid]))
