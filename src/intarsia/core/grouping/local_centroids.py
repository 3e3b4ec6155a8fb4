"""Local centroids of all participants, and the objective of grouping them (eq:meta_clustering).

Legend: ``centroids`` 𝒸 · ``owner[z]`` the participant i of centroid z · ``groups[z]`` the g with (i, a) ∈ G[g] ·
``extent`` that of 𝒸 · ``n_groups`` K.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.distances import Extent, Metric, extent_of, phi_of_pairs, rescaled_distances
from intarsia.core.features import overlap_graph
from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import TooFewClustersError

SHARING_METRICS = ("euclidean", "manhattan")  # two centroids are comparable if they share a feature that varies


@dataclass(frozen=True)
class LocalCentroids:
    """The local centroids of all participants, the owner of each, and the metric that compares them."""

    centroids: MaskedCentroids
    owner: IntArray
    metric: Metric = "euclidean"

    @cached_property
    def extent(self) -> Extent:
        """The entry-wise extent of all local centroids: the S of every rescaled distance between them."""
        return extent_of(self.centroids.values, self.centroids.seen)

    @cached_property
    def distances(self) -> FloatArray:
        """The rescaled distances between all pairs; NaN where a pair is incomparable."""
        return self.distances_to(self.centroids)

    @cached_property
    def comparable(self) -> BoolArray:
        """Which pairs have a distance."""
        return ~np.isnan(self.distances)

    @cached_property
    def varying(self) -> BoolArray:
        """Which features each centroid has that vary over all centroids."""
        return self.centroids.seen & self.extent.varies

    @cached_property
    def sharing(self) -> BoolArray:
        """Which pairs share a feature that varies: under ``SHARING_METRICS`` the comparable ones."""
        return overlap_graph(self.varying)

    def distances_to(self, centres: MaskedCentroids, which: IntArray | slice = slice(None)) -> FloatArray:
        """Return the rescaled distances from all or ``which`` of the local centroids to other centres."""
        rows = self.centroids.take(which)
        return rescaled_distances(rows.values, rows.seen, centres.values, centres.seen, self.extent, self.metric)

    def __len__(self) -> int:
        return len(self.owner)

    def check(self, n_groups: int) -> None:
        """Raise TooFewClustersError if there are fewer local clusters than groups."""
        if n_groups > len(self):
            n = len(np.unique(self.owner))
            raise TooFewClustersError(
                f"{n_groups} global clusters were requested, but {n} participant(s) found only {len(self)} local "
                "clusters in total. Hint: request fewer clusters, or more local ones (n_local_clusters). Participants with "
                "few rows for so many clusters count as one cluster."
            )


def objective(local: LocalCentroids, groups: IntArray, n_groups: int) -> float:
    r"""Return the sum of squared distances of the local centroids to the centre of their group (eq:meta_clustering).

    .. math:: \sum_g \sum_{(i,a) \in G[g]} d_{ii}^c \bigl( c_i^a, \mathrm{merge}(G[g]) \bigr)^2
    """
    centres = merge(local.centroids, groups, n_groups)
    return float(np.sum(distances_to_group(local, groups, centres) ** 2))


def distances_to_group(local: LocalCentroids, groups: IntArray, centres: MaskedCentroids) -> FloatArray:
    """Return d_ii(c, centre of its group) for each local centroid; 0 where none of its features varies."""
    seen = local.varying
    distance = phi_of_pairs(local.centroids.values, centres.take(groups).values, seen, local.metric)
    largest = phi_of_pairs(local.extent.high, local.extent.low, seen, local.metric)
    return np.divide(distance, largest, out=np.zeros_like(distance), where=largest > 0)


def excess_components(comparable: BoolArray, groups: IntArray) -> int:
    """Return by how much connected components exceed groups, if only comparable pairs are connected (Assumption 1.1)."""
    excess = 0
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        graph = comparable[np.ix_(members, members)]
        np.fill_diagonal(graph, val=True)
        if not graph.all(axis=1).any():
            excess += connected_components(graph, directed=False)[0] - 1
    return int(excess)


def excess_components_of_centroids(local: LocalCentroids, groups: IntArray) -> int:
    """Return :func:`excess_components` of local centroids, without all pairs where sharing a feature is enough."""
    n, d = local.centroids.values.shape
    if local.metric not in SHARING_METRICS:
        return excess_components(local.comparable, groups)
    if n <= d:
        return excess_components(local.sharing, groups)
    rows, columns = np.nonzero(local.varying)
    vertex = n + groups[rows] * d + columns  # every group has its own copy of the features
    size = n + d * (int(groups.max(initial=0)) + 1)
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, vertex)), shape=(size, size))
    _, component = connected_components(graph, directed=False)
    return len(np.unique(component[:n])) - len(np.unique(groups))


def by_size(groups: IntArray, weight: FloatArray) -> IntArray:
    """Return the same partition with the heaviest group numbered 0; of equals, the one with the first member."""
    groups = renumber(groups)
    total = np.bincount(groups, weights=weight)
    rank = np.empty(len(total), dtype=np.intp)
    rank[np.argsort(-total, kind="stable")] = np.arange(len(total))
    return rank[groups]
