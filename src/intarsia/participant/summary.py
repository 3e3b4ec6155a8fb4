"""What leaves a participant about its local clusters: centroids and counts, and where asked for densities and boxes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from intarsia.core.centroids import MaskedCentroids, centroids_of_rows, variances_within
from intarsia.core.densities.fidelity import Fidelity, fidelity
from intarsia.core.densities.gaussian import Density, fit_density
from intarsia.core.features import indicators
from intarsia.core.randomness import stream
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import DensityError, quote
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
    clusters = _Clusters(table, rows, labels, whole, gate.hide(whole, table.observed.sum(axis=0)), levels)
    centroids = clusters.centroids
    densities = closeness = low = high = None
    if request.density is not None:
        fitted = [clusters.density(k, gate.density(request.density)) for k in range(n_clusters)]
        densities = tuple(packed(density) for density in fitted)
        if request.n_proxies > 0:
            rng = stream(request.seed, table.owner, "fidelity")
            found = [
                closeness_of(*clusters.rows_of(k), density, rng, request.n_proxies, gate)
                for k, density in enumerate(fitted)
            ]
            closeness = np.array(found, dtype=np.float64).reshape(-1, 4)
    if request.bounding_boxes:
        low, high = np.zeros(centroids.values.shape), np.zeros(centroids.values.shape)
        for k in range(n_clusters):
            inside, there = clusters.rows_of(k)
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


def refuse_categories(levels: Mapping[str, tuple[str, ...]]) -> None:
    """Categories are no shares of anything."""
    if levels:
        raise DensityError(
            f"the density 'dirichlet' needs tables of shares, and {len(levels)} column(s) hold categories: "
            f"{quote(levels)}. Hint: leave them out, or density='gaussian'."
        )


class _Clusters:
    """The rows of each cluster, over the features that it sees."""

    def __init__(
        self,
        table: Table,
        rows: FloatArray,
        labels: IntArray,
        whole: MaskedCentroids,
        centroids: MaskedCentroids,
        levels: Mapping[str, tuple[str, ...]],
    ) -> None:
        self.centroids = centroids
        self._table, self._rows, self._labels, self._levels, self._whole = table, rows, labels, levels, whole

    @cached_property
    def _within(self) -> FloatArray:
        return variances_within(self._rows, self._table.observed, self._labels, self._whole)

    def rows_of(self, k: int) -> tuple[FloatArray, BoolArray]:
        """Rows and what is observed of them, in arrays of their own."""
        mine, seen = np.flatnonzero(self._labels == k), np.flatnonzero(self.centroids.seen[k])
        shape = (len(mine), len(seen))
        rows, observed = np.empty(shape, order="F"), np.empty(shape, dtype=np.bool_, order="F")
        for at, m in enumerate(seen):
            rows[:, at], observed[:, at] = self._rows[mine, m], self._table.observed[mine, m]
        return rows, observed

    def density(self, k: int, kind: str) -> Density:
        """The density of one cluster."""
        if kind == "dirichlet":
            refuse_categories(self._levels)
        seen = self.centroids.seen[k]
        names = [name for name, there in zip(self._table.names, seen, strict=True) if there]
        position = {name: m for m, name in enumerate(names)}
        groups = [
            np.array([position[name] for name in indicators({column: own}) if name in position], dtype=np.intp)
            for column, own in self._levels.items()
        ]
        return fit_density(*self.rows_of(k), kind, within=self._within[seen], groups=groups, names=names, spoil=True)
