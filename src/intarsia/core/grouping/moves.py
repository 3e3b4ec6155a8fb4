"""Costs while clusters move from group to group: from scratch, by sums of every group, or by matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.distances import Extent, rescaled_distances
from intarsia.core.fast.group_sums import GroupSums, Share, share_of
from intarsia.core.grouping.local_centroids import LocalCentroids
from intarsia.core.types import BoolArray, FloatArray, IntArray


class Costs(Protocol):
    """The costs of a grouping, computed from scratch."""

    def costs(self, which: IntArray, groups: IntArray) -> FloatArray:
        """Return the cost of each of ``which`` in each group, made of the clusters with groups[z] >= 0."""

    def loss(self, groups: IntArray) -> float:
        """Return the loss of a grouping."""


class Moves:
    """Clusters that move between groups, with all costs computed from scratch.

    ``groups`` is the current group of every cluster, −1 for none.
    """

    def __init__(self, objective: Costs, groups: IntArray) -> None:
        self._objective, self.groups = objective, groups

    def take_out(self, members: IntArray) -> None:
        """Remove clusters from their groups."""
        self.groups[members] = -1

    def costs(self, members: IntArray) -> FloatArray:
        """Return the cost of each of these clusters in each group."""
        return self._objective.costs(members, self.groups)

    def put(self, members: IntArray, groups: IntArray) -> None:
        """Put clusters that are in no group into these."""
        self.groups[members] = groups

    def loss(self) -> float:
        """Return the loss of the current groups."""
        return self._objective.loss(self.groups)


class MovesBySums(Moves):
    """Moves of centroids that keep the sums of every group: a cost depends on the participant's clusters, not on all."""

    def __init__(self, objective: Costs, local: LocalCentroids, n_groups: int, groups: IntArray) -> None:
        super().__init__(objective, groups)
        self._local = local
        self._origin = np.nan_to_num((local.extent.low + local.extent.high) / 2, nan=0.0)
        centres = merge(local.centroids, groups, n_groups)
        self._counts = centres.counts.copy()
        self._sums = centres.counts * np.where(centres.seen, centres.values - self._origin, 0.0)
        self._sizes = np.bincount(groups[groups >= 0], minlength=n_groups)

    def take_out(self, members: IntArray) -> None:
        """Remove clusters from their groups."""
        self._add(members[self.groups[members] >= 0], -1)
        super().take_out(members)

    def put(self, members: IntArray, groups: IntArray) -> None:
        """Put clusters that are in no group into these."""
        super().put(members, groups)
        self._add(members, 1)

    def _add(self, members: IntArray, sign: int) -> None:
        centroids, groups = self._local.centroids.take(members), self.groups[members]
        counts = sign * centroids.counts
        sums = counts * (centroids.values - self._origin)  # counts are 0 where nothing is seen
        if len(set(groups.tolist())) == len(groups):  # the usual case
            self._counts[groups] += counts
            self._sums[groups] += sums
            self._sizes[groups] += sign
            return
        np.add.at(self._counts, groups, counts)
        np.add.at(self._sums, groups, sums)
        np.add.at(self._sizes, groups, sign)

    def costs(self, members: IntArray) -> FloatArray:
        """Return the squared rescaled distance to each group's centre, as :meth:`CentroidObjective.costs` has it.

        Features that none of these clusters has cannot be compared, and are skipped.
        """
        centroids, extent = self._local.centroids.take(members), self._local.extent
        seen = np.flatnonzero(centroids.counts.any(axis=0))
        counts = self._counts[:, seen]
        values = self._origin[seen] + self._sums[:, seen] / np.where(counts > 0, counts, 1.0)
        centres = MaskedCentroids.of(values, counts)
        distances = rescaled_distances(
            centroids.values[:, seen],
            centroids.counts[:, seen] > 0,
            centres.values,
            centres.seen,
            Extent(extent.low[seen], extent.high[seen]),
            self._local.metric,
        )
        return squared_or_default(distances, self._sizes == 0)


def squared_or_default(distances: FloatArray, empty: BoolArray) -> FloatArray:
    """Return squared distances to groups: 0 to an empty group, 1 (the whole extent) to an incomparable one."""
    cost = np.square(distances)
    return np.where(empty, 0.0, np.where(np.isnan(cost), 1.0, cost))


class Shares(NamedTuple):
    """What each participant contributes to the sums of groups, and the number of the share of each cluster."""

    shares: list[Share]
    number: IntArray


def shares_of(local: LocalCentroids) -> Shares:
    """Return the share of every participant."""
    shares = [share_of(local.centroids, local.extent, members) for members in members_of_each(local.owner)]
    return Shares(shares, np.unique(local.owner, return_inverse=True)[1].reshape(-1))


class MovesByProducts(Moves):
    """Moves of centroids with many features: sums of every group, and matrix products instead of differences."""

    def __init__(self, objective: Costs, shares: Shares, n_groups: int, extent: Extent, groups: IntArray) -> None:
        super().__init__(objective, groups)
        self._shares, self._number = shares
        self._n_groups = n_groups
        self._sums = GroupSums(n_groups, extent)
        for share in self._shares:
            self._sums.add(share, groups[share.members], 1.0)

    def _parts(self, which: IntArray) -> Iterator[tuple[BoolArray | slice, Share]]:
        """Yield, by participant, which of ``which`` are its clusters, and their share."""
        number = self._number[which]
        for k in np.unique(number):
            share, is_part = self._shares[k], number == k
            if len(which) == len(share.members) and (share.members == which).all():
                yield slice(None), share
            else:
                yield is_part, share.take(np.searchsorted(share.members, which[is_part]))

    def take_out(self, members: IntArray) -> None:
        """Remove clusters from their groups."""
        for part, share in self._parts(members):
            self._sums.add(share, self.groups[members[part]], -1.0)
        super().take_out(members)

    def put(self, members: IntArray, groups: IntArray) -> None:
        """Put clusters that are in no group into these."""
        super().put(members, groups)
        for part, share in self._parts(members):
            self._sums.add(share, groups[part], 1.0)

    def costs(self, members: IntArray) -> FloatArray:
        """Return the squared rescaled distance to each group's centre, as :meth:`CentroidObjective.costs` has it."""
        result = np.empty((len(members), self._n_groups))
        for part, share in self._parts(members):
            result[part] = self._sums.costs(share)
        return result

    def loss(self) -> float:
        """Return the loss of the current groups."""
        return sum(self._sums.loss(share, self.groups[share.members]) for share in self._shares)


def members_of_each(owner: IntArray) -> list[IntArray]:
    """Return the clusters of each participant.

    >>> members_of_each(np.array([0, 2, 0]))
    [array([0, 2]), array([1])]
    """
    _, counts = np.unique(owner, return_counts=True)
    return np.split(np.argsort(owner, kind="stable"), np.cumsum(counts)[:-1])
