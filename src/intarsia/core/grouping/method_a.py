"""Method A: seed the groups, then always join the closest pair of a free centroid and a group."""

from __future__ import annotations

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.fast.bounds import DEFAULT_WINDOWS, WindowSizes
from intarsia.core.fast.closest_pair import METRICS, ClosestFirst
from intarsia.core.grouping.local_centroids import LocalCentroids
from intarsia.core.grouping.method_b import far_apart
from intarsia.core.types import BoolArray, FloatArray, IntArray


def method_a(local: LocalCentroids, n_groups: int, windows: WindowSizes = DEFAULT_WINDOWS) -> IntArray:
    """Return the groups of Method A.

    Seeds are the centroids of the first participant with exactly K of them; without one, K centroids by max-min
    distance. Two centroids of one participant never join one group while it has no more than K. The paper's loop stops
    with one centroid left over; ours goes on until none is. When no free centroid can be compared with a group that it
    may join, the first free one takes the first such group: one per participant leaves it no better choice.
    """
    local.check(n_groups)
    seeds = method_a_seeds(local, n_groups)
    separate = np.bincount(local.owner)[local.owner] <= n_groups
    if local.metric in METRICS:
        assert isinstance(local.metric, str)
        extent = local.extent
        return ClosestFirst(local.centroids, separate, local.owner, extent, seeds, local.metric, windows).run()
    return join_closest_first(local, separate, seeds)


def method_a_seeds(local: LocalCentroids, n_groups: int) -> IntArray:
    """Return the centroids of the first participant that has exactly K, or K centroids far from each other."""
    sizes = np.bincount(local.owner)
    with_all = np.flatnonzero(sizes == n_groups)
    if len(with_all):
        return np.flatnonzero(local.owner == with_all[0])
    return far_apart(local, n_groups)


def join_closest_first(local: LocalCentroids, separate: BoolArray, seeds: IntArray) -> IntArray:
    """Return the groups of Method A's loop under any metric: all distances to a group are computed again when it grows.

    ``separate`` marks centroids whose participant may have only one in each group.
    """
    groups = np.full(len(local), -1, dtype=np.intp)
    groups[seeds] = np.arange(len(seeds))
    centres = local.centroids.take(seeds)
    values, counts = centres.values.copy(), centres.counts.copy()
    forbidden = separate[:, None] & (local.owner[:, None] == local.owner[seeds][None, :])
    distance = np.where(np.isnan(d := local.distances_to(centres)), np.inf, d)
    distance[seeds] = np.inf
    for _ in range(len(local) - len(seeds)):
        z, g = _closest(distance, forbidden, groups)
        groups[z] = g
        weight = local.centroids.counts[z]
        counts[g] += weight
        share = np.divide(weight, counts[g], out=np.zeros_like(weight), where=counts[g] > 0)
        values[g] += share * np.where(local.centroids.seen[z], local.centroids.values[z] - values[g], 0.0)
        forbidden[:, g] |= separate & (local.owner == local.owner[z])
        column = local.distances_to(MaskedCentroids.of(values[None, g], counts[None, g]))[:, 0]
        distance[:, g] = np.where(np.isnan(column), np.inf, column)
        distance[groups >= 0] = np.inf
    return groups


def _closest(distance: FloatArray, forbidden: BoolArray, groups: IntArray) -> tuple[int, int]:
    allowed = np.where(forbidden, np.inf, distance)
    z, g = divmod(int(allowed.argmin()), distance.shape[1])
    if np.isfinite(allowed[z, g]):
        return z, g
    # with one cluster of a participant per group, a participant with at most K clusters always has a free group
    free = int(np.flatnonzero(groups < 0)[0])
    return free, int(np.flatnonzero(~forbidden[free])[0])
