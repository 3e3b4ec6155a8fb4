"""What newcomers bring to a model: their columns beside its own, their local clusters, and the outcome with them.

Of the model only its global part is needed: centroids, units, extent, spread, levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from intarsia.coordinator.columns import TableColumns
from intarsia.coordinator.consistency import doubts_about_summaries
from intarsia.coordinator.gather import checked, sizes_of
from intarsia.coordinator.labelling import wider
from intarsia.coordinator.local_clusters import LocalClusters
from intarsia.coordinator.members import Members
from intarsia.coordinator.odd_units import odd_units
from intarsia.core.alignment import match
from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.continuity import gaps, pooled_spread
from intarsia.core.distances import ROUNDING, Extent, extent_of, rescaled_distances
from intarsia.core.features import indicators, joint_levels
from intarsia.core.grouping.certainty import relative_gap
from intarsia.core.odd_columns import OddColumn
from intarsia.core.types import FloatArray, IntArray
from intarsia.core.units import FAR_APART, CommonUnits, factors_of_features
from intarsia.exceptions import DisjointFeaturesError, InputError, about
from intarsia.protocol import Labelled
from intarsia.results.outcome import Aggregation, Coverage, GlobalModel, Outcome

MATCHED = "matched"  # how local clusters of newcomers are grouped
UNLIKE = 3.0  # deviations within clusters: a local cluster that is farther from every cluster is unlike all of them
_SHARE = 0.2  # of the rows: a level's share in a cluster has this deviation at least
_OTHERS = ""  # stands for all participants of the model, which says nothing of single ones


def with_newcomers(
    model: GlobalModel, tables: Mapping[str, TableColumns], scale: str | None, factors: Mapping[str, float]
) -> Members:
    """Return the newcomers to a model, over its features and their own, which come last.

    ``factors`` are what differences of columns with a weight are multiplied by; the units of the model have them already.
    """
    of_model = {_OTHERS: tuple(sorted(model.space.names))}
    everybody = Members(
        (_OTHERS,), model.space, of_model, {_OTHERS: model.levels}, CommonUnits(*_units(model)), factors
    )
    for name, table in tables.items():
        try:
            everybody = everybody.with_latecomer(name, table)
        except InputError as error:
            raise about(name, error) from None
    units = everybody.units
    if scale == "auto" and model.units is None:
        units = _not_far_apart(everybody, model, tables)
    joint = everybody.all_levels  # newcomers may bring each other more levels
    levels = {name: {column: joint[column] for column in tables[name].levels} for name in tables}
    features = {name: tuple(sorted((*tables[name].numbers, *indicators(levels[name])))) for name in tables}
    return Members(tuple(tables), everybody.space, features, levels, units)


def _units(model: GlobalModel) -> tuple[FloatArray, FloatArray, str | None]:
    return model.shift, model.scale, model.units


def _not_far_apart(members: Members, model: GlobalModel, tables: Mapping[str, TableColumns]) -> CommonUnits:
    """Return units in which no new column varies far more than those of the model, which keep the units of the tables."""
    shift, scale = members.units.shift.copy(), members.units.scale.copy()
    deviations = total_deviations(model)
    if not (deviations > 0).any():
        return members.units
    typical = float(np.median(deviations[deviations > 0]))
    for table in tables.values():
        new = [column for column in table.numbers if column not in model.space]
        if table.moments is None or not new:
            continue
        at, of_table = members.space.index(new), np.flatnonzero(np.isin(table.numbers, new))
        moments = table.moments
        deviation = np.sqrt(moments.m2[of_table] / np.maximum(moments.count[of_table], 1.0))
        factors = factors_of_features(new, {}, members.factors)
        far = (deviation > FAR_APART * typical) & (scale[at] == 1.0 / factors)
        shift[at] = np.where(far, moments.mean[of_table], shift[at])
        scale[at] = np.where(far, deviation / typical / factors, scale[at])
    return CommonUnits(shift, scale, members.units.way)


def total_deviations(model: GlobalModel) -> FloatArray:
    """Return the standard deviation of each feature over all rows of a model, in common units."""
    counts, values = np.where(model.centroids.seen, model.cells, 0.0), model.centroids.values
    total = np.maximum(counts.sum(axis=0), 1.0)
    mean = (counts * values).sum(axis=0) / total
    return np.asarray(np.sqrt((counts * (model.variances + np.square(values - mean))).sum(axis=0) / total))


class Matched(NamedTuple):
    """The cluster of each local cluster, and how clearly it is the nearest."""

    groups: IntArray
    margins: tuple[float, ...]


def matched(newcomers: Members, model: GlobalModel, clusters: LocalClusters) -> IntArray:
    """Return the cluster of the model that each local cluster belongs to; −1 where they share nothing that varies.

    A participant with at most K local clusters has each in another cluster, as close as possible in all; with more of them
    each belongs to the nearest.

    Raises
    ------
    DisjointFeaturesError
        Nothing of a newcomer can be compared with the model.
    """
    d = len(model.space)
    centroids = MaskedCentroids(clusters.centroids.values[:, :d], clusters.centroids.counts[:, :d])
    groups = np.full(len(clusters.owner), -1, dtype=np.intp)
    for i, name in enumerate(newcomers.participants):
        own = np.flatnonzero(clusters.owner == i)
        if len(own) <= len(model.centroids):
            local = match(centroids.take(own), model.centroids, model.extent, model.metric)
            groups[own[local[local >= 0]]] = np.flatnonzero(local >= 0)
        else:
            groups[own] = nearest_clusters(centroids.take(own), model)
        if (groups[own] < 0).all():
            text = (
                f"participant {name!r} shares only columns with the model that have no values there, or are the same in all "
                "clusters, so that its clusters cannot be compared. Hint: add columns that vary and that the others have."
            )
            raise about(name, DisjointFeaturesError(text))
    return groups


def nearest_clusters(centroids: MaskedCentroids, model: GlobalModel) -> IntArray:
    """Return the nearest cluster of each of some centroids over the features of a model; −1 for none."""
    distances = distances_to_clusters(centroids, model)
    comparable = ~np.isnan(distances)
    return np.where(comparable.any(axis=1), np.where(comparable, distances, np.inf).argmin(axis=1), -1)


def distances_to_clusters(centroids: MaskedCentroids, model: GlobalModel) -> FloatArray:
    """Return the distances of some centroids to each cluster of a model; NaN where they share nothing that varies."""
    known = model.centroids
    return rescaled_distances(centroids.values, centroids.seen, known.values, known.seen, model.extent, model.metric)


def with_new_features(newcomers: Members, model: GlobalModel, clusters: LocalClusters, groups: IntArray) -> GlobalModel:
    """Return the model with the features that only newcomers have, as the means of their local clusters show them.

    Levels that a column of the model did not have do not decide who belongs where: rows of others have none of them.
    """
    d, k = len(model.space), len(model.centroids)
    levels = joint_levels([model.levels, *newcomers.levels.values()])
    known_columns = {column: names for column, names in levels.items() if column in model.levels}
    low, high = extent_of(clusters.centroids.values, clusters.centroids.seen)
    ignored = np.isnan(low) | newcomers.space.mask(indicators(known_columns))
    low, high = (np.where(ignored, 0.0, side) for side in (low, high))
    wide = replace(
        wider(model, len(newcomers.space)),
        space=newcomers.space,
        extent=Extent(np.append(model.extent.low, low[d:]), np.append(model.extent.high, high[d:])),
        shift=newcomers.units.shift,
        scale=newcomers.units.scale,
        levels=levels,
        n_joined=model.n_joined + len(newcomers.space) - d,
    )
    return with_entries(wide, d, merge(clusters.centroids, groups, k))


def with_entries(model: GlobalModel, n_known: int, centroids: MaskedCentroids) -> GlobalModel:
    """Return a model with other entries in the features after the first ``n_known``."""
    values, counts = (
        np.hstack([old[:, :n_known], new[:, n_known:]])
        for old, new in zip(
            (model.centroids.values, model.centroids.counts), (centroids.values, centroids.counts), strict=True
        )
    )
    return replace(model, centroids=MaskedCentroids.of(values, counts))


def settled(model: GlobalModel, clusters: LocalClusters, groups: IntArray) -> Matched:
    """Return the clusters of all local clusters, also of those that share new features only, with margins."""
    distances = distances_to_clusters(clusters.centroids, model)
    groups = np.where(groups >= 0, groups, np.maximum(nearest_clusters(clusters.centroids, model), 0))
    margins = []
    for row, group in zip(distances, groups, strict=True):
        others = np.delete(row, group)
        others = others[~np.isnan(others)]
        clear = 1.0 if not len(others) else relative_gap(float(np.nan_to_num(row[group])), float(others.min()))
        margins.append(clear)
    return Matched(groups, tuple(margins))


def unlike_all(model: GlobalModel, clusters: LocalClusters) -> FloatArray:
    """Return how far each local cluster is from the nearest cluster: root mean square over features, in deviations within.

    A feature that hardly varies within clusters counts a tenth of the deviation between centroids as one within. A level,
    which all rows of a cluster may have, counts a fifth of the rows as one deviation. The result is 0 where nothing that
    varies is shared.
    """
    d, known = len(model.space), model.centroids
    local = MaskedCentroids(clusters.centroids.values[:, :d], clusters.centroids.counts[:, :d])
    spread = pooled_spread(known, model.variances, model.cells)
    size = np.abs(np.where(known.seen, known.values, 0.0)).max(axis=0, initial=0.0) + np.abs(model.shift / model.scale)
    of_levels = model.space.mask([name for name in indicators(model.levels) if name in model.space])
    least = np.where(of_levels, np.square(_SHARE / model.scale), 0.0)
    spread = np.where(spread > np.square(ROUNDING * size), np.maximum(spread, least), 0.0)
    far = gaps(local, known, np.tile(spread, (len(known), 1))).rms
    return np.asarray(np.nan_to_num(far, nan=0.0).min(axis=1))


class Arrived(NamedTuple):
    """All that newcomers told: who they are, their columns, their local clusters, where these belong, and labels."""

    newcomers: Members
    columns: Mapping[str, TableColumns]
    clusters: LocalClusters
    matched: Matched
    labelled: Mapping[str, Labelled]


def outcome_of_newcomers(before: GlobalModel, model: GlobalModel, arrived: Arrived) -> Outcome:
    """Return the outcome of newcomers alone: the model with their features, and what they told; nothing of the others."""
    newcomers, clusters, _ = arrived.newcomers, arrived.clusters, arrived.columns
    n_rows = dict(zip(newcomers.participants, clusters.coverage.rows.tolist(), strict=True))
    groups = arrived.matched.groups
    return Outcome(
        model=_with_spread(model, len(before.space), newcomers, arrived.labelled),
        participants=newcomers.participants,
        masks=newcomers.masks,
        local_centroids=clusters.centroids,
        local_clusters=clusters.records(newcomers, groups, arrived.matched.margins),
        aggregation=Aggregation(MATCHED, 0.0, None, float("nan"), 1),
        coverage=clusters.coverage,
        clarity=clusters.clarity,
        sizes=sizes_of(arrived.labelled, newcomers.participants, len(model.centroids), n_rows),
        doubts=doubts_about_summaries(newcomers, arrived.columns, clusters),
        remarks=tuple(_remarks(before, arrived)),
    )


def _with_spread(model: GlobalModel, n_known: int, newcomers: Members, labelled: Mapping[str, Labelled]) -> GlobalModel:
    """Return the model with the spread of new features around its centroids; that of the others stays."""
    k, cells, squares = len(model.centroids), model.cells.copy(), np.zeros(model.cells.shape)
    for name, reply in labelled.items():
        index = newcomers.index(name)
        counts, sent = checked(name, reply.spread, k, len(index))
        new = index >= n_known
        cells[:, index[new]] += counts[:, new]
        squares[:, index[new]] += sent[:, new]
    variances = model.variances.copy()
    variances[:, n_known:] = squares[:, n_known:] / np.maximum(cells[:, n_known:], 1.0)
    return replace(model, variances=variances, cells=cells)


def _remarks(model: GlobalModel, arrived: Arrived) -> Iterator[str]:
    far = unlike_all(model, arrived.clusters) > UNLIKE
    for i, name in enumerate(arrived.newcomers.participants):
        own = arrived.clusters.owner == i
        if n := int((own & far).sum()):
            rows = int(arrived.clusters.sizes[own & far].sum())
            yield (
                f"{n} of {int(own.sum())} local clusters of {name!r} ({rows} rows) are far from every cluster of the model. "
                "Their rows have the label of the nearest one. Hint: a new run with all participants may "
                "give them a cluster of their own."
            )


def united(before: Outcome, late: Outcome) -> Outcome:
    """Return the outcome of a study with that of newcomers to its model; what it says of the others is as it was."""
    d, wide = len(before.model.space), len(late.model.space)
    known = late.model.centroids
    same = late.model.space.names[:d] == before.model.space.names and np.array_equal(
        known.values[:, :d], before.model.centroids.values
    )
    if not same:
        raise InputError("the newcomers joined another model than this one. Hint: the model file that they were given.")
    together = _stacked(before.local_centroids.wider(wide), late.local_centroids)
    fidelity = before.fidelity
    if fidelity is not None:
        fidelity = np.vstack([fidelity, np.full((len(late.local_clusters), fidelity.shape[1]), np.nan)])
    masks = np.vstack([np.pad(before.masks, ((0, 0), (0, wide - d))), late.masks])
    filled = np.vstack([np.pad(before.coverage.filled, ((0, 0), (0, wide - d))), late.coverage.filled])
    outcome = replace(
        before,
        model=replace(late.model, names=before.model.names),
        participants=(*before.participants, *late.participants),
        masks=masks,
        local_centroids=together,
        local_clusters=(*before.local_clusters, *late.local_clusters),
        coverage=Coverage(np.append(before.coverage.rows, late.coverage.rows), filled),
        clarity={**before.clarity, **late.clarity},
        fidelity=fidelity,
        sizes={**before.sizes, **late.sizes},
        leaves=before.leaves if before.merge_tree is None else before.tree_leaves,
        doubts={**before.doubts, **late.doubts},
        remarks=(*before.remarks, *late.remarks),
    )
    return outcome if before.odd_columns is None else replace(outcome, odd_columns=_odd_columns(before, outcome))


def _stacked(above: MaskedCentroids, below: MaskedCentroids) -> MaskedCentroids:
    return MaskedCentroids(np.vstack([above.values, below.values]), np.vstack([above.counts, below.counts]))


def _odd_columns(before: Outcome, outcome: Outcome) -> tuple[OddColumn, ...]:
    """Return the columns in other units: of the others as before, and those of newcomers beside the others'."""
    model, new = outcome.model, set(outcome.participants[len(before.participants) :])
    features = {
        name: tuple(np.array(model.space.names, dtype=object)[mask])
        for name, mask in zip(outcome.participants, outcome.masks, strict=True)
    }
    members = Members(
        outcome.participants,
        model.space,
        features,
        dict.fromkeys(outcome.participants, model.levels),
        CommonUnits(*_units(model)),
    )
    clusters = LocalClusters(outcome.local_centroids, outcome.owner, np.zeros(0, dtype=np.intp), outcome.coverage)
    odd = odd_units(members, {}, clusters)
    assert before.odd_columns is not None
    return (*before.odd_columns, *(each for each in odd if new & {each.participant, each.other}))
