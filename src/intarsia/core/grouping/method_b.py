"""Method B: k-means on the local centroids under rescaled distances, from centroids that are far from each other."""

from __future__ import annotations

import numpy as np

from intarsia.core.blocks import by_rows
from intarsia.core.centroids import MaskedCentroids, merge, refill
from intarsia.core.distances import nearest
from intarsia.core.fast.farthest_pair import DEFAULT_BLOCKS, BlockSizes, farthest_pair
from intarsia.core.grouping.local_centroids import LocalCentroids
from intarsia.core.types import IntArray

_UNCLEAR = 1e-9  # squared rescaled distances by matrix products are off by far less


def far_apart(local: LocalCentroids, n_seeds: int, blocks: BlockSizes = DEFAULT_BLOCKS) -> IntArray:
    """Return centroids far from each other: the farthest pair, then always the one farthest from all chosen.

    Incomparable pairs are ignored; a candidate that cannot be compared with any seed comes last.
    """
    if len(local) == 1:
        return np.zeros(1, dtype=np.intp)
    pair = farthest_pair(local.centroids.values, local.centroids.seen, local.extent, local.metric, blocks)
    if n_seeds == 1:
        return np.array([pair.first if pair.distance > 0 else 0])
    seeds = [pair.first, pair.second]
    closest = np.full(len(local), np.inf)
    for k in range(n_seeds):
        if k >= 2:
            candidates = np.where(np.isinf(closest), -1.0, closest)
            candidates[seeds] = -2.0
            seeds.append(int(candidates.argmax()))
        distances = local.distances_to(local.centroids.take(np.array(seeds[k : k + 1])))[:, 0]
        closest = np.minimum(closest, np.where(np.isnan(distances), np.inf, distances))
    return np.array(seeds, dtype=np.intp)


def method_b(local: LocalCentroids, n_groups: int, max_iter: int = 100) -> IntArray:
    """Return the groups of Method B: k-means on the local centroids from max-min seeds; deterministic.

    An emptied group is seeded again with the worst-fitted centroid. A centroid that cannot be compared with any group
    waits, and is placed as soon as it shares a feature with a group. Rescaled distances change with the masks, so there is
    no proof of convergence; ``max_iter`` ends a cycle.
    """
    local.check(n_groups)
    centres = local.centroids.take(far_apart(local, n_groups))
    groups = np.full(len(local), -1, dtype=np.intp)
    centre_finder = NearestCentre(local)
    for _ in range(max_iter):
        proposal = centre_finder.nearest(centres)
        if (np.bincount(proposal[proposal >= 0], minlength=n_groups) == 0).any():
            distance = local.distances_to(centres)
            fit = np.take_along_axis(distance, np.maximum(proposal, 0)[:, None], axis=1)[:, 0]
            proposal = refill(proposal, np.where(proposal >= 0, fit, np.inf), n_groups)
        if (proposal == groups).all():
            break
        groups = proposal
        centres = merge(local.centroids, groups, n_groups)
    groups[groups < 0] = 0  # only where the overlap graph is not connected
    return groups


class NearestCentre:
    """Finds the nearest of a few centres for many centroids, by matrix products wherever these are clear enough."""

    def __init__(self, local: LocalCentroids) -> None:
        self._local = local
        self._varying = local.varying.astype(np.float64)
        self._middle = np.nan_to_num((local.extent.low + local.extent.high) / 2, nan=0.0)
        self._offsets = np.where(self._varying > 0, local.centroids.values - self._middle, 0.0)

    def nearest(self, centres: MaskedCentroids) -> IntArray:
        """Return the nearest centre of each centroid: the first of equals, −1 where none is comparable."""
        local = self._local
        if local.metric != "euclidean":
            return nearest(local.distances_to(centres))
        known = (centres.seen & local.extent.varies).astype(np.float64)
        c = np.where(known > 0, centres.values - self._middle, 0.0)
        chosen = np.empty(len(local), dtype=np.intp)
        is_close = np.zeros(len(local), dtype=np.bool_)
        for block in by_rows(*self._offsets.shape):
            x, varying = self._offsets[block], self._varying[block]
            squared = np.square(x) @ known.T - 2.0 * x @ c.T + varying @ np.square(c).T
            reach = varying @ (known * np.square(local.extent.width)).T
            squared = np.divide(squared, reach, out=np.full_like(reach, np.inf), where=reach > 0)
            first = squared.argmin(axis=1)
            least = np.take_along_axis(squared, first[:, None], axis=1)
            chosen[block] = np.where(np.isinf(least[:, 0]), -1, first)
            is_close[block] = ((squared <= least + _UNCLEAR) & (squared < np.inf)).sum(axis=1) > 1
        unclear = np.flatnonzero(is_close)
        chosen[unclear] = nearest(local.distances_to(centres, unclear))
        return chosen
