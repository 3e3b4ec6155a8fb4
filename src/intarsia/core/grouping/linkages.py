"""Linkages: what "closest" means when the closest two groups of local clusters are joined (the paper's table).

``force`` is :func:`~intarsia.core.grouping.agglomeration.agglomerate`. The others are here. The first three are distances
between the points of proxy clusters, the last three follow from numbers of points, means and variances of groups. Distances
are rescaled (eq:d). Two groups that share no feature that varies are incomparable, until a merge makes them comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from intarsia.core.densities.force import Measure, compare_points
from intarsia.core.distances import Extent, Metric
from intarsia.core.grouping.agglomeration import MergeTree, agglomerate
from intarsia.core.types import BoolArray, FloatArray, IntArray

FORCE = "force"
OF_POINTS = ("smallest", "smallest_mean", "mean")
OF_MOMENTS = ("variance", "ward", "centroid")
LINKAGES = (FORCE, *OF_POINTS, *OF_MOMENTS)
WORDS = {
    "smallest": "the smallest distance between their points",
    "smallest_mean": "the smallest mean distance between two of their local clusters",
    "mean": "the mean distance between their points",
    "variance": "the smallest increase of variance",
    "ward": "the smallest increase of the sum of squares (Ward)",
    "centroid": "the distance between their centroids",
}
"""By linkage other than force: what joined two groups, in words."""

_HEIGHTS = {
    FORCE: "force to the power −1/2",
    **dict.fromkeys((*OF_POINTS, "centroid"), "distance"),
    "variance": "e to the increase of variance",
    "ward": "root of the increase of squares",
}
_LARGEST_EXPONENT = 300.0  # strengths are positive numbers that a file can hold
_CLOSEST = 1e-50


def tree_of_points(
    linkage: str, proxies: Sequence[FloatArray], seen: BoolArray, extent: Extent, metric: Metric = "euclidean"
) -> MergeTree:
    """Return the merge tree of a linkage between the points of proxy clusters.

    With d(x, x') the rescaled distance: "smallest" is the smallest d, "smallest_mean" the smallest mean of d over two
    clusters, "mean" the mean of d over all points of both groups. ``seen`` is clusters × features.
    """
    measure: Measure = _smallest if linkage == "smallest" else _mean
    distances = compare_points(proxies, seen, extent, 0.0, metric, measure)
    if linkage == "mean":
        tree = agglomerate(-distances, weights=np.array([len(points) for points in proxies], dtype=np.float64))
        return _with_strengths(tree, -tree.strengths)
    values = np.where(np.isnan(distances), np.inf, distances)

    def join(r: int, s: int) -> FloatArray:
        return np.asarray(np.minimum(values[r], values[s]))

    return _with_strengths(*_closest_first(values, join))


def tree_of_moments(linkage: str, groups: Moments, extent: Extent) -> MergeTree:
    """Return the merge tree of a linkage that follows from numbers of points, means and variances.

    Over the features F that both groups know, n, m and v being those of a group and D the width of the extent over F:
    "variance" is Σ v(r ∪ s) − v(r) − v(s), "ward" Σ n(r) n(s) / (n(r) + n(s)) · (m(r) − m(s))², and "centroid" is
    Σ (m(r) − m(s))², each over D².
    """
    measure = {"variance": _increase_of_variance, "ward": _increase_of_squares, "centroid": _between_centroids}[linkage]
    current = Moments(*(part.copy() for part in groups))
    squares = np.where(extent.varies, np.square(extent.width), 0.0)
    n = len(current.counts)
    values = np.full((n, n), np.inf)
    for r in range(n):
        values[r, r:] = values[r:, r] = _row(measure, current, r, np.arange(r, n), squares)

    def join(r: int, s: int) -> FloatArray:
        current.join(r, s)
        row = np.full(n, np.inf)
        left = np.flatnonzero(current.counts.any(axis=1))
        row[left] = _row(measure, current, r, left, squares)
        return row

    tree, closest = _closest_first(values, join)
    if linkage == "variance":  # it may be negative
        strengths = np.exp(-2.0 * np.clip(closest, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))
        return MergeTree(tree.n_leaves, tree.merges, strengths)
    return _with_strengths(tree, np.sqrt(closest))


def height_of(linkage: object) -> str:
    """Return in words the height of a merge in a tree, as ``MergeTree.to_linkage(2.0)`` has it; by force if unknown."""
    return _HEIGHTS.get(str(linkage), _HEIGHTS[FORCE])


class Moments(NamedTuple):
    """The number of points behind each feature of each group (0: the group does not know it), means, and variances."""

    counts: FloatArray
    means: FloatArray
    variances: FloatArray

    def join(self, r: int, s: int) -> None:
        """Join two groups, in the row of the first; the second has no points then."""
        n, m = self.counts[r], self.counts[s]
        total = np.maximum(n + m, 1.0)
        apart = np.where((n > 0) & (m > 0), self.means[s] - self.means[r], 0.0)
        self.variances[r] = (n * self.variances[r] + m * self.variances[s] + n * m / total * np.square(apart)) / total
        self.means[r] = (n * self.means[r] + m * self.means[s]) / total
        self.counts[r] = n + m
        self.counts[s] = 0.0


Between = Callable[[Moments, Moments], FloatArray]


def _increase_of_variance(r: Moments, s: Moments) -> FloatArray:
    """Return v(r ∪ s) − v(r) − v(s) of each feature."""
    n, m = r.counts, s.counts
    within = (n * r.variances + m * s.variances) / (n + m)
    return np.asarray(within + n * m / np.square(n + m) * np.square(r.means - s.means) - r.variances - s.variances)


def _increase_of_squares(r: Moments, s: Moments) -> FloatArray:
    """Return the increase of the sum of squares around the mean of each feature."""
    return np.asarray(r.counts * s.counts / (r.counts + s.counts) * np.square(r.means - s.means))


def _between_centroids(r: Moments, s: Moments) -> FloatArray:
    """Return the squared difference of the means of each feature."""
    return np.asarray(np.square(r.means - s.means))


def _row(measure: Between, groups: Moments, r: int, others: IntArray, squares: FloatArray) -> FloatArray:
    """Return how far a group is from each of the others; inf from itself and from those that are incomparable."""
    here = np.flatnonzero((groups.counts[r] > 0) & (squares > 0))
    one = Moments(*(part[r, here] for part in groups))
    many = Moments(*(part[np.ix_(others, here)] for part in groups))
    shared = many.counts > 0
    total = np.where(shared, measure(one, many), 0.0).sum(axis=1)
    reach = shared @ squares[here]
    result = np.full(len(others), np.inf)
    np.divide(total, reach, out=result, where=(reach > 0) & (others != r))
    return result


def _smallest(squared: FloatArray, starts: IntArray, lengths: IntArray) -> FloatArray:
    """Return the smallest distance to each block of columns."""
    del lengths
    return np.asarray(np.sqrt(np.minimum.reduceat(squared.min(axis=0), starts)))


def _mean(squared: FloatArray, starts: IntArray, lengths: IntArray) -> FloatArray:
    """Return the mean distance to each block of columns."""
    return np.asarray(np.add.reduceat(np.sqrt(squared, out=squared).mean(axis=0), starts) / lengths)


def _closest_first(values: FloatArray, join: Callable[[int, int], FloatArray]) -> tuple[MergeTree, FloatArray]:
    """Return the tree that joins the closest two groups again and again, of equals the first in order, and how close.

    ``values`` is symmetric, inf where a pair is incomparable; it is overwritten. ``join(r, s)`` returns the values of the
    union, which stands at r. Every group keeps its nearest other, so that few rows are searched after a merge.
    """
    n = len(values)
    name, merges, closest = np.arange(n), list[tuple[int, int]](), list[float]()
    np.fill_diagonal(values, np.inf)
    every, nearest = np.arange(n), values.argmin(axis=1)
    for step in range(n - 1):
        r = int(values[every, nearest].argmin())
        s = int(nearest[r])
        if values[r, s] == np.inf:
            break
        merges.append((int(name[r]), int(name[s])))
        closest.append(float(values[r, s]))
        row = join(r, s)
        values[r] = row
        values[r, [r, s]] = np.inf
        values[:, r] = values[r]
        values[s] = values[:, s] = np.inf
        name[r] = n + step
        lost = (nearest == r) | (nearest == s)
        lost[[r, s]] = True
        best = values[every, nearest]
        nearest[(values[r] < best) | ((values[r] == best) & (r < nearest))] = r
        nearest[lost] = values[lost].argmin(axis=1)
    tree = MergeTree(n, np.array(merges, dtype=np.intp).reshape(-1, 2), np.ones(len(merges)))
    return tree, np.array(closest, dtype=np.float64)


def _with_strengths(tree: MergeTree, distances: FloatArray) -> MergeTree:
    """Return the tree with affinities d⁻² for distances d, from which heights are the distances again."""
    return MergeTree(tree.n_leaves, tree.merges, np.maximum(distances, _CLOSEST) ** -2.0)
