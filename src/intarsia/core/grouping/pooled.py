r"""Groupings by what summaries tell of the rows: k-means on local centroids, weighted by the values behind their entries.

If all rows of a local cluster stay together, the sum of squares of all observed values is

.. math:: \text{squares within local clusters} + \sum_z \sum_m n_{z,m} (c_{z,m} - \bar c_{g(z),m})^2

with :math:`n_{z,m}` values behind entry m of local centroid z. The first term does not depend on the grouping; the second is
minimised here from many starts. Unlike eq:meta_clustering it counts rows, and local clusters of one participant may share a
group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from intarsia.core.centroids import MaskedCentroids, merge, refill
from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.types import FloatArray, IntArray

_TRIES = 3  # points that each step of k-means++ draws, of which it takes the best
_MOST_ITERATIONS = 100


class Pooled(NamedTuple):
    """A grouping of local clusters, and the sum of squares of their centroids around the centres of groups."""

    groups: IntArray
    squares: float


def pooled_groupings(
    centroids: MaskedCentroids, n_groups: int, n_starts: int, stream: Callable[[int], np.random.Generator]
) -> list[Pooled]:
    """Return the different groupings that k-means reaches from ``n_starts`` starts, the best first.

    Groupings with fewer than ``n_groups`` groups are left out. ``stream(k)`` is the generator of start k.
    """
    points, found = _Points(centroids), dict[bytes, Pooled]()
    for k in range(n_starts):
        pooled = points.kmeans(points.plus_plus(n_groups, stream(k)))
        groups = renumber(pooled.groups)
        if int(groups.max()) + 1 == n_groups:
            found.setdefault(groups.tobytes(), Pooled(groups, pooled.squares))
    return sorted(found.values(), key=lambda each: each.squares)


def squares_between(centroids: MaskedCentroids, groups: IntArray, n_groups: int) -> float:
    """Return the sum of squares of local centroids around the centres of their groups."""
    centres = merge(centroids, groups, n_groups).take(groups)
    differences = np.where(centroids.seen, centroids.values - centres.values, 0.0)
    return float((centroids.counts * np.square(differences)).sum())


def share_moved(one: IntArray, other: IntArray, weights: IntArray | FloatArray) -> float:
    """Return the share of the weights that two groupings put in different groups, after the best matching of groups.

    >>> round(share_moved(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1]), np.array([2, 1, 5, 2])), 3)
    0.2
    """
    shared = np.zeros((int(one.max()) + 1, int(other.max()) + 1))
    np.add.at(shared, (one, other), weights)
    return float(1.0 - shared[linear_sum_assignment(-shared)].sum() / max(shared.sum(), 1.0))


class _Points:
    """Local centroids as weighted points; distances are sums of squares over the entries of a point, times their weights."""

    def __init__(self, centroids: MaskedCentroids) -> None:
        self._weights = np.where(centroids.seen, centroids.counts, 0.0)
        total = self._weights.sum(axis=0)
        known = np.where(centroids.seen, centroids.values, 0.0)
        # around the mean, so that products of large numbers do not cancel
        mean = (self._weights * known).sum(axis=0) / np.where(total > 0, total, 1.0)
        self._values = np.where(centroids.seen, known - mean, 0.0)
        self._sums = self._weights * self._values
        self._squares = (self._sums * self._values).sum(axis=1)

    def _distances(self, centres: FloatArray) -> FloatArray:
        products = self._weights @ np.square(centres).T - 2.0 * self._sums @ centres.T
        return np.asarray(np.maximum(products + self._squares[:, None], 0.0))

    def plus_plus(self, n_groups: int, rng: np.random.Generator) -> FloatArray:
        """Draw points far from each other, by their distances to those drawn so far; unknown entries are the mean, 0."""
        chance = self._weights.sum(axis=1)
        chosen = [int(rng.choice(len(chance), p=chance / chance.sum()))]
        closest = self._distances(self._values[chosen])[:, 0]
        while len(chosen) < n_groups:
            chance = np.where(closest.sum() > 0, closest, 1.0)
            drawn = rng.choice(len(chance), size=_TRIES, p=chance / chance.sum())
            after = np.minimum(closest[:, None], self._distances(self._values[drawn]))
            best = int(after.sum(axis=0).argmin())
            chosen.append(int(drawn[best]))
            closest = after[:, best]
        return self._values[chosen]

    def kmeans(self, centres: FloatArray) -> Pooled:
        """Alternate between the nearest centre and means, until no point changes its group."""
        groups = np.full(len(self._values), -1, dtype=np.intp)
        for _ in range(_MOST_ITERATIONS):
            distances = self._distances(centres)
            nearest = distances.argmin(axis=1)
            nearest = refill(nearest, distances[np.arange(len(nearest)), nearest], len(centres))
            if np.array_equal(nearest, groups):
                break
            groups = nearest
            member = (np.arange(len(centres))[:, None] == groups).astype(np.float64)
            weights = member @ self._weights
            centres = np.where(weights > 0, member @ self._sums / np.where(weights > 0, weights, 1.0), centres)
        distances = self._distances(centres)
        return Pooled(groups, float(distances[np.arange(len(groups)), groups].sum()))
