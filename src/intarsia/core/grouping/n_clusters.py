"""Choosing K: at a participant by silhouettes of rows, at the coordinator by silhouettes of summaries.

K is at least the number that the rows of all participants show together (:mod:`~intarsia.core.grouping.tried_numbers`).
From there on, the merge tree and a silhouette over local clusters decide: the mean squared distance between the points of
two clusters follows from their means and variances, so a silhouette of the proxies needs no proxies. Distances are rescaled,
and incomparable pairs are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from intarsia.core.densities.base import Density
from intarsia.core.distances import Extent
from intarsia.core.grouping.agglomeration import LocalForces, MergeTree, agglomerate, same_owner
from intarsia.core.grouping.tried_numbers import TriedNumbers, are_large, clearest_number, pooled
from intarsia.core.types import BoolArray, FloatArray, IntArray

# Kaufman and Rousseeuw (1990): up to 0.25 a silhouette shows no substantial structure, up to 0.5 one that may be artificial
NO_STRUCTURE, CLEAR = 0.25, 0.5

_QUARTER = 0.25  # share of all rows that participants must hold for their number to count
_MANY = 4  # participants, of whom one alone may be wrong
# The participants' number is left if a silhouette over summaries is higher by more than this, or by more than this share of
# what its own silhouette lacks to 1.
_HARDLY, _LACKING = 0.03, 0.25
_MORE = 2  # times the number of local clusters that some participant has: K is no larger


def expected_distances(densities: Sequence[Density], seen: BoolArray, extent: Extent) -> FloatArray:
    """Return the root mean squared rescaled distance between points of two clusters, and within one.

    It is NaN where two clusters are incomparable.
    """
    means, variances = np.zeros(seen.shape), np.zeros(seen.shape)
    for k, density in enumerate(densities):
        means[k, seen[k]], variances[k, seen[k]] = density.mean, density.variances
    varying = seen & extent.varies
    result = np.full((len(seen), len(seen)), np.nan)
    for k in range(len(seen)):
        shared = varying[k] & varying
        squared = np.square(means[k] - means) + variances[k] + variances
        reach = (shared * np.square(extent.width)).sum(axis=1)
        total = np.where(shared, squared, 0.0).sum(axis=1)
        np.sqrt(np.divide(total, reach, out=result[k], where=reach > 0), out=result[k])
    return result


def silhouette_of_halves(n_features: float) -> float:
    """Return the silhouette over summaries of a Gaussian that was cut in two: that of a single cluster.

    Halves have their means at ±√(2/π) and a variance of 1 − 2/π along one axis, and 1 along the others.
    """
    return float(1.0 - np.sqrt((n_features - 2 / np.pi) / (n_features + 2 / np.pi)))


def found_by_participants(numbers: Sequence[int], rows: Sequence[int]) -> int:
    """Return the largest number of clusters that participants with a quarter of all rows found, or exceeded.

    Of four participants or more, one alone does not count, however many rows it has.

    >>> found_by_participants([3, 4, 9], [100, 100, 20]), found_by_participants([2, 4, 1, 1], [300, 290, 120, 200])
    (4, 2)
    """
    order = np.argsort(-np.asarray(numbers), kind="stable")
    share = np.cumsum(np.asarray(rows, dtype=np.float64)[order]) / np.sum(rows)
    enough = (share >= _QUARTER) & (np.arange(1, len(order) + 1) >= (2 if len(order) >= _MANY else 1))
    return int(np.asarray(numbers)[order][np.argmax(enough)])


class Choice(NamedTuple):
    """K, the silhouette of every cut, and the number of clusters that participants found, if any chose their own.

    ``tried`` is what participants' rows show with 2, 3, … clusters, pooled; None if nobody told it.
    """

    n_clusters: int
    silhouettes: dict[int, float]
    found: int | None
    tried: TriedNumbers | None = None


class Summaries(NamedTuple):
    """Local clusters as the choice of K uses them; ``chose`` marks those whose owners chose their own number.

    ``sizes`` are numbers of rows, and ``weight`` what these rows count in means over clusters and participants.
    ``tried`` are the tables of owners that told what their rows show with 2, 3, … clusters, by position.
    """

    densities: Sequence[Density]
    seen: BoolArray
    owner: IntArray
    sizes: IntArray
    weight: FloatArray
    chose: BoolArray
    tried: Mapping[int, TriedNumbers] = {}


def choose_n_clusters(local: Summaries, attracted: LocalForces, extent: Extent, *, separate: bool = True) -> Choice:
    """Return the number of clusters that participants found, or more where such a cut has a clearly higher silhouette.

    Larger cuts need large clusters. Where participants found 1, some cut must be clearer than the halves of one cluster are.
    Cuts are those of the merge tree, and with ``separate`` also of the one that keeps clusters of one participant in
    different groups. No cut has more clusters than there are local clusters.
    """
    tree, counts = attracted.tree, np.bincount(local.owner)
    found, tried = _found(local)
    found = None if found is None else min(found, tree.n_leaves)
    distances = expected_distances(local.densities, local.seen, extent)
    weights = local.weight
    curve = silhouettes_of_cuts(tree, distances, weights)
    if separate:
        bound = int(counts.max()) if found is None else found
        limited = agglomerate(attracted.forces, same_owner(local.owner, bound), weights=attracted.weights)
        least = max(bound, limited.fewest_groups)
        curve |= {k: s for k, s in silhouettes_of_cuts(limited, distances, weights).items() if k >= least}
    least = max(found or 2, tree.fewest_groups)
    most = None if found is None else max(_MORE * int(counts.max()), least)
    scores = {k: s for k, s in curve.items() if k >= least and (most is None or k <= most)}
    if found in scores:
        scores = {k: s for k, s in scores.items() if k == found or _is_large(local, tree, k)}
    best = max(scores, key=lambda k: (scores[k], -k), default=max(found or 1, tree.fewest_groups))
    if found in scores and not _is_clearly_higher(scores[best], scores[found]):
        return Choice(found, curve, found, tried)
    if found == 1 and tree.fewest_groups == 1 and scores:
        varying = (local.seen & extent.varies).astype(np.float64)
        shared = (varying @ varying.T)[np.triu_indices(len(varying), 1)]
        if scores[best] <= silhouette_of_halves(float(shared[shared > 0].mean())):
            return Choice(1, curve, found, tried)
    return Choice(best, curve, found, tried)


def _found(local: Summaries) -> tuple[int | None, TriedNumbers | None]:
    """Return the number of clusters that participants found, and what their rows show together, if any told it."""
    counts, rows = np.bincount(local.owner), np.bincount(local.owner, weights=local.weight)
    if local.tried:
        tried = pooled(list(local.tried.values()), [float(rows[owner]) for owner in local.tried])
        return clearest_number(tried), tried
    chose = np.unique(local.owner[local.chose])
    return found_by_participants(counts[chose].tolist(), rows[chose].tolist()) if len(chose) else None, None


def _is_clearly_higher(silhouette: float, other: float) -> bool:
    """Whether a silhouette over summaries shows structure, and is higher than another by more than a little."""
    return silhouette > NO_STRUCTURE and silhouette - other > min(_HARDLY, _LACKING * (1.0 - other))


def _is_large(local: Summaries, tree: MergeTree, n_clusters: int) -> bool:
    """Whether all clusters of a cut are more than outliers."""
    return are_large(np.bincount(tree.cut(max(n_clusters, tree.fewest_groups)), weights=local.sizes))


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
