"""A run that starts from a previous model: rows under its labels, the first and the last centroids, and what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from intarsia.coordinator.before import Before
from intarsia.coordinator.candidates import Candidate, grouped
from intarsia.coordinator.continuing import Evidence, Plan, planned
from intarsia.coordinator.contract import Step
from intarsia.coordinator.gather import checked, replies_of
from intarsia.coordinator.labelling import centres_of, gaussians_of
from intarsia.coordinator.local_clusters import LocalClusters
from intarsia.coordinator.members import Members
from intarsia.coordinator.roll import Roll
from intarsia.coordinator.rounds import ChosenNumber, Run
from intarsia.coordinator.settings import FederatedSettings
from intarsia.coordinator.stability import ended
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.continuity import Rows, gaps
from intarsia.core.distances import Extent
from intarsia.core.grouping.certainty import margins
from intarsia.core.grouping.local_centroids import LocalCentroids
from intarsia.core.grouping.objective import CentroidObjective
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.protocol import CountMoves, LabelBefore, Labelled, Moves, Reply
from intarsia.results.outcome import Aggregation, Outcome
from intarsia.results.repeat import GONE, MERGED, MOVED, NEW, SAME, SPLIT, Change, Repeat

PREVIOUS = "previous"  # the method that grouped the local clusters: they follow the previous model
STILL = 0.3  # deviations: a cluster that moved less is the same, and keeps its centroid
_CHANCE = 2.0  # standard errors of a mean, which do not count as a movement


@dataclass(frozen=True)
class AskedBefore:
    """All participants were asked to label their rows by the previous model."""

    members: Members
    roll: Roll
    clusters: LocalClusters
    doubts: Mapping[str, Mapping[str, float]]
    number: ChosenNumber | None = None
    variances: FloatArray | None = None


@dataclass(frozen=True)
class AskedMoves:
    """All participants were asked how many rows changed cluster."""

    run: Run
    outcome: Outcome


def ask_before(settings: FederatedSettings, state: AskedBefore) -> Step:
    """Return the request to label rows by the previous model."""
    members, before = state.members, _before(settings, state.members)
    requests = {
        name: LabelBefore(centres=centres_of(members, before.model, name), columns=members.columns_for(name))
        for name in members.participants
    }
    return Step(state, requests | state.roll.ask(settings.scale))


def begun(settings: FederatedSettings, state: AskedBefore, labelled: Mapping[str, Labelled]) -> Run:
    """Return the run with the first centroids: those of the previous model, without gone ones and with new ones."""
    members, clusters, number = state.members, state.clusters, state.number
    before = _before(settings, members)
    rows = _rows(before, labelled)
    chosen = settings.k if number is None else number.choice.n_clusters
    group = partial(_groups, settings, members, clusters)
    evidence = Evidence(before, clusters, rows, group, settings.metric, chosen, settings.n_clusters, state.variances)
    plan = planned(evidence)
    local = LocalCentroids(clusters.centroids, clusters.owner, settings.metric)
    objective = CentroidObjective(local, len(plan.centres))
    extent = _extent(plan, local.extent)
    aggregation = Aggregation(PREVIOUS, objective.loss(plan.groups), None, float("nan"), 1)
    clear = tuple(margins(objective, plan.groups).tolist())
    candidate = Candidate(clusters, plan.groups, extent, clear, aggregation, plan.centres, robust=settings.is_robust)
    return Run(
        members,
        state.roll,
        (candidate,),
        converged=plan.unchanged,
        doubts=state.doubts,
        plan=plan,
    )


def settled(run: Run) -> Run:
    """Return the run with the centroids of the previous model for all clusters that moved too little to count."""
    plan = run.plan
    if plan is None or plan.unchanged:
        return run
    candidate = run.candidates[0]
    before, centres = plan.before, candidate.centres
    same = _still(plan, centres)
    values = centres.values.copy()
    d = before.centroids.values.shape[1]
    for k in np.flatnonzero(same):
        known = before.centroids.seen[k]
        values[k, :d][known] = before.centroids.values[k, known]
    return replace(run, candidates=(replace(candidate, centres=MaskedCentroids(values, centres.counts)),))


def ask_moves(run: Run, outcome: Outcome) -> Step:
    """Return the request to count rows that changed cluster."""
    assert run.plan is not None
    members, before = run.members, run.plan.before.model
    requests = {
        name: CountMoves(
            before=centres_of(members, before, name),
            now=centres_of(members, outcome.model, name),
            gaussians_before=gaussians_of(members, before, name),
            gaussians_now=gaussians_of(members, outcome.model, name),
            columns=members.columns_for(name),
        )
        for name in members.participants
    }
    return Step(AskedMoves(run, outcome), requests)


def counted(settings: FederatedSettings, state: AskedMoves, replies: Mapping[str, Reply]) -> Step:
    """Return the result with what became of each cluster."""
    run, outcome = state.run, state.outcome
    assert run.plan is not None
    shape = run.plan.n_before, len(outcome.model.centroids)
    table = np.zeros(shape, dtype=np.intp)
    for name, reply in replies_of(Moves, replies, run.members.participants).items():
        checked(name, reply.check_rows, shape, run.roll.n_rows[name])
        table += reply.rows
    before = run.plan.before
    repeat = Repeat(
        _changes(run.plan, outcome.model.centroids, table),
        tuple(tuple(row) for row in table.tolist()),
        run.plan.unchanged,
        before.new_columns,
        before.gone_columns,
    )
    names = before.plain.names and (*before.plain.names, *("",) * (shape[1] - shape[0]))  # numbers keep their names
    model = replace(outcome.model, names=names)
    return ended(settings, run.members, replace(outcome, model=model, repeat=repeat))


def _before(settings: FederatedSettings, members: Members) -> Before:
    assert settings.previous is not None
    return Before.of(settings.previous, members)


def _groups(settings: FederatedSettings, members: Members, clusters: LocalClusters, k: int) -> IntArray:
    return grouped(replace(settings, n_clusters=min(k, len(clusters.owner))), members, clusters).groups


def _rows(before: Before, labelled: Mapping[str, Labelled]) -> Rows:
    """Return counts and squares around the old centroids, over all participants."""
    shape = before.centroids.values.shape
    counts, squares = np.zeros(shape), np.zeros(shape)
    for name in filter(labelled.__contains__, before.members.participants):
        index = before.members.index(name)
        own_counts, own_squares = checked(name, labelled[name].spread, shape[0], len(index))
        counts[:, index] += own_counts
        squares[:, index] += own_squares
    return Rows(counts, squares, before.cells, before.variances)


def _extent(plan: Plan, local: Extent) -> Extent:
    """Return the extent of the previous model; wider if there are new clusters, and that of today where it had none."""
    old = plan.before.extent
    wider = len(plan.centres) > plan.n_before
    use_old = plan.before.known & old.varies & plan.before.centroids.seen.any(axis=0)
    low, high = np.minimum(old.low, local.low), np.maximum(old.high, local.high)
    if not wider:
        low, high = np.where(use_old, old.low, low), np.where(use_old, old.high, high)
    unknown = ~plan.before.known
    return Extent(np.where(unknown, local.low, low), np.where(unknown, local.high, high))


def _still(plan: Plan, centres: MaskedCentroids) -> BoolArray:
    """Return which old clusters are where they were, as far as their number of rows can tell."""
    before = plan.before
    moved = _moved(plan, centres)
    old = before.centroids
    d = old.values.shape[1]
    counts = centres.counts[: len(old), :d]
    n = np.where(counts > 0, counts, 0.0).sum(axis=1) / np.maximum((counts > 0).sum(axis=1), 1)
    limit = np.sqrt(STILL**2 + _CHANCE**2 / np.maximum(n, 1.0))
    return np.asarray(moved <= limit)


def _moved(plan: Plan, centres: MaskedCentroids) -> FloatArray:
    """Return how far each old cluster moved, in deviations; NaN if it is gone."""
    old = plan.before.centroids
    d = old.values.shape[1]
    now = MaskedCentroids(centres.values[: len(old), :d], centres.counts[: len(old), :d])
    return np.diagonal(gaps(now, old, plan.before.spread).rms).copy()


def _changes(plan: Plan, centres: MaskedCentroids, table: IntArray) -> tuple[Change, ...]:
    """Return what became of each cluster, the old ones first."""
    before, moved = plan.before.centroids, _moved(plan, centres)
    rows_before, rows = table.sum(axis=1), table.sum(axis=0)
    changes = []
    for k in range(len(centres)):
        old = k < len(before)
        state, others = SAME, tuple(new for new, origin in plan.origin.items() if origin == k)
        if not old:
            state, others = NEW, (plan.origin[k],) if k in plan.origin else ()
        elif k in plan.merged:
            state, others = MERGED, (plan.merged[k],)
        elif not centres.seen[k].any():
            state = GONE
        elif others:
            state = SPLIT
        elif moved[k] > 0:
            state = MOVED
        far = float(moved[k]) if old and not np.isnan(moved[k]) else None
        changes.append(Change(k, state, far, others, int(rows_before[k]) if old else 0, int(rows[k])))
    return tuple(changes)
