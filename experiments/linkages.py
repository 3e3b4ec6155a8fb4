"""Seven ways to measure the distance between sets of clusters, each used to merge the closest two again and again.

The paper's comparison (its figure of a merging example), on points: a planted example with an outlier, and proxies of
QMNIST's local clusters. Pairs of clusters without a common feature are left out of minima and averages alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from experiments.measuring import (
    COLUMNS,
    EXACT,
    OURS,
    CountingRuntime,
    Row,
    participants,
    summarised,
    true_grouping,
)
from experiments.splits import Case
from intarsia.coordinator import OneShotAlgorithm
from intarsia.core.densities.exact_force import exact_forces
from intarsia.core.densities.force import sample_inside, sampled_forces
from intarsia.core.distances import Extent, extent_of
from intarsia.core.grouping.agglomeration import LocalForces, agglomerate
from intarsia.core.grouping.linkages import OF_POINTS, Moments, tree_of_moments, tree_of_points
from intarsia.core.grouping.search import SearchOptions, search_forces
from intarsia.core.randomness import stream
from intarsia.results.metrics import aggregation_accuracy
from intarsia.runtime.drive import drive

_NAMES = {  # in tables, and in the package
    "smallest distance": "smallest",
    "smallest average": "smallest_mean",
    "average": "mean",
    "force": "force",
    "increase of variance": "variance",
    "Ward": "ward",
    "centroids": "centroid",
}
LINKAGES = tuple(_NAMES)
EXPONENTS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0)
SOFTENINGS = (0.0, 0.01, 0.1, 0.5)
SWEEP = tuple(f"{how}, w={w:g}, s={s:g}" for how in ("greedy", "search") for w in EXPONENTS for s in SOFTENINGS)
N_PROXIES = 100


class Clusters(NamedTuple):
    """Points of each cluster over the features that it sees, in the order of the union."""

    points: list[np.ndarray]
    seen: np.ndarray

    @property
    def extent(self) -> Extent:
        low, high = np.zeros(self.seen.shape), np.zeros(self.seen.shape)
        for z, rows in enumerate(self.points):
            low[z, self.seen[z]], high[z, self.seen[z]] = rows.min(axis=0), rows.max(axis=0)
        return Extent(extent_of(low, self.seen).low, extent_of(high, self.seen).high)


def merges(clusters: Clusters, linkage: str, n_groups: int, exponent: float = 2.0) -> list[np.ndarray]:
    """The groups after every merge of the closest two, from all apart down to ``n_groups`` or until nothing compares."""
    points, seen, extent = clusters.points, clusters.seen, clusters.extent
    name = _NAMES[linkage]
    if name == "force":
        forces = np.minimum(sampled_forces(points, seen, extent, exponent, 0.0, "euclidean"), 1e100)
        tree = agglomerate(forces, weights=np.array([len(rows) for rows in points], dtype=float))
    elif name in OF_POINTS:
        tree = tree_of_points(name, points, seen, extent)
    else:
        tree = tree_of_moments(name, _moments(clusters), extent)
    return [tree.cut(k) for k in range(len(points), max(n_groups, tree.fewest_groups) - 1, -1)]


def _moments(clusters: Clusters) -> Moments:
    counts, means, variances = np.zeros((3, *clusters.seen.shape))
    for z, (rows, seen) in enumerate(zip(clusters.points, clusters.seen, strict=True)):
        counts[z, seen], means[z, seen], variances[z, seen] = len(rows), rows.mean(axis=0), rows.var(axis=0)
    return Moments(counts, means, variances)


PLANTED_NAMES = ("crosses", "stars", "dots", "triangles", "diamonds")
PLANTED_TRUTH = np.array([0, 0, 1, 2, 2])


def planted(seed: int = 0) -> Clusters:
    """Five clusters in the plane, after the paper's figure; two belong together twice, and one has an outlier.

    The crosses are the near end of the long row of stars. The dots are far away, but for one outlier next to the crosses.
    The triangles and diamonds are compact and close to each other.
    """
    rng = np.random.default_rng(seed)
    near = rng.normal([0.0, 0.0], 0.25, size=(40, 2))
    along = np.column_stack([rng.uniform(0.9, 9.0, size=100), rng.normal(0.0, 0.25, size=100)])
    far = np.vstack([rng.normal([-1.0, 6.5], 0.35, size=(29, 2)), [[-0.05, 0.75]]])
    left, right = (rng.normal(centre, 0.25, size=(40, 2)) for centre in ([-3.4, -2.6], [-3.7, -3.1]))
    return Clusters([near, along, far, left, right], np.ones((5, 2), dtype=bool))


def merged_with(linkage: str, exponent: float = 2.0) -> tuple[str, ...]:
    """With whom the crosses are after merging down to three groups."""
    groups = merges(planted(), linkage, 3, exponent)[-1]
    return tuple(name for z, name in enumerate(PLANTED_NAMES) if z and groups[z] == groups[0])


def measure_linkages(case: Case, k: int, seed: int, ways: list[str]) -> Iterator[tuple[str, Row]]:
    """E4 of each linkage on proxies of the split's local Gaussians."""
    split = case.split
    people, seen = _one_shot(case, k, seed)
    truth = true_grouping(split, people)
    points = [
        sample_inside(density, stream(seed, "linkage", z), N_PROXIES, None, None)
        for z, density in enumerate(seen.densities)
    ]
    for way in ways:
        groups = merges(Clusters(points, seen.seen), way, k)[-1]
        yield way, _row(truth, groups)


def measure_exponents(case: Case, k: int, seed: int, ways: list[str]) -> Iterator[tuple[str, Row]]:
    """E4 for every exponent and softening, greedy and with the search, exact forces throughout."""
    people, seen = _one_shot(case, k, seed)
    truth = true_grouping(case.split, people)
    for way in ways:
        how, w, s = (part.split("=")[-1] for part in way.split(", "))
        forces = np.minimum(exact_forces(seen.densities, seen.seen, seen.extent, float(w), float(s)), 1e100)
        if how == "greedy":
            tree = agglomerate(forces)
            groups = tree.cut(max(k, tree.fewest_groups))
        else:
            options = SearchOptions(case.split.masks, 30, lambda number: stream(seed, "sweep", number))
            groups = search_forces(LocalForces(forces, seen.owner), k, options).groups
        yield way, _row(truth, groups)


def _one_shot(case: Case, k: int, seed: int):
    people, _ = participants(case.split, k, seed)
    runtime = CountingRuntime(people)
    kind, settings = OneShotAlgorithm, OURS[EXACT][1]
    drive(kind(n_clusters=k, seed=seed, **settings), runtime)
    return people, summarised(case.split, runtime.summaries)


def _row(truth, groups: np.ndarray) -> Row:
    return dict.fromkeys(COLUMNS, float("nan")) | {
        "aggregation": aggregation_accuracy(truth.classes, groups),
        "clear": float(truth.clear),
        "n_clusters": len(np.unique(groups)),
    }
