r"""How far points are from clusters, measured by the spread within the clusters, and whether rows left their places.

With centroid :math:`c`, variances :math:`\sigma_m^2` and a point :math:`x`, over the features that both have:

.. math:: \mathrm{rms} = \sqrt{\tfrac1d \sum_m \frac{(x_m - c_m)^2}{\sigma_m^2}}, \qquad
   \mathrm{along} = \frac{\sum_m (x_m - c_m)^2}{\sqrt{\sum_m (x_m - c_m)^2 \sigma_m^2}}

``rms`` is 1 for a typical row of the cluster. ``along`` is the distance in standard deviations in the direction of the
point: the halves of one normal cloud are 1.6 apart, whatever the number of features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.types import BoolArray, FloatArray, IntArray

_NARROWEST = 0.25  # of the variance within clusters: no cluster counts as narrower
_CONSTANT = 0.01  # of the variance between centroids, for features that vary within no cluster


class Gaps(NamedTuple):
    """Distances of points (rows) from clusters (columns); NaN where they share no feature."""

    rms: FloatArray
    along: FloatArray

    def far(self, rms: float, along: float, which: BoolArray) -> BoolArray:
        """Return which points are farther than this, by both measures, from each of the clusters in ``which``."""
        outside = (self.rms > rms) & (self.along > along)
        known = ~np.isnan(self.rms)
        return np.asarray((outside | ~known)[:, which].all(axis=1) & known[:, which].any(axis=1))


def spread_of(centroids: MaskedCentroids, variances: FloatArray, cells: FloatArray) -> FloatArray:
    """Return the variance of each feature within each cluster, never far below that within all of them."""
    pooled = pooled_spread(centroids, variances, cells)
    return np.asarray(np.maximum(np.where(cells > 0, variances, pooled), _NARROWEST * pooled))


def pooled_spread(centroids: MaskedCentroids, variances: FloatArray, cells: FloatArray) -> FloatArray:
    """Return the variance of each feature within all clusters, never far below that between their centroids."""
    total = np.maximum(cells.sum(axis=0), 1.0)
    within = (cells * np.where(cells > 0, variances, 0.0)).sum(axis=0) / total
    n = np.maximum(centroids.seen.sum(axis=0), 1)
    mean = np.where(centroids.seen, centroids.values, 0.0).sum(axis=0) / n
    between = np.where(centroids.seen, np.square(centroids.values - mean), 0.0).sum(axis=0) / n
    return np.asarray(np.maximum(within, _CONSTANT * between))


def gaps(points: MaskedCentroids, centroids: MaskedCentroids, spread: FloatArray) -> Gaps:
    """Return how far points are from clusters with this spread."""
    rms, along = (np.full((len(points), len(centroids)), np.nan) for _ in range(2))
    for k in range(len(centroids)):
        both = points.seen & centroids.seen[k] & (spread[k] > 0)
        squares = np.where(both, np.square(points.values - centroids.values[k]), 0.0)
        n, known = both.sum(axis=1), both.any(axis=1)
        scaled = (squares / np.where(spread[k] > 0, spread[k], 1.0)).sum(axis=1)
        rms[known, k] = np.sqrt(scaled[known] / n[known])
        total, wide = squares.sum(axis=1), np.sqrt((squares * spread[k]).sum(axis=1))
        along[known, k] = np.divide(total, wide, out=np.zeros_like(total), where=wide > 0)[known]
    return Gaps(rms, along)


class Rows(NamedTuple):
    """What the rows of now show under the labels of a model: counts and sums of squares around its centroids.

    ``cells`` and ``variances`` are those of the rows that the model was made from.
    """

    counts: FloatArray
    squares: FloatArray
    cells: FloatArray
    variances: FloatArray

    @property
    def compared(self) -> BoolArray:
        """Which entries have values now and had some before."""
        return (self.cells > 0) & (self.counts > 0)

    def excess(self, spread: FloatArray) -> FloatArray:
        """Return by cluster and feature how much larger the sum of squares is than before, in units of the spread."""
        more = self.squares - self.counts * self.variances
        return np.where(self.compared & (spread > 0), more / np.where(spread > 0, spread, 1.0), 0.0)

    def excess_towards(self, cluster: int, step: FloatArray) -> float:
        """Return by how much the variance of a cluster's rows grew in the direction of ``step``."""
        known = self.compared[cluster]
        weight = np.where(known, np.square(step), 0.0)
        if not weight.sum():
            return 0.0
        now = np.divide(self.squares, self.counts, out=np.zeros_like(self.squares), where=self.counts > 0)
        return float((weight * (now - self.variances)[cluster]).sum() / weight.sum())

    def same_as_before(self, spread: FloatArray, tolerance: float) -> bool:
        """Whether numbers of values and sums of squares of all clusters differ by no more than a small share."""
        known = self.cells > 0
        before, now = np.where(known, self.cells, 0.0).sum(axis=1), np.where(known, self.counts, 0.0).sum(axis=1)
        if (np.abs(now - before) > tolerance * before).any() or not known.any():
            return False
        unit = np.where(spread > 0, spread, 1.0)
        wide = known & (spread > 0)
        old = np.where(wide, self.cells * self.variances / unit, 0.0).sum(axis=1)
        new = np.where(wide, self.squares / unit, 0.0).sum(axis=1)
        return bool((np.abs(new - old) <= tolerance * old + tolerance * _CONSTANT * before).all())


def weight_of(counts: FloatArray, seen: BoolArray) -> FloatArray:
    """Return the number of values of each cluster, over the features that it had before."""
    return np.asarray(np.where(seen, counts, 0.0).sum(axis=1))


def nearest(distances: FloatArray, allowed: BoolArray) -> IntArray:
    """Return for each point the nearest of the allowed clusters; −1 if it can be compared with none."""
    usable = np.where(allowed & ~np.isnan(distances), distances, np.inf)
    return np.where(np.isfinite(usable).any(axis=1), usable.argmin(axis=1), -1)
