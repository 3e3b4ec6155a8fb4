"""From an outcome to what a report says. Only what the coordinator knows goes in: no row and no label."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from intarsia.core.blocks import PIECE_VALUES, by_rows
from intarsia.core.distances import extent_of, rescaled_distances
from intarsia.core.features import FeatureSpace, cut_vertices, indicators
from intarsia.core.grouping.linkages import height_of
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.protocol.catalogue import meaning_of
from intarsia.report.cleaning import cleaned
from intarsia.report.data import (
    Cluster,
    Column,
    Finding,
    MapPoint,
    Matrix,
    Participant,
    Profiles,
    Release,
    ReportData,
    Shared,
    Tree,
)
from intarsia.report.diagnostics import total_deviations
from intarsia.report.findings import findings_of
from intarsia.report.layout import flat_layout, quick_distances, rough_layout
from intarsia.report.private import privacy_of
from intarsia.report.words import FEW_ROWS, headline_of, methods_of, references_of, title_of
from intarsia.results.assumptions import AssumptionReport
from intarsia.results.influence import shares, shares_by_cluster
from intarsia.results.outcome import Outcome, RunRecord, Sent
from intarsia.results.profiles import Covered, Separation, coverage_of, separations

TOP = 10  # features that separate a cluster
MANY_POINTS, TOO_MANY_POINTS = 500, 1500
LANDMARKS = 300  # that the rest of too many are placed by
MOST_PAIRS = 5000  # of participants, those that share most
FORCE_EXPONENT = 2.0  # a force to this power is a distance again


def summarise(
    outcome: Outcome,
    names: Sequence[str],
    assumptions: AssumptionReport,
    run: RunRecord,
    title: str | None = None,
    fewest: int = FEW_ROWS,
) -> ReportData:
    """Everything a report says. What fewer than ``fewest`` cells stand behind in a profile is not told."""
    sizes = np.array([np.asarray(outcome.sizes[name]) for name in outcome.participants], dtype=np.intp)
    covered = coverage_of(outcome, tuple(names), {name: name for name in outcome.participants})
    shown = outcome.model.centroids.seen & (outcome.model.centroids.counts >= fewest)
    clusters = _clusters(outcome, tuple(names), sizes, shown)
    columns, participants = _columns(outcome, covered), tuple(_participants(outcome, covered, sizes, run))
    points, kept = _points(outcome, assumptions)
    releases, bridges = _releases(run.sent), tuple(_bridges(outcome))
    said = ReportData(
        title=title_of(participants) if title is None else title,
        headline=headline_of(participants, columns, clusters, outcome, assumptions, run),
        findings=findings_of(outcome, assumptions, participants, columns, bridges, releases, run),
        notes=run.notes,
        participants=participants,
        columns=columns,
        shared=most_shared(outcome),
        bridges=bridges,
        clusters=clusters,
        profiles=_profiles(outcome, clusters, names, shown),
        local_clusters=points,
        map_keeps=kept,
        confidence=_number(outcome.aggregation.confidence),
        stability=outcome.stability,
        tree=_tree(outcome, run),
        rounds=outcome.rounds,
        exchanges=run.exchanges,
        releases=releases,
        sent=run.sent,
        suppressed=run.suppressed,
        method=run.method,
        settings=run.settings,
        seed=run.seed,
        versions=run.versions,
        started=run.started,
        seconds=run.seconds,
        units=outcome.model.units,
        methods=methods_of(outcome, participants, columns, run),
        references=references_of(outcome),
        privacy=privacy_of(outcome.privacy),
        repeat=outcome.repeat,
        secure=outcome.secure is not None,
    )
    return cleaned(said)  # a title may hold anything, too


def findings(
    outcome: Outcome, names: Sequence[str], assumptions: AssumptionReport, run: RunRecord
) -> tuple[Finding, ...]:
    """Return the findings of the report without the rest of it."""
    sizes = np.array([np.asarray(outcome.sizes[name]) for name in outcome.participants], dtype=np.intp)
    covered = coverage_of(outcome, tuple(names), {name: name for name in outcome.participants})
    participants = tuple(_participants(outcome, covered, sizes, run))
    columns, bridges = _columns(outcome, covered), tuple(_bridges(outcome))
    return findings_of(outcome, assumptions, participants, columns, bridges, _releases(run.sent), run)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _matrix(values: FloatArray) -> Matrix:
    return tuple(tuple(map(_number, row)) for row in values)


def _participants(
    outcome: Outcome, covered: Sequence[Covered], sizes: IntArray, run: RunRecord
) -> Iterable[Participant]:
    own: dict[Hashable, list[Covered]] = {}
    for entry in covered:
        if not entry.absent:
            own.setdefault(entry.participant, []).append(entry)
    local_clusters = np.bincount(outcome.owner, minlength=len(outcome.participants))
    weights = shares(outcome)
    for i, name in enumerate(outcome.participants):
        mine = own.get(name, [])
        cells, filled = sum(entry.rows for entry in mine), sum(entry.filled for entry in mine)
        labelled = int(sizes[i].sum())
        yield Participant(
            name=name,
            rows=int(outcome.coverage.rows[i]),
            labelled=labelled,
            columns=len(mine),
            local_clusters=int(local_clusters[i]),
            filled=filled / cells if cells else 1.0,
            seconds=sum(exchange.seconds.get(name, 0.0) for exchange in run.exchanges),
            bytes_in=sum(exchange.bytes_in.get(name, 0) for exchange in run.exchanges),
            bytes_out=sum(exchange.bytes_out.get(name, 0) for exchange in run.exchanges),
            weight=_number(weights[i]),
        )


def _columns(outcome: Outcome, covered: Sequence[Covered]) -> tuple[Column, ...]:
    """Columns, those that most have first."""
    shares: dict[str, list[float | None]] = {}
    for entry in covered:
        share = None if entry.absent else entry.filled / max(entry.rows, 1)
        shares.setdefault(entry.column, []).append(share)
    columns = [Column(name, outcome.model.levels.get(name, ()), tuple(own)) for name, own in shares.items()]
    return tuple(sorted(columns, key=lambda column: -column.owners))


def most_shared(outcome: Outcome, most: int = MOST_PAIRS, piece_values: int = PIECE_VALUES) -> tuple[Shared, ...]:
    """Return the pairs of participants that share most columns; a column of categories is one column."""
    of_level = {f: c for c, own in outcome.model.levels.items() for f in indicators({c: own})}
    columns = FeatureSpace.union([[of_level.get(name, name)] for name in outcome.model.space.names])
    at = columns.index([of_level.get(name, name) for name in outcome.model.space.names])
    n = len(outcome.participants)
    has = np.zeros((n, len(columns)), dtype=np.float32)
    rows, features = np.nonzero(outcome.masks)
    has[rows, at[features]] = 1.0
    pairs = np.zeros((0, 3), dtype=np.intp)  # left, right, columns
    for piece in by_rows(n, n, piece_values):
        common = np.triu(has[piece] @ has.T, piece.start + 1)
        left, right = np.nonzero(common)
        more = np.column_stack([left + piece.start, right, common[left, right].astype(np.intp)])
        pairs = np.concatenate([pairs, more])
        pairs = pairs[np.sort(np.argsort(-pairs[:, 2], kind="stable")[:most])]
    order = np.argsort(-pairs[:, 2], kind="stable")
    return tuple(Shared(*pair) for pair in pairs[order].tolist())


def _bridges(outcome: Outcome) -> Iterable[str]:
    yield from (outcome.participants[vertex] for vertex in cut_vertices(outcome.masks))


def _clusters(outcome: Outcome, names: tuple[str, ...], sizes: IntArray, shown: BoolArray) -> tuple[Cluster, ...]:
    at = {name: m for m, name in enumerate(outcome.model.space.names)}
    others = shown.sum(axis=0)
    found: dict[int, list[Separation]] = {}
    for entry in separations(outcome, names):
        m = at[entry.feature]
        if shown[entry.cluster, m] and others[m] > 1 and len(found.setdefault(entry.cluster, [])) < TOP:
            found[entry.cluster].append(entry)
    rows, weights = outcome.total_sizes, shares_by_cluster(outcome)
    total = max(int(rows.sum()), 1)
    return tuple(
        Cluster(
            number=k,
            rows=int(n),
            share=int(n) / total,
            rows_of=tuple(sizes[:, k].tolist()),
            separating=tuple(found.get(k, ())),
            weights=tuple(map(_number, weights[:, k])),
            name=outcome.model.named.get(k),
        )
        for k, n in enumerate(rows)
    )


def _profiles(outcome: Outcome, clusters: Sequence[Cluster], names: Sequence[str], shown: BoolArray) -> Profiles:
    model, centroids = outcome.model, outcome.model.centroids
    cells = model.cells
    weights = np.where(centroids.seen, np.maximum(centroids.counts, 1.0), 0.0)
    overall = (weights * centroids.values).sum(axis=0) / np.maximum(weights.sum(axis=0), 1.0)
    spread = total_deviations(outcome)
    off = np.divide(centroids.values - overall, spread, out=np.zeros(centroids.values.shape), where=spread > 0)
    standardised = np.where(shown, off, np.nan)
    strongest = np.nan_to_num(np.abs(standardised), nan=0.0).max(axis=0)
    index = model.space.index(names)
    order = index[np.argsort(-strongest[index], kind="stable")]
    holds = np.array([cluster.rows_of for cluster in clusters], dtype=np.intp) > 0
    measured = holds.astype(np.intp) @ outcome.masks.astype(np.intp)
    return Profiles(
        features=tuple(model.space.names[m] for m in order),
        overall=tuple(map(float, (spread * model.scale)[order])),
        means=_matrix(np.where(shown, model.values, np.nan)[:, order]),
        standardised=_matrix(standardised[:, order]),
        deviations=_matrix(np.where(shown, model.deviations, np.nan)[:, order]),
        cells=tuple(tuple(row) for row in np.maximum(cells, centroids.counts)[:, order].astype(np.int64).tolist()),
        participants=tuple(tuple(row) for row in measured[:, order].tolist()),
        errors=()
        if (account := outcome.privacy) is None
        else _matrix(account.error_matrix(*model.values.shape)[:, order]),
    )


def _points(outcome: Outcome, assumptions: AssumptionReport) -> tuple[tuple[MapPoint, ...], float]:
    local = outcome.local_centroids
    extent = extent_of(local.values, local.seen)
    metric = outcome.model.metric
    if len(local) > TOO_MANY_POINTS:
        layout = rough_layout(local.values, local.seen, extent, LANDMARKS)
    elif metric == "euclidean" or len(local) > MANY_POINTS:  # a picture of so many is a rough one
        layout = flat_layout(quick_distances(local.values, local.seen, extent))
    else:
        seen = local.seen
        layout = flat_layout(rescaled_distances(local.values, seen, local.values, seen, extent, metric))
    doubtful = set(assumptions.doubtful)
    points = tuple(
        MapPoint(
            participant=int(owner),
            index=cluster.index,
            rows=cluster.size,
            cluster=cluster.group,
            margin=_number(cluster.margin),
            ambiguous=(cluster.participant, cluster.index) in doubtful,
            x=float(x),
            y=float(y),
        )
        for cluster, owner, (x, y) in zip(outcome.local_clusters, outcome.owner, layout.points, strict=True)
    )
    return points, layout.kept


def _tree(outcome: Outcome, run: RunRecord) -> Tree | None:
    tree = outcome.merge_tree
    if tree is None:
        return None
    whole = tree.fewest_groups == 1 and tree.n_leaves > 1
    linkage = tuple(map(tuple, tree.to_linkage(FORCE_EXPONENT).tolist())) if whole else None
    return Tree(
        leaves=tuple(f"{leaf.participant} {leaf.index}" for leaf in outcome.tree_leaves),
        linkage=linkage,
        earlier=bool(outcome.leaves),
        silhouettes={int(k): float(value) for k, value in sorted(outcome.silhouettes.items()) if np.isfinite(value)},
        choices=outcome.choices,
        found=outcome.found,
        chosen=len(outcome.model.centroids),
        height=height_of(run.settings.get("linkage")),
        is_result=outcome.aggregation.method == "greedy",
    )


def _releases(sent: Sequence[Sent]) -> tuple[Release, ...]:
    """Over all participants, in the order of the exchanges."""
    fields: dict[tuple[str, str], list[Sent]] = {}
    for entry in sent:
        fields.setdefault((entry.message, entry.field), []).append(entry)
    return tuple(_release(message, field, entries) for (message, field), entries in fields.items())


def _release(message: str, field: str, entries: Sequence[Sent]) -> Release:
    behind = [entry for entry in entries if entry.fewest_rows is not None and entry.times]
    fewest = min(behind, key=lambda entry: entry.fewest_rows or 0, default=None)
    return Release(
        message=message,
        field=field,
        meaning=meaning_of(message, field),
        participants=sum(entry.times > 0 for entry in entries),
        times=sum(entry.times for entry in entries),
        omitted=sum(entry.withheld for entry in entries),
        entries=sum(entry.entries for entry in entries),
        n_bytes=sum(entry.n_bytes for entry in entries),
        fewest_rows=None if fewest is None else fewest.fewest_rows,
        fewest_at=None if fewest is None else fewest.participant,
    )
