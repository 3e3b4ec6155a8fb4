"""Forces between local clusters (Algorithm 2), also used to choose K, and the number of clusters chosen from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from intarsia.coordinator.local_clusters import LocalClusters
from intarsia.coordinator.members import Members
from intarsia.coordinator.settings import MAX_CLUSTERS, OneShotSettings
from intarsia.core.densities.base import Density
from intarsia.core.densities.exact_force import exact_forces
from intarsia.core.densities.force import Box, extent_of_densities, sample_inside, sampled_forces
from intarsia.core.distances import Extent, extent_of
from intarsia.core.grouping.agglomeration import LocalForces
from intarsia.core.grouping.linkages import OF_MOMENTS, OF_POINTS, Moments, tree_of_moments, tree_of_points
from intarsia.core.grouping.n_clusters import Choice, Summaries, choose_n_clusters
from intarsia.core.randomness import stream
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.protocol import LocalSummary

STRONGEST = 1e100  # without softening the force between equal points is infinite; sums must not be


class Attraction(NamedTuple):
    """Forces between all local clusters, and the extent by which their distances were rescaled."""

    local: LocalForces
    extent: Extent


def attraction(
    settings: OneShotSettings,
    members: Members,
    clusters: LocalClusters,
    densities: Sequence[Density],
    summaries: Mapping[str, LocalSummary],
) -> Attraction:
    """Return the forces between all local clusters, exact or from points of their densities, and the tree of the linkage."""
    seen, force, linkage = clusters.centroids.seen, (settings.exponent, settings.softening), settings.linkage
    weights, tree, counting = None, None, 1.0 if clusters.weights is None else clusters.weights
    if settings.has_exact_forces:
        extent = extent_of_densities(densities, seen, settings.deviations)
        forces = exact_forces(densities, seen, extent, *force)
    else:
        proxies = _proxies(settings, members, clusters, densities, summaries)
        extent = _extent_of_points(proxies, seen)
        forces = sampled_forces(proxies, seen, extent, *force, settings.metric)
        weights = np.array([len(points) for points in proxies], dtype=np.float64) * counting
        if linkage in OF_POINTS:
            tree = tree_of_points(linkage, proxies, seen, extent, settings.metric)
    if linkage in OF_MOMENTS:
        n_points = np.clip(clusters.sizes, *settings.bounds_of_proxies).astype(np.float64) * counting
        tree = tree_of_moments(linkage, moments_of(densities, seen, n_points), extent)
    return Attraction(LocalForces(np.minimum(forces, STRONGEST), clusters.owner, weights, tree), extent)


def moments_of(densities: Sequence[Density], seen: BoolArray, n_points: IntArray | FloatArray) -> Moments:
    """Return the means and variances of all densities, each with so many points."""
    means, variances = np.zeros(seen.shape), np.zeros(seen.shape)
    for z, density in enumerate(densities):
        means[z, seen[z]], variances[z, seen[z]] = density.mean, density.variances
    return Moments(np.where(seen, n_points[:, None].astype(np.float64), 0.0), means, variances)


def _proxies(
    settings: OneShotSettings,
    members: Members,
    clusters: LocalClusters,
    densities: Sequence[Density],
    summaries: Mapping[str, LocalSummary],
) -> list[FloatArray]:
    """Return points of every density, inside its bounding box where there is one (generateProxyClusters)."""
    boxes = _boxes(members, clusters, summaries)
    n_points = np.clip(clusters.sizes, *settings.bounds_of_proxies)
    proxies = []
    for z, density in enumerate(densities):
        name = members.participants[clusters.owner[z]]
        first = int(np.flatnonzero(clusters.owner == clusters.owner[z])[0])
        rng = stream(settings.seed, name, "proxies", z - first)
        proxies.append(sample_inside(density, rng, int(n_points[z]), *boxes[z]))
    return proxies


def _boxes(members: Members, clusters: LocalClusters, summaries: Mapping[str, LocalSummary]) -> list[Box]:
    """Return the bounding box of every local cluster in common units; (None, None) where none was sent."""
    boxes: list[Box] = []
    seen_by_each = iter(clusters.centroids.seen)
    for name in members.participants:
        summary, index = summaries[name], members.space.index(summaries[name].features)
        for k in range(len(summary.sizes)):
            seen = next(seen_by_each)
            if summary.low is None or summary.high is None:
                boxes.append((None, None))
                continue
            low, high = np.zeros(len(members.space)), np.zeros(len(members.space))
            for corner, sent in ((low, summary.low), (high, summary.high)):
                corner[index] = (sent[k] - members.units.shift[index]) / members.units.scale[index]
            boxes.append((low[seen], high[seen]))
    return boxes


def _extent_of_points(proxies: Sequence[FloatArray], seen: BoolArray) -> Extent:
    """Return the entry-wise minimum and maximum of all points."""
    low, high = np.zeros(seen.shape), np.zeros(seen.shape)
    for z, points in enumerate(proxies):
        low[z, seen[z]], high[z, seen[z]] = points.min(axis=0), points.max(axis=0)
    return Extent(extent_of(low, seen).low, extent_of(high, seen).high)


def choose_k(
    members: Members,
    clusters: LocalClusters,
    densities: Sequence[Density],
    attracted: Attraction,
    *,
    separate: bool = True,
) -> Choice:
    """Return the number of clusters chosen from all local clusters and the forces between them."""
    seen, chose = clusters.centroids.seen, clusters.chosen(members)
    summaries = Summaries(densities, seen, clusters.owner, clusters.sizes, clusters.weight, chose, clusters.tried)
    local = attracted.local
    choice = choose_n_clusters(summaries, local, attracted.extent, separate=separate)
    most = min(MAX_CLUSTERS, local.tree.n_leaves)
    if choice.n_clusters <= most:
        return choice
    clearest = max((k for k in choice.silhouettes if k <= most), key=choice.silhouettes.__getitem__, default=1)
    return choice._replace(n_clusters=clearest)
