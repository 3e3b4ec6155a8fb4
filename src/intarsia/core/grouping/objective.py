"""The two objectives of grouping local clusters: distances of centroids (eq:meta_clustering), or forces (Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from intarsia.core.centroids import merge
from intarsia.core.grouping.local_centroids import (
    LocalCentroids,
    distances_to_group,
    excess_components,
    excess_components_of_centroids,
    objective,
)
from intarsia.core.grouping.moves import Moves, MovesByProducts, MovesBySums, Shares, shares_of, squared_or_default
from intarsia.core.grouping.options import DEFAULT_LIMITS, SearchLimits
from intarsia.core.types import FloatArray, IntArray


class Objective(Protocol):
    """What a search needs to know of the clusters that it groups."""

    @property
    def owner(self) -> IntArray:
        """The participant of each cluster."""

    @property
    def n_groups(self) -> int:
        """The number of groups."""

    @property
    def limits(self) -> SearchLimits:
        """The limits of a search."""

    @property
    def is_wide(self) -> bool:
        """Whether steps are so large that several threads pay."""

    @property
    def opening_costs(self) -> FloatArray:
        """Typical costs of putting two clusters of different participants together."""

    def excess_components(self, groups: IntArray) -> int:
        """Return by how much components of comparable clusters exceed groups: 0 if every group is connected."""

    def moves(self, groups: IntArray) -> Moves:
        """Return an object that moves clusters between groups, and has the costs of that. It changes ``groups``."""

    def costs(self, which: IntArray, groups: IntArray) -> FloatArray:
        """Return the cost of each of ``which`` in each group, made of the clusters with groups[z] >= 0."""

    def misfit(self, groups: IntArray) -> FloatArray:
        """Return how badly each cluster fits its group; only the order matters."""

    def loss(self, groups: IntArray) -> float:
        """Return the number to minimise."""


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
    def shares(self) -> Shares:
        """What each participant contributes to the sums of groups."""
        return shares_of(self.local)

    def moves(self, groups: IntArray) -> Moves:
        """Return an object that moves clusters between groups, and has the costs of that. It changes ``groups``."""
        if self.is_wide:
            return MovesByProducts(self, self.shares, self.n_groups, self.local.extent, groups)
        if len(groups) > self.limits.many:
            return MovesBySums(self, self.local, self.n_groups, groups)
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
