"""The two objectives of grouping local clusters, and their costs while clusters move from group to group.

Centroids are grouped by distances (eq:meta_clustering), densities by forces (Algorithm 2). Costs of moves are computed from
scratch, by sums of every group, or by matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.distances import Extent, rescaled_distances
from intarsia.core.fast.group_sums import GroupSums, Share, share_of
from intarsia.core.grouping.local_centroids import (
    LocalCentroids,
    distances_to_group,
    excess_components,
    excess_components_of_centroids,
    objective,
)
from intarsia.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class SearchLimits:
    """The sizes from which on the search computes differently, and the bounds of its effort. Only tests change them."""

    wide: int = 1 << 17  # differences of one participant's clusters and all centres; with more, matrix products
    several: int = 500  # local clusters; with more, the search ends as soon as starts agree
    many: int = 3000  # local clusters; with more, the search avoids all pairs of them, most starts and most rivals
    n_agreeing: int = 5  # consecutive starts that must lead to the best grouping for a search to end early
    n_random_starts: int = 8  # with many clusters: a search then takes less than 20 times as long as Method A
    n_sampled: int = 300  # clusters that typical costs are taken from with many clusters
    max_sweeps: int = 50  # sweeps of rematching over all participants
    close: float = 1 / 3  # how much worse a rival may be, as a share of its own loss
    n_doubtful: int = 20  # participants with the least certain clusters, for whom other matchings are tried


DEFAULT_LIMITS = SearchLimits()


@dataclass(frozen=True)
class CentroidObjective:
    """Minimise the sum of squared distances of eq:meta_clustering."""

    local: LocalCentroids
    n_groups: int
    limits: SearchLimits = DEFAULT_LIMITS

    @property
    def owner(self) -> IntArray:
        """The participant of each cluster."""
        return self.local.owner

    @cached_property
    def opening_costs(self) -> FloatArray:
        """Squared distances between clusters of different participants; a sample of them if there are many."""
        local = self.local
        if len(local) > self.limits.many:
            sample = np.linspace(0, len(local) - 1, self.limits.n_sampled).astype(np.intp)
            owner, distances = local.owner[sample], local.distances_to(local.centroids.take(sample), sample)
        else:
            owner, distances = local.owner, local.distances
        different = owner[:, None] != owner[None, :]
        return np.asarray(np.square(distances[different & ~np.isnan(distances)]))

    def excess_components(self, groups: IntArray) -> int:
        """Return by how much components of comparable clusters exceed groups: 0 if every group is connected."""
        return excess_components_of_centroids(self.local, groups)

    @cached_property
    def is_wide(self) -> bool:
        """Whether differences of all features are so many that matrix products pay."""
        differences = np.bincount(self.owner).max() * self.n_groups * self.local.centroids.values.shape[1]
        return self.local.metric == "euclidean" and bool(differences >= self.limits.wide)

    @cached_property
    def shares(self) -> tuple[list[Share], IntArray]:
        """What each participant contributes to the sums of groups, and the number of the share of each cluster."""
        local = self.local
        shares = [share_of(local.centroids, local.extent, members) for members in members_of_each(local.owner)]
        return shares, np.unique(local.owner, return_inverse=True)[1].reshape(-1)

    def moves(self, groups: IntArray) -> Moves:
        """Return an object that moves clusters between groups, and has the costs of that. It changes ``groups``."""
        if self.is_wide:
            return MovesByProducts(self, groups)
        if len(groups) > self.limits.many:
            return MovesBySums(self, groups)
        return Moves(self, groups)

    def costs(self, which: IntArray, groups: IntArray) -> FloatArray:
        """Return squared rescaled distances to each group's centre: 0 to an empty group, 1 to an incomparable one."""
        if self.is_wide:
            return self.moves(groups).costs(which)
        centres = merge(self.local.centroids, groups, self.n_groups)
        empty = np.bincount(groups[groups >= 0], minlength=self.n_groups) == 0
        return squared_or_default(self.local.distances_to(centres, which), empty)

    def misfit(self, groups: IntArray) -> FloatArray:
        """Return the distance of each cluster to the centre of its group."""
        return distances_to_group(self.local, groups, merge(self.local.centroids, groups, self.n_groups))

    def loss(self, groups: IntArray) -> float:
        """Return the sum of squared distances (eq:meta_clustering)."""
        return objective(self.local, groups, self.n_groups)


@dataclass(frozen=True)
class ForceObjective:
    """Maximise the total force inside groups; ``forces`` is NaN where a pair is incomparable."""

    forces: FloatArray
    owner: IntArray
    n_groups: int
    limits: SearchLimits = DEFAULT_LIMITS
    is_wide = False

    @cached_property
    def opening_costs(self) -> FloatArray:
        """Minus the forces between clusters of different participants."""
        different = self.owner[:, None] != self.owner[None, :]
        return np.asarray(-self.forces[different & ~np.isnan(self.forces)])

    def excess_components(self, groups: IntArray) -> int:
        """Return by how much components of comparable clusters exceed groups: 0 if every group is connected."""
        return excess_components(~np.isnan(self.forces), groups)

    def moves(self, groups: IntArray) -> Moves:
        """Return an object that moves clusters between groups, and has the costs of that. It changes ``groups``."""
        return Moves(self, groups)

    def costs(self, which: IntArray, groups: IntArray) -> FloatArray:
        """Return minus the total force towards each group."""
        membership = (groups[:, None] == np.arange(self.n_groups)[None, :]).astype(np.float64)
        return np.asarray(-(np.nan_to_num(self.forces[which]) @ membership))

    def misfit(self, groups: IntArray) -> FloatArray:
        """Return minus the force of each cluster towards the rest of its group."""
        together = (groups[:, None] == groups[None, :]) & ~np.eye(len(groups), dtype=np.bool_)
        return np.asarray(-(np.nan_to_num(self.forces) * together).sum(axis=1))

    def loss(self, groups: IntArray) -> float:
        """Return minus the total force inside groups, each pair once."""
        return float(self.misfit(groups).sum() / 2)


Objective = CentroidObjective | ForceObjective


class Moves:
    """Clusters that move between groups, with all costs computed from scratch.

    ``groups`` is the current group of every cluster, −1 for none.
    """

    def __init__(self, objective: Objective, groups: IntArray) -> None:
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

    def __init__(self, objective: CentroidObjective, groups: IntArray) -> None:
        super().__init__(objective, groups)
        self._local = local = objective.local
        n_groups = objective.n_groups
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


class MovesByProducts(Moves):
    """Moves of centroids with many features: sums of every group, and matrix products instead of differences."""

    def __init__(self, objective: CentroidObjective, groups: IntArray) -> None:
        super().__init__(objective, groups)
        self._shares, self._number = objective.shares
        self._n_groups = objective.n_groups
        self._sums = GroupSums(objective.n_groups, objective.local.extent)
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
