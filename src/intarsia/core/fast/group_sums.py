r"""Distances to the centres of groups while clusters move, with many features: by matrix products.

With offsets x of a cluster and c of a centre from the middle of S, o for the features of the cluster and k for those of the
group (1 or 0), and widths w:

.. math:: d^2 = \sum_m o_m k_m (x_m - c_m)^2 \Big/ \sum_m o_m k_m w_m^2
              = \bigl( x^2 \cdot k - 2\, x \cdot c + o \cdot c^2 \bigr) \big/ \bigl( o \cdot k w^2 \bigr)

A participant's clusters take part with its own features only. The error of a square is relative to S, not to the distance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent
from intarsia.core.types import FloatArray, IntArray


class Share(NamedTuple):
    """One participant's clusters over the features that any of them has and that vary.

    ``offsets`` are from the middle of S, 0 where hidden; ``seen`` has one row where all clusters have the same features.
    """

    members: IntArray
    columns: IntArray
    offsets: FloatArray
    squares: FloatArray
    counts: FloatArray
    weighted: FloatArray
    seen: FloatArray
    reach: FloatArray

    def take(self, index: IntArray) -> Share:
        """Return the share of some of the clusters, by their place among the participant's."""
        return Share(
            self.members[index],
            self.columns,
            self.offsets[index],
            self.squares[index],
            self.counts[index],
            self.weighted[index],
            self.seen if len(self.seen) == 1 else self.seen[index],
            self.reach[index],
        )


def share_of(centroids: MaskedCentroids, extent: Extent, members: IntArray) -> Share:
    """Return the share of the participant whose clusters are ``members``."""
    rows = centroids.take(members)
    columns = np.flatnonzero(rows.seen.any(axis=0) & extent.varies)
    counts = rows.counts[:, columns]
    middle = (extent.low[columns] + extent.high[columns]) / 2
    offsets = np.where(counts > 0, rows.values[:, columns] - middle, 0.0)
    seen = (counts > 0).astype(np.float64)
    if (seen == seen[:1]).all():
        seen = seen[:1]
    reach = np.broadcast_to(seen @ np.square(extent.width[columns]), len(members))
    return Share(members, columns, offsets, np.square(offsets), counts, counts * offsets, seen, reach)


class GroupSums:
    """For every feature and group the number of points and the sum of their offsets; for every group its size."""

    def __init__(self, n_groups: int, extent: Extent) -> None:
        self._sums, self._counts = np.zeros((2, len(extent.low), n_groups))
        self._sizes = np.zeros(n_groups, dtype=np.intp)
        self._squared_width = np.square(extent.width)

    def add(self, share: Share, groups: IntArray, sign: float) -> None:
        """Put a participant's clusters into groups (sign 1) or take them out (−1); group −1 stands for none."""
        member = (groups[:, None] == np.arange(len(self._sizes))[None, :]) * sign
        self._counts[share.columns] += share.counts.T @ member
        self._sums[share.columns] += share.weighted.T @ member
        self._sizes += member.sum(axis=0).astype(np.intp)

    def _centres(self, share: Share) -> tuple[FloatArray, FloatArray]:
        """Return the centres' offsets over a participant's features, 0 where unknown, and which are known."""
        counts = self._counts.take(share.columns, axis=0)
        known = counts > 0
        centres = self._sums.take(share.columns, axis=0)
        np.divide(centres, counts, out=centres, where=known)
        centres *= known  # removes what rounding leaves of a group without members
        return centres, known.astype(np.float64)

    def costs(self, share: Share) -> FloatArray:
        """Return squared rescaled distances to each centre: 0 to an empty group, 1 to an incomparable one."""
        centres, known = self._centres(share)
        squared = share.squares @ known - 2.0 * (share.offsets @ centres) + share.seen @ np.square(centres)
        reach = np.broadcast_to((share.seen * self._squared_width[share.columns]) @ known, squared.shape)
        cost = np.divide(np.maximum(squared, 0.0), reach, out=np.ones_like(squared), where=reach > 0)
        return np.where(self._sizes == 0, 0.0, cost)

    def loss(self, share: Share, groups: IntArray) -> float:
        """Return the part of eq:meta_clustering that a participant's clusters add in these groups."""
        centres, _ = self._centres(share)
        residuals = share.offsets - share.seen * centres.T[groups]
        squared = np.einsum("ij,ij->i", residuals, residuals)
        return float(np.divide(squared, share.reach, out=np.zeros(len(groups)), where=share.reach > 0).sum())
