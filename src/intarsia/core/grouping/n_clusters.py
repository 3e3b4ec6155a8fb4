"""Choosing K: at a participant by silhouettes of rows, at the coordinator by silhouettes of summaries.

Silhouettes are high for few clusters and in few dimensions, whether there is structure or not. A participant therefore
compares its silhouettes with those of rows that are one Gaussian cloud of the same shape (*references*), and may find 1.

K is at least the number that participants find by themselves. From there on, the merge tree and a silhouette over local
clusters decide: the mean squared distance between the points of two clusters follows from their means and variances, so a
silhouette of the proxies needs no proxies. Distances are rescaled, and incomparable pairs are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from intarsia.core.densities.base import Density
from intarsia.core.distances import Extent
from intarsia.core.grouping.agglomeration import LocalForces, MergeTree, agglomerate, same_owner
from intarsia.core.types import BoolArray, FloatArray, IntArray

# Kaufman and Rousseeuw (1990): up to 0.25 a silhouette shows no substantial structure, up to 0.5 one that may be artificial
NO_STRUCTURE, CLEAR = 0.25, 0.5

_DEVIATIONS = 5.0  # standard deviations that a silhouette must be above its references to be more than chance
_NEARLY = 0.25  # share of the highest excess over the references: a number so close to the highest is as good
_LEAST_CLEAR = 0.5  # share of the mean silhouette: a cluster less clear than this is a part of another
_QUARTER = 0.25  # share of all rows that participants must hold for their number to count
_MANY = 4  # participants, of whom one alone may be wrong
_HARDLY = 0.01  # a silhouette over summaries that is higher by less is no reason to leave the participants' number


def clearest_number(mean: FloatArray, least: FloatArray, references: FloatArray) -> int:
    """Return how many clusters one participant has, 1 if its silhouettes are no higher than those of a single cloud.

    ``mean`` and ``least`` are the mean silhouette and that of the least clear cluster with 2, 3, … clusters;
    ``references`` has one row for each reference. Candidates are numbers with an excess over the references that is more
    than chance, which leave every cluster clearer than a cluster of the references, and at least half as clear as all are
    on average. Finding too few is worse than finding too many, which the merge tree can repair: of those with nearly the
    highest excess the largest is taken. Where no candidate stands out (rows that are no cloud, but of no clear clusters
    either), it is the one whose least clear cluster is clearest.

    >>> clearest_number(np.array([0.4, 0.6, 0.5]), np.array([0.3, 0.5, 0.1]), np.array([[0.2, 0.2, 0.2], [0.2, 0.21, 0.2]]))
    3
    """
    expected = references.mean(axis=0)
    noise = float(np.sqrt(references.var(axis=0, ddof=1).mean()))
    excess = mean - expected
    # references of a few rows scatter so much that not even perfect silhouettes, 1, would be far enough above them
    beyond = excess > np.minimum(_DEVIATIONS * noise, (1.0 - expected) / 2)
    if not beyond.any():
        return 1
    clear = beyond & (least >= expected) & (least >= _LEAST_CLEAR * mean)
    highest, usual = excess[clear].max(initial=-1.0), max(float(np.quantile(excess, 0.25)), 0.0)
    if highest - usual <= _DEVIATIONS * noise:
        return 2 + int(least.argmax())
    return 2 + int(np.flatnonzero(clear & (excess >= highest - _NEARLY * (highest - usual))).max())


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
    """K, the silhouette of every cut, and the number of clusters that participants found, if any chose their own."""

    n_clusters: int
    silhouettes: dict[int, float]
    found: int | None


class Summaries(NamedTuple):
    """Local clusters as the choice of K uses them; ``chose`` marks those whose owners chose their own number."""

    densities: Sequence[Density]
    seen: BoolArray
    owner: IntArray
    sizes: IntArray
    chose: BoolArray


def choose_n_clusters(local: Summaries, attracted: LocalForces, extent: Extent, *, separate: bool = True) -> Choice:
    """Return the number of clusters that participants found, or more where such a cut has a clearly higher silhouette.

    Where they found 1, some cut must be clearer than the halves of one cluster are. Cuts are those of the merge tree, and
    with ``separate`` also of the one that keeps clusters of one participant in different groups.
    """
    tree = attracted.tree
    counts, rows = np.bincount(local.owner), np.bincount(local.owner, weights=local.sizes)
    chose = np.unique(local.owner[local.chose])
    found = found_by_participants(counts[chose].tolist(), rows[chose].tolist()) if len(chose) else None
    distances = expected_distances(local.densities, local.seen, extent)
    weights = local.sizes.astype(np.float64)
    curve = silhouettes_of_cuts(tree, distances, weights)
    if separate:
        bound = int(counts.max()) if found is None else found
        limited = agglomerate(attracted.forces, same_owner(local.owner, bound), weights=attracted.weights)
        least = max(bound, limited.fewest_groups)
        curve |= {k: s for k, s in silhouettes_of_cuts(limited, distances, weights).items() if k >= least}
    scores = {k: s for k, s in curve.items() if k >= max(found or 2, tree.fewest_groups)}
    best = max(scores, key=lambda k: (scores[k], -k), default=max(found or 1, tree.fewest_groups))
    if found in scores and scores[found] >= scores[best] - _HARDLY:
        return Choice(found, curve, found)
    if found == 1 and tree.fewest_groups == 1 and scores:
        varying = (local.seen & extent.varies).astype(np.float64)
        shared = (varying @ varying.T)[np.triu_indices(len(varying), 1)]
        if scores[best] <= silhouette_of_halves(float(shared[shared > 0].mean())):
            return Choice(1, curve, found)
    return Choice(best, curve, found)


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
