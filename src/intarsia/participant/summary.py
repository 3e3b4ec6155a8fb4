"""What leaves a participant about its local clusters: centroids and counts, and where asked for densities and boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from intarsia.core.centroids import centroids_of_rows
from intarsia.core.densities.base import Clustered, Density, family_of, fit_densities
from intarsia.core.densities.fidelity import Fidelity, fidelity
from intarsia.core.features import FeatureSpace, indicators
from intarsia.core.randomness import stream
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.participant.clusterers import Chosen
from intarsia.privacy.gate import Gate
from intarsia.protocol import LocalSummary, Moments, Summarize
from intarsia.protocol.densities import packed
from intarsia.tables.frame import Table

MOST_PROXIES = 1000


def summarize(
    table: Table,
    rows: FloatArray,
    chosen: Chosen,
    request: Summarize,
    moments: Moments | None,
    levels: Mapping[str, tuple[str, ...]],
    gate: Gate,
) -> LocalSummary:
    """The summary of these clusters of the rows of a table in numbers; ``levels`` are those of its categories."""
    labels = chosen.labels
    n_clusters = int(labels.max(initial=-1)) + 1
    whole = centroids_of_rows(rows, table.observed, labels, n_clusters)
    centroids = gate.hide(whole, table.observed.sum(axis=0))
    clusters = Clustered.of_arrays(
        rows,
        table.observed,
        labels,
        centroids=whole,
        released=centroids,
        names=table.names,
        categories=categories_of(table.names, levels),
    )
    densities = closeness = low = high = None
    if request.density is not None:
        fitted = fit_densities(clusters, gate.density(request.density))
        densities = tuple(packed(density, family_of(request.density)) for density in fitted)
        if request.n_proxies > 0:
            rng = stream(request.seed, table.owner, "fidelity")
            found = [
                closeness_of(*_rows_of(clusters, table, rows, k), density, rng, request.n_proxies, gate)
                for k, density in enumerate(fitted)
            ]
            closeness = np.array(found, dtype=np.float64).reshape(-1, 4)
    if request.bounding_boxes:
        low, high = np.zeros(centroids.values.shape), np.zeros(centroids.values.shape)
        for k in range(n_clusters):
            inside, there = _rows_of(clusters, table, rows, k)
            low[k, centroids.seen[k]] = np.where(there, inside, np.inf).min(axis=0)
            high[k, centroids.seen[k]] = np.where(there, inside, -np.inf).max(axis=0)
    return LocalSummary(
        features=table.names,
        n_rows=len(rows),
        filled=table.observed.sum(axis=0),
        levels=dict(levels),
        values=centroids.values,
        counts=centroids.counts,
        sizes=np.bincount(labels[labels >= 0], minlength=n_clusters),
        clarity=chosen.clarity,
        densities=densities,
        fidelity=closeness,
        low=low,
        high=high,
        moments=moments,
    )


def closeness_of(
    rows: FloatArray, observed: BoolArray, density: Density, rng: np.random.Generator, n_proxies: int, gate: Gate
) -> Fidelity:
    """How close proxies are to a cluster's rows; nothing where too few of them are complete."""
    if observed.all(axis=1).sum() < gate.fewest:
        return Fidelity(*[float("nan")] * 4)
    return fidelity(rows, observed, density, rng, min(n_proxies, MOST_PROXIES))


def categories_of(names: Sequence[str], levels: Mapping[str, tuple[str, ...]]) -> dict[str, IntArray]:
    """Return the features of each column of categories."""
    space = FeatureSpace(tuple(names))
    return {
        column: space.index([name for name in indicators({column: of_column}) if name in space])
        for column, of_column in levels.items()
    }


def _rows_of(clusters: Clustered, table: Table, rows: FloatArray, k: int) -> tuple[FloatArray, BoolArray]:
    """Return the rows of cluster k over its released features, and which values are observed."""
    at = np.ix_(clusters.labels == k, clusters.released.seen[k])
    return rows[at], table.observed[at]
