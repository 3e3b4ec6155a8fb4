"""What a search groups: local centroids (eq:meta_clustering) or densities that attract each other (Algorithm 2).

A problem knows what a grouping costs, and, while clusters move from group to group, what each would cost where.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.distances import Extent, rescaled_distances
from intarsia.core.fast.group_sums import GroupSums, Share, share_of
from intarsia.core.grouping.methods import (
    LocalCentroids,
    distances_to_own,
    excess_components,
    objective,
    pieces_too_many,
)
from intarsia.core.types import BoolArray, FloatArray, IntArray

WIDE = 1 << 17  # numbers in the differences between one participant's clusters and all centres: from here on, products
MANY = 3000  # local clusters: from here on, what takes all pairs of them or all starts is left out
_SAMPLE = 300  # clusters that typical costs are taken from, if there are many


class Problem(Protocol):
    """What the search needs to know of the clusters that it groups."""

    @property
    def owner(self) -> IntArray:
        """The participant of each cluster."""

    @property
    def n_groups(self) -> int:
        """How many groups are wanted."""

    @property
    def is_wide(self) -> bool:
        """Whether its steps are so large that they can be taken in several threads."""

    @property
    def opening_costs(self) -> FloatArray:
        """Typical costs of putting two clusters of different participants together."""

    def pieces(self, groups: IntArray) -> int:
        """How many groups too many it would take to make every group hang together."""

    def moving(self, groups: IntArray) -> Moving:
        """Costs while clusters move from group to group."""

    def costs(self, which: IntArray, groups: IntArray) -> FloatArray:
        """What it costs to put each of ``which`` into each group, made of the clusters with groups[z] >= 0."""

    def misfit(self, groups: IntArray) -> FloatArray:
        """How badly each cluster fits its group; only the order matters."""

    def loss(self, groups: IntArray) -> float:
        """The number to make small."""


@dataclass(frozen=True)
class CentroidProblem:
    """Minimise eq:meta_clustering."""

    local: LocalCentroids
    n_groups: int

    @property
    def owner(self) -> IntArray:
        """The participant of each cluster."""
        return self.local.owner

    @cached_property
    def opening_costs(self) -> FloatArray:
        """Squared distances between clusters of different participants; of many clusters, some."""
        local = self.local
        if len(local) > MANY:
            some = np.linspace(0, len(local) - 1, _SAMPLE).astype(np.intp)
            local = LocalCentroids(local.centroids.take(some), local.owner[some], local.metric)
            distances = self.local.distances_to(local.centroids, some)
        else:
            distances = local.distances
        apart = local.owner[:, None] != local.owner[None, :]
        return np.asarray(np.square(distances[apart & ~np.isnan(distances)]))

    def pieces(self, groups: IntArray) -> int:
        """How many groups too many it would take to make every group hang together."""
        return pieces_too_many(self.local, groups)

    @cached_property
    def is_wide(self) -> bool:
        """Whether differences of all features are so many that products of matrices pay."""
        differences = np.bincount(self.owner).max() * self.n_groups * self.local.centroids.values.shape[1]
        return self.local.metric == "euclidean" and bool(differences >= WIDE)

    @cached_property
    def shares(self) -> list[Share]:
        """What each participant brings, where features are many."""
        return [share_of(self.local.centroids, self.local.extent, mine) for mine in turns_of(self)]

    @cached_property
    def share_number(self) -> IntArray:
        """Which of them each cluster is in."""
        return np.unique(self.owner, return_inverse=True)[1].reshape(-1)

    def moving(self, groups: IntArray) -> Moving:
        """Costs while clusters move from group to group."""
        if self.is_wide:
            return MovingWide(self, groups)
        return MovingSums(self, groups) if len(groups) > MANY else Moving(self, groups)

    def costs(self, which: IntArray, groups: IntArray) -> FloatArray:
        """Squared rescaled distance to each group's centre; an incomparable group counts as the whole extent away."""
        if self.is_wide:
            return MovingWide(self, groups).costs(which)
        centres = merge(self.local.centroids, groups, self.n_groups)
        cost = np.square(self.local.distances_to(centres, which))
        empty = np.bincount(groups[groups >= 0], minlength=self.n_groups) == 0
        return np.where(empty, 0.0, np.where(np.isnan(cost), 1.0, cost))

    def misfit(self, groups: IntArray) -> FloatArray:
        """Distance to the centre of the own group."""
        return distances_to_own(self.local, groups, merge(self.local.centroids, groups, self.n_groups))

    def loss(self, groups: IntArray) -> float:
        """eq:meta_clustering."""
        return objective(self.local, groups, self.n_groups)


@dataclass(frozen=True)
class ForceProblem:
    """Maximise the total force inside groups; ``forces`` is NaN where a pair is incomparable."""

    forces: FloatArray
    owner: IntArray
    n_groups: int
    is_wide = False

    @cached_property
    def opening_costs(self) -> FloatArray:
        """Minus the forces between clusters of different participants."""
        apart = self.owner[:, None] != self.owner[None, :]
        return np.asarray(-self.forces[apart & ~np.isnan(self.forces)])

    def pieces(self, groups: IntArray) -> int:
        """How many groups too many it would take to make every group hang together."""
        return excess_components(~np.isnan(self.forces), groups)

    def moving(self, groups: IntArray) -> Moving:
        """Costs while clusters move from group to group."""
        return Moving(self, groups)

    def costs(self, which: IntArray, groups: IntArray) -> FloatArray:
        """Minus the total force towards each group."""
        membership = (groups[:, None] == np.arange(self.n_groups)[None, :]).astype(np.float64)
        return np.asarray(-(np.nan_to_num(self.forces[which]) @ membership))

    def misfit(self, groups: IntArray) -> FloatArray:
        """Minus the force towards the rest of the own group."""
        together = (groups[:, None] == groups[None, :]) & ~np.eye(len(groups), dtype=np.bool_)
        return np.asarray(-(np.nan_to_num(self.forces) * together).sum(axis=1))

    def loss(self, groups: IntArray) -> float:
        """Minus the total force inside groups, each pair once."""
        return float(self.misfit(groups).sum() / 2)


class Moving:
    """Clusters that move from group to group, and what that costs; ``groups`` is where they are, −1 for nowhere."""

    def __init__(self, problem: Problem, groups: IntArray) -> None:
        self._problem, self.groups = problem, groups

    def take_out(self, mine: IntArray) -> None:
        """Nobody's for now."""
        self.groups[mine] = -1

    def costs(self, mine: IntArray) -> FloatArray:
        """What it costs to put each into each group."""
        return self._problem.costs(mine, self.groups)

    def put(self, mine: IntArray, where: IntArray) -> None:
        """Into these groups."""
        self.groups[mine] = where

    def loss(self) -> float:
        """Of the groups as they are."""
        return self._problem.loss(self.groups)


class MovingSums(Moving):
    """The same with the sums of every group kept, so that a participant costs what it has, not what all have."""

    def __init__(self, problem: CentroidProblem, groups: IntArray) -> None:
        super().__init__(problem, groups)
        self._local, k = problem.local, problem.n_groups
        self._origin = np.nan_to_num((self._local.extent.low + self._local.extent.high) / 2, nan=0.0)
        shape = (k, self._local.centroids.values.shape[1])
        self._sums, self._counts, self._sizes = np.zeros(shape), np.zeros(shape), np.zeros(k, dtype=np.intp)
        there = merge(self._local.centroids, groups, k)
        self._counts += there.counts
        self._sums += there.counts * np.where(there.seen, there.values - self._origin, 0.0)
        self._sizes += np.bincount(groups[groups >= 0], minlength=k)

    def take_out(self, mine: IntArray) -> None:
        """Nobody's for now."""
        self._add(mine[self.groups[mine] >= 0], -1)
        super().take_out(mine)

    def put(self, mine: IntArray, where: IntArray) -> None:
        """Into these groups."""
        super().put(mine, where)
        self._add(mine, 1)

    def _add(self, mine: IntArray, sign: int) -> None:
        own, groups = self._local.centroids.take(mine), self.groups[mine]
        counts = sign * own.counts
        sums = counts * (own.values - self._origin)  # where nothing is seen, counts are 0
        if len(set(groups.tolist())) == len(groups):  # as nearly always
            self._counts[groups] += counts
            self._sums[groups] += sums
            self._sizes[groups] += sign
            return
        np.add.at(self._counts, groups, counts)
        np.add.at(self._sums, groups, sums)
        np.add.at(self._sizes, groups, sign)

    def costs(self, mine: IntArray) -> FloatArray:
        """Squared rescaled distance to each group's centre; an incomparable group counts as the whole extent away.

        What none of the clusters sees cannot be compared, and is left out.
        """
        own, extent = self._local.centroids.take(mine), self._local.extent
        seen = np.flatnonzero(own.counts.any(axis=0))
        counts = self._counts[:, seen]
        values = self._origin[seen] + self._sums[:, seen] / np.where(counts > 0, counts, 1.0)
        centres = MaskedCentroids.of(values, counts)
        distances = rescaled_distances(
            own.values[:, seen],
            own.counts[:, seen] > 0,
            centres.values,
            centres.seen,
            Extent(extent.low[seen], extent.high[seen]),
            self._local.metric,
        )
        cost = np.square(distances)
        return np.where(self._sizes == 0, 0.0, np.where(np.isnan(cost), 1.0, cost))


class MovingWide(Moving):
    """The same where features are many: sums of every group, and products of matrices instead of differences."""

    def __init__(self, problem: CentroidProblem, groups: IntArray) -> None:
        super().__init__(problem, groups)
        self._shares, self._number = problem.shares, problem.share_number
        self._sums = GroupSums(problem.n_groups, problem.local.extent)
        for share in self._shares:
            self._sums.add(share, groups[share.members], 1.0)

    def _parts(self, which: IntArray) -> Iterator[tuple[BoolArray | slice, Share]]:
        """By participant: where its clusters stand among ``which``, and what they bring."""
        number = self._number[which]
        for k in np.unique(number):
            share, here = self._shares[k], number == k
            if len(which) == len(share.members) and (share.members == which).all():
                yield slice(None), share
            else:
                yield here, share.of(np.searchsorted(share.members, which[here]))

    def take_out(self, mine: IntArray) -> None:
        """Nobody's for now."""
        for here, share in self._parts(mine):
            self._sums.add(share, self.groups[mine[here]], -1.0)
        super().take_out(mine)

    def put(self, mine: IntArray, where: IntArray) -> None:
        """Into these groups."""
        super().put(mine, where)
        for here, share in self._parts(mine):
            self._sums.add(share, where[here], 1.0)

    def costs(self, mine: IntArray) -> FloatArray:
        """Squared rescaled distance to each group's centre; an incomparable group counts as the whole extent away."""
        result = np.empty((len(mine), self._problem.n_groups))
        for here, share in self._parts(mine):
            result[here] = self._sums.costs(share)
        return result

    def loss(self) -> float:
        """Of the groups as they are."""
        return sum(self._sums.loss(share, self.groups[share.members]) for share in self._shares)


def turns_of(problem: Problem) -> list[IntArray]:
    """The clusters of each participant."""
    _, counts = np.unique(problem.owner, return_counts=True)
    return np.split(np.argsort(problem.owner, kind="stable"), np.cumsum(counts)[:-1])
