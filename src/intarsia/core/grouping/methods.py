"""Clustering the local centroids: the objective and the paper's two heuristics for it (eq:meta_clustering).

Legend: ``centroids`` 𝒸 · ``owner[z]`` the participant i of centroid z · ``groups[z]`` the g with (i, a) ∈ G[g] ·
``extent`` that of 𝒸 · ``n_groups`` K.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from intarsia.core.blocks import by_rows
from intarsia.core.centroids import MaskedCentroids, merge, refill
from intarsia.core.distances import Extent, Metric, extent_of, nearest, phi_of_pairs, rescaled_distances
from intarsia.core.fast import closest_pair
from intarsia.core.fast.closest_pair import ClosestFirst
from intarsia.core.fast.farthest_pair import farthest_pair
from intarsia.core.features import components, overlap_graph
from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import TooFewClustersError

_UNCLEAR = 1e-9  # squared rescaled distances by matrix products are off by far less


@dataclass(frozen=True)
class LocalCentroids:
    """Everybody's local centroids, who owns each, and the distance they are compared by."""

    centroids: MaskedCentroids
    owner: IntArray
    metric: Metric = "euclidean"

    @cached_property
    def extent(self) -> Extent:
        """Entry-wise reach of all local centroids: the S of every rescaled distance between them."""
        return extent_of(self.centroids.values, self.centroids.seen)

    @cached_property
    def distances(self) -> FloatArray:
        """Rescaled distances between all pairs; NaN where incomparable."""
        return self.distances_to(self.centroids)

    @cached_property
    def comparable(self) -> BoolArray:
        """Which pairs have a distance at all."""
        return ~np.isnan(self.distances)

    @cached_property
    def sharing(self) -> BoolArray:
        """Which pairs share a feature that varies: those with a Euclidean or Manhattan distance."""
        return overlap_graph(self.centroids.seen & self.extent.varies)

    def distances_to(self, centres: MaskedCentroids, which: IntArray | slice = slice(None)) -> FloatArray:
        """Rescaled distances from (some of) the local centroids to other centres."""
        own = self.centroids.take(which)
        return rescaled_distances(own.values, own.seen, centres.values, centres.seen, self.extent, self.metric)

    def __len__(self) -> int:
        return len(self.owner)

    def check(self, n_groups: int) -> None:
        """Refuse to make more groups than there are local clusters."""
        if n_groups > len(self):
            n = len(np.unique(self.owner))
            raise TooFewClustersError(
                f"{n_groups} global clusters were asked for, but {n} participant(s) found only {len(self)} local "
                f"clusters in all. Hint: ask for at most {len(self)} clusters, or for more local ones (n_local_clusters)."
            )


def objective(local: LocalCentroids, groups: IntArray, n_groups: int) -> float:
    r"""How far the local centroids are from the centre of their group (eq:meta_clustering).

    .. math:: \sum_g \sum_{(i,a) \in G[g]} d_{ii}^c \bigl( c_i^a, \mathrm{merge}(G[g]) \bigr)^2
    """
    centres = merge(local.centroids, groups, n_groups)
    return float(np.sum(distances_to_own(local, groups, centres) ** 2))


def distances_to_own(local: LocalCentroids, groups: IntArray, centres: MaskedCentroids) -> FloatArray:
    """d_ii(c, centre of its group) for each local centroid; 0 where none of its features varies."""
    own, mine = local.centroids, centres.take(groups)
    seen = own.seen & local.extent.varies
    distance = phi_of_pairs(own.values, mine.values, seen, local.metric)
    largest = phi_of_pairs(local.extent.high, local.extent.low, seen, local.metric)
    return np.divide(distance, largest, out=np.zeros_like(distance), where=largest > 0)


def excess_components(local_comparable: BoolArray, groups: IntArray) -> int:
    """How many groups too many it would take to make every group connected by comparable pairs (Assumption 1.1)."""
    together = local_comparable & (groups[:, None] == groups[None, :])
    np.fill_diagonal(together, val=True)
    return int(components(together).max(initial=-1)) + 1 - len(np.unique(groups))


def pieces_too_many(local: LocalCentroids, groups: IntArray) -> int:
    """:func:`excess_components` of local centroids, without all pairs where sharing a feature that varies is enough."""
    if local.metric not in closest_pair.METRICS:
        return excess_components(local.comparable, groups)
    if len(local) <= local.centroids.values.shape[1]:
        return excess_components(local.sharing, groups)
    rows, columns = np.nonzero(local.centroids.seen & local.extent.varies)
    n, d = len(groups), local.centroids.values.shape[1]
    at = n + groups[rows] * d + columns  # every group has its own features
    size = n + d * (int(groups.max(initial=0)) + 1)
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, at)), shape=(size, size))
    _, label = connected_components(graph, directed=False)
    return len(np.unique(label[:n])) - len(np.unique(groups))


def max_min_seeds(distances: FloatArray, n_seeds: int) -> IntArray:
    """Centroids far from each other: the farthest pair, then always the one farthest from all chosen (Method B).

    Incomparable pairs are ignored; a candidate that cannot be compared with any seed comes last.
    """
    if n_seeds == 1:
        reach = np.where(np.isnan(distances), 0.0, distances).max(axis=1)
        return np.array([int(reach.argmax())])
    pairs = np.where(np.isnan(distances), -1.0, distances)
    pairs[np.tri(len(pairs), dtype=np.bool_)] = -np.inf  # each pair once, and no centroid with itself
    seeds = list(divmod(int(pairs.argmax()), len(pairs)))
    closest = np.where(np.isnan(distances), np.inf, distances)[seeds].min(axis=0)
    for _ in range(2, n_seeds):
        candidates = np.where(np.isinf(closest), -1.0, closest)
        candidates[seeds] = -2.0
        seeds.append(int(candidates.argmax()))
        closest = np.minimum(closest, np.where(np.isnan(distances[seeds[-1]]), np.inf, distances[seeds[-1]]))
    return np.array(seeds, dtype=np.intp)


def far_apart(local: LocalCentroids, n_seeds: int) -> IntArray:
    """:func:`max_min_seeds` of local centroids, without the distances of all pairs."""
    own = local.centroids
    if len(local) == 1:
        return np.zeros(1, dtype=np.intp)
    pair = farthest_pair(own.values, own.seen, local.extent, local.metric)
    if n_seeds == 1:
        return np.array([pair.first if pair.distance > 0 else 0])
    seeds = [pair.first, pair.second]
    closest = np.full(len(local), np.inf)
    for k in range(n_seeds):
        if k >= 2:
            candidates = np.where(np.isinf(closest), -1.0, closest)
            candidates[seeds] = -2.0
            seeds.append(int(candidates.argmax()))
        distances = local.distances_to(own.take(np.array(seeds[k : k + 1])))[:, 0]
        closest = np.minimum(closest, np.where(np.isnan(distances), np.inf, distances))
    return np.array(seeds, dtype=np.intp)


def method_a(local: LocalCentroids, n_groups: int) -> IntArray:
    """Method A: seed the groups, then always join the closest pair of a free centroid and a group.

    Seeds are the centroids of the first participant with exactly K of them; without one, K centroids by max-min
    distance. Two centroids of one participant never join one group while it has no more than K. The paper's loop stops
    with one centroid left over; ours goes on until none is. When no free centroid can be compared with a group that it
    may join, the first free one takes the first such group: one per participant leaves it no better choice.
    """
    local.check(n_groups)
    seeds = method_a_seeds(local, n_groups)
    apart = np.bincount(local.owner)[local.owner] <= n_groups
    if local.metric in closest_pair.METRICS:
        assert isinstance(local.metric, str)
        return ClosestFirst(local.centroids, apart, local.owner, local.extent, seeds, local.metric).run()
    return _every_distance(local, apart, seeds)


def _every_distance(local: LocalCentroids, apart: BoolArray, seeds: IntArray) -> IntArray:
    """Method A's loop with all distances to a group computed again whenever it grows: for any φ."""
    groups = np.full(len(local), -1, dtype=np.intp)
    groups[seeds] = np.arange(len(seeds))
    centres = local.centroids.take(seeds)
    values, counts = centres.values.copy(), centres.counts.copy()
    barred = apart[:, None] & (local.owner[:, None] == local.owner[seeds][None, :])
    distance = np.where(np.isnan(d := local.distances_to(centres)), np.inf, d)
    distance[seeds] = np.inf
    for _ in range(len(local) - len(seeds)):
        z, g = _closest(distance, barred, groups)
        groups[z] = g
        weight = local.centroids.counts[z]
        counts[g] += weight
        share = np.divide(weight, counts[g], out=np.zeros_like(weight), where=counts[g] > 0)
        values[g] += share * np.where(local.centroids.seen[z], local.centroids.values[z] - values[g], 0.0)
        barred[:, g] |= apart & (local.owner == local.owner[z])
        column = local.distances_to(MaskedCentroids.of(values[None, g], counts[None, g]))[:, 0]
        distance[:, g] = np.where(np.isnan(column), np.inf, column)
        distance[groups >= 0] = np.inf
    return groups


def method_a_seeds(local: LocalCentroids, n_groups: int) -> IntArray:
    """The centroids of a participant that has exactly K, or K centroids far from each other."""
    sizes = np.bincount(local.owner)
    full = np.flatnonzero(sizes == n_groups)
    if len(full):
        return np.flatnonzero(local.owner == full[0])
    return far_apart(local, n_groups)


def _closest(distance: FloatArray, barred: BoolArray, groups: IntArray) -> tuple[int, int]:
    allowed = np.where(barred, np.inf, distance)
    z, g = divmod(int(allowed.argmin()), distance.shape[1])
    if np.isfinite(allowed[z, g]):
        return z, g
    # with one cluster of a participant per group, somebody with at most K clusters is never barred everywhere
    free = int(np.flatnonzero(groups < 0)[0])
    return free, int(np.flatnonzero(~barred[free])[0])


def method_b(local: LocalCentroids, n_groups: int, max_iter: int = 100) -> IntArray:
    """Method B: k-means on the local centroids under rescaled distances, from max-min seeds; deterministic.

    An emptied group is seeded again with the worst-fitted centroid. A centroid that cannot be compared with any group
    waits, and is placed as soon as a group has grown a feature of its own. Rescaled distances change with the masks,
    so there is no proof of convergence; ``max_iter`` ends a cycle.
    """
    local.check(n_groups)
    centres = local.centroids.take(far_apart(local, n_groups))
    groups = np.full(len(local), -1, dtype=np.intp)
    wide = _Wide(local)
    for _ in range(max_iter):
        proposal = wide.nearest(centres)
        if (np.bincount(proposal[proposal >= 0], minlength=n_groups) == 0).any():
            distance = local.distances_to(centres)
            fit = np.take_along_axis(distance, np.maximum(proposal, 0)[:, None], axis=1)[:, 0]
            proposal = refill(proposal, np.where(proposal >= 0, fit, np.inf), n_groups)
        if (proposal == groups).all():
            break
        groups = proposal
        centres = merge(local.centroids, groups, n_groups)
    groups[groups < 0] = 0  # only where the overlap graph is in pieces
    return groups


class _Wide:
    """Which of a few centres is nearest to each of many centroids: by matrix products where that is clear."""

    def __init__(self, local: LocalCentroids) -> None:
        self._local = local
        self._useful = (local.centroids.seen & local.extent.varies).astype(np.float64)
        middle = np.nan_to_num((local.extent.low + local.extent.high) / 2, nan=0.0)
        self._middle = middle
        self._x = np.where(self._useful > 0, local.centroids.values - middle, 0.0)

    def nearest(self, centres: MaskedCentroids) -> IntArray:
        """As :func:`intarsia.core.distances.nearest` of all distances: the first of equals, −1 where there are none."""
        local = self._local
        if local.metric != "euclidean":
            return nearest(local.distances_to(centres))
        known = (centres.seen & local.extent.varies).astype(np.float64)
        c = np.where(known > 0, centres.values - self._middle, 0.0)
        chosen = np.empty(len(local), dtype=np.intp)
        close = np.zeros(len(local), dtype=np.bool_)
        for some in by_rows(*self._x.shape):
            x, useful = self._x[some], self._useful[some]
            squared = np.square(x) @ known.T - 2.0 * x @ c.T + useful @ np.square(c).T
            reach = useful @ (known * np.square(local.extent.width)).T
            squared = np.divide(squared, reach, out=np.full_like(reach, np.inf), where=reach > 0)
            first = squared.argmin(axis=1)
            least = np.take_along_axis(squared, first[:, None], axis=1)
            chosen[some] = np.where(np.isinf(least[:, 0]), -1, first)
            close[some] = ((squared <= least + _UNCLEAR) & (squared < np.inf)).sum(axis=1) > 1
        unclear = np.flatnonzero(close)
        chosen[unclear] = nearest(local.distances_to(centres, unclear))
        return chosen


def by_size(groups: IntArray, weight: FloatArray) -> IntArray:
    """The same partition with the heaviest group numbered 0; of equals, the one with the first member."""
    groups = renumber(groups)
    total = np.bincount(groups, weights=weight)
    rank = np.empty(len(total), dtype=np.intp)
    rank[np.argsort(-total, kind="stable")] = np.arange(len(total))
    return rank[groups]
