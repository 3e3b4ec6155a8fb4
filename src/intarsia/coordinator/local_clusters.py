"""The local clusters of all participants over the union of features: centroids, densities, comparability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from intarsia.coordinator.columns import outside_largest
from intarsia.coordinator.members import Members
from intarsia.coordinator.settings import WeightSettings
from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.densities.base import Density
from intarsia.core.features import components, indicators
from intarsia.core.grouping.local_centroids import SHARING_METRICS, LocalCentroids
from intarsia.core.grouping.tried_numbers import TriedNumbers
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import DisjointFeaturesError, quote
from intarsia.protocol import LocalSummary
from intarsia.protocol.densities import unpacked
from intarsia.results.outcome import Coverage, LocalCluster


class Halves(NamedTuple):
    """Halves of local clusters: their centroids and sizes, and the local cluster of each.

    ``weights`` are those of a row of each half; None if all are 1.
    """

    centroids: MaskedCentroids
    sizes: IntArray
    half_of: IntArray
    weights: FloatArray | None = None

    @classmethod
    def of(cls, clusters: LocalClusters) -> Halves:
        """Return the local clusters as they are, each its only half."""
        return cls(clusters.centroids, clusters.sizes, np.arange(len(clusters.sizes)), clusters.weights)

    @property
    def weighted(self) -> MaskedCentroids:
        """The centroids with counts of weighted values."""
        return self.centroids.weighted(self.weights)

    @property
    def weight(self) -> FloatArray:
        """The weighted rows of each half."""
        return _weighted_sizes(self.sizes, self.weights)


@dataclass(frozen=True)
class LocalClusters:
    """The local clusters of all members, over the union of features, in the order of the members.

    ``owner[z]`` is the number of the member that has cluster z, ``sizes[z]`` its number of rows. ``clarity`` is how clear
    the clusters of a participant are, if it chose their number itself; ``tried`` what its rows show with other numbers.
    ``halves`` are known if participants told them. ``weights`` are those of a row of each cluster; None if all are 1.
    """

    centroids: MaskedCentroids
    owner: IntArray
    sizes: IntArray
    coverage: Coverage
    fidelity: FloatArray | None = None
    halves: Halves | None = None
    clarity: Mapping[str, float] = field(default_factory=dict)
    tried: Mapping[int, TriedNumbers] = field(default_factory=dict)
    weights: FloatArray | None = None

    def with_weights(self, settings: WeightSettings, members: Members) -> LocalClusters:
        """Return the clusters with the weight that a row of each has in a study with these settings."""
        n_rows = dict(zip(members.participants, self.coverage.rows.tolist(), strict=True))
        by_owner = np.array(list(settings.row_weights(n_rows).values()))
        if (by_owner == 1.0).all():
            return self
        weights, halves = by_owner[self.owner], self.halves
        if halves is not None:
            halves = halves._replace(weights=weights[halves.half_of])
        return replace(self, weights=weights, halves=halves)

    @cached_property
    def weighted(self) -> MaskedCentroids:
        """The centroids with counts of weighted values, by which they are grouped and merged."""
        return self.centroids.weighted(self.weights)

    @property
    def weight(self) -> FloatArray:
        """The weighted rows of each cluster."""
        return _weighted_sizes(self.sizes, self.weights)

    def chosen(self, members: Members) -> BoolArray:
        """Return which clusters have an owner that chose their number: it sends a clarity, or has one cluster."""
        counts = np.bincount(self.owner, minlength=len(members.participants))
        chose = [name in self.clarity or counts[i] == 1 for i, name in enumerate(members.participants)]
        return np.array(chose, dtype=np.bool_)[self.owner]

    def records(
        self, members: Members, groups: IntArray, margins: Sequence[float] | None = None
    ) -> tuple[LocalCluster, ...]:
        """Return every local cluster with its group and margin, numbered within its participant."""
        margins = [float("nan")] * len(groups) if margins is None else margins
        numbers: dict[int, int] = {}
        records = []
        for owner, size, group, margin in zip(self.owner.tolist(), self.sizes, groups, margins, strict=True):
            number = numbers[owner] = numbers.get(owner, -1) + 1
            records.append(LocalCluster(members.participants[owner], number, int(size), int(group), float(margin)))
        return tuple(records)


def _weighted_sizes(sizes: IntArray, weights: FloatArray | None) -> FloatArray:
    return sizes.astype(np.float64) if weights is None else sizes * weights


def lay_out(members: Members, summaries: Mapping[str, LocalSummary]) -> LocalClusters:
    """Return the local clusters of all members, laid out over the union of features."""
    values, counts, owner, sizes = [], [], [], []
    filled = np.zeros((len(members.participants), len(members.space)), dtype=np.intp)
    for i, name in enumerate(members.participants):
        summary, index = summaries[name], members.space.index(summaries[name].features)
        n = len(summary.sizes)
        all_values, all_counts = np.zeros((n, len(members.space))), np.zeros((n, len(members.space)))
        all_values[:, index], all_counts[:, index] = summary.values, summary.counts
        filled[i, index] = summary.filled
        for indicator, lacking in _unknown_levels(members, name, summary):  # all rows are 0 there
            all_counts[:, lacking] = summary.counts[:, [summary.features.index(indicator)]]
            filled[i, lacking] = summary.filled[summary.features.index(indicator)]
        values.append(all_values)
        counts.append(all_counts)
        owner.append(np.full(n, i, dtype=np.intp))
        sizes.append(summary.sizes)
    centroids = MaskedCentroids.of(np.concatenate(values), np.concatenate(counts))
    clusters = LocalClusters(
        centroids,
        np.concatenate(owner),
        np.concatenate(sizes),
        Coverage(np.array([summaries[name].n_rows for name in members.participants], dtype=np.intp), filled),
        _fidelity(members, summaries),
        clarity={name: summary.clarity for name, summary in summaries.items() if summary.clarity is not None},
        tried={
            i: TriedNumbers(*table.T)
            for i, name in enumerate(members.participants)
            if (table := summaries[name].tried) is not None
        },
    )
    sent = [summaries[name].half_of for name in members.participants]
    return clusters if all(each is None for each in sent) else _joined_halves(clusters, sent)


def _joined_halves(halves: LocalClusters, sent: Sequence[IntArray | None]) -> LocalClusters:
    """Return the local clusters whose halves were told; ``sent[i]`` is the local cluster of each of participant i's."""
    parts, n_before = [], 0
    for i, part in enumerate(sent):
        n = int((halves.owner == i).sum())
        parts.append(n_before + (np.arange(n) if part is None else part))
        n_before = int(parts[-1].max()) + 1
    half_of = np.concatenate(parts)
    owner = np.zeros(n_before, dtype=np.intp)
    owner[half_of] = halves.owner
    return replace(
        halves,
        centroids=merge(halves.centroids, half_of, n_before),
        owner=owner,
        sizes=np.bincount(half_of, weights=halves.sizes, minlength=n_before).astype(np.intp),
        halves=Halves(halves.centroids, halves.sizes, half_of),
    )


def _unknown_levels(members: Members, name: str, summary: LocalSummary) -> Iterator[tuple[str, IntArray]]:
    """Yield for every categorical column an indicator that the summary has, and the positions of those that it lacks."""
    for column, levels in members.levels[name].items():
        features = indicators({column: levels})
        lacking = [feature for feature in features if feature not in summary.features]
        if lacking:
            yield next(feature for feature in features if feature in summary.features), members.space.index(lacking)


def _fidelity(members: Members, summaries: Mapping[str, LocalSummary]) -> FloatArray | None:
    """Return the fidelity of every local cluster, None unless all participants sent theirs."""
    sent = [part for name in members.participants if (part := summaries[name].fidelity) is not None]
    return np.concatenate(sent) if len(sent) == len(members.participants) else None


def densities_of(
    members: Members, clusters: LocalClusters, summaries: Mapping[str, LocalSummary], *, original_units: bool
) -> list[Density]:
    """Return the densities of all local clusters in common units; ``original_units`` says that they were sent in others."""
    densities, seen_by_each = [], iter(clusters.centroids.seen)
    for name in members.participants:
        summary, index = summaries[name], members.space.index(summaries[name].features)
        for values, counts, packed in zip(summary.values, summary.counts, summary.densities or (), strict=True):
            sent, seen = index[counts > 0], np.flatnonzero(next(seen_by_each))
            density = unpacked(packed, values[counts > 0])
            if original_units:
                density = density.in_units(members.units.shift[sent], members.units.scale[sent])
            # indicators of levels that the participant does not have are 0 in all its rows
            position = np.searchsorted(seen, sent)
            densities.append(density if len(position) == len(seen) else density.placed(position, len(seen)))
    return densities


def check_comparable(members: Members, owner: IntArray, comparable: BoolArray) -> None:
    """Raise DisjointFeaturesError if comparable pairs of local clusters do not connect all participants.

    It happens when all features that some of them share are constant. ``owner`` is in order.
    """
    first = np.searchsorted(owner, np.arange(len(members.participants)))
    by_owner = np.logical_or.reduceat(np.logical_or.reduceat(comparable, first, axis=0), first, axis=1)
    _check_one_component(members, connected_components(by_owner, directed=False)[1].astype(np.intp))


def check_comparable_centroids(members: Members, local: LocalCentroids) -> None:
    """Like :func:`check_comparable`, without all pairs where sharing a feature that varies is enough."""
    if local.metric not in SHARING_METRICS:
        check_comparable(members, local.owner, local.comparable)
        return
    first = np.searchsorted(local.owner, np.arange(len(members.participants)))
    _check_one_component(members, components(np.logical_or.reduceat(local.varying, first, axis=0)))


def _check_one_component(members: Members, component: IntArray) -> None:
    if apart := outside_largest(members.participants, component):
        raise DisjointFeaturesError(
            f"{len(apart)} of {len(members.participants)} participants share only features that cannot be compared (the "
            f"same for all local clusters, or a single one under the cosine metric): {quote(apart)}. "
            "Hint: leave them out, or add columns that vary and that others have too."
        )
