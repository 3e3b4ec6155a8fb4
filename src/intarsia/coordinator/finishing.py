"""The end of Algorithm 1: labels, sizes, variances, and the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from intarsia.coordinator.contract import Step
from intarsia.coordinator.gather import checked, sizes_of
from intarsia.coordinator.labelling import label_requests
from intarsia.coordinator.members import Members
from intarsia.coordinator.odd_units import odd_units
from intarsia.coordinator.repeat import ask_moves
from intarsia.coordinator.rounds import Run
from intarsia.coordinator.settings import FederatedSettings
from intarsia.coordinator.stability import ended
from intarsia.coordinator.weights import unequal
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent, Metric
from intarsia.core.tails import LEVELS, quantiles_of, uncounted_quantiles
from intarsia.core.types import FloatArray
from intarsia.protocol import Label, Labelled, Request
from intarsia.results.outcome import Coverage, GlobalModel, Outcome


@dataclass(frozen=True)
class AskedLabels:
    """All participants were asked to label their rows."""

    run: Run


@dataclass(frozen=True)
class AskedLikeliest:
    """All participants were asked to label their rows once more, by the most likely Gaussian."""

    run: Run
    outcome: Outcome


def ask_labels(settings: FederatedSettings, run: Run) -> Step:
    """Return the request for labels, for all participants that have not sent their sizes yet."""
    requests: dict[str, Request] = {
        name: Label(
            centres=run.candidates[0].centres_for(run.members, name), columns=run.members.columns_for(name), tails=True
        )
        for name in run.members.participants
        if name not in run.labelled
    }
    return Step(AskedLabels(run), requests | run.roll.ask(settings.scale), last=run.last_round)


def finish(settings: FederatedSettings, run: Run) -> Step:
    """Return the result; or ask for the labels of latecomers, or once more for labels by the most likely Gaussian."""
    before = set(run.members.participants)
    run = run.with_latecomers()
    if latecomers := [name for name in run.members.participants if name not in before]:
        # participants that did not label by now are not asked again
        step = ask_labels(settings, run)
        return replace(step, requests={name: step.requests[name] for name in latecomers}, optional=True)
    outcome = outcome_of(run, settings)
    return _ask_likeliest(run, outcome) if settings.model == "mixture" else _ended(settings, run, outcome)


def finish_likeliest(settings: FederatedSettings, run: Run, outcome: Outcome, labelled: Mapping[str, Labelled]) -> Step:
    """Return the result with the sizes of the second labelling; participants that missed it keep their labels."""
    participants, n_clusters = run.members.participants, len(outcome.model.centroids)
    sizes = sizes_of(labelled, participants, n_clusters, run.roll.n_rows)
    kept = {name: before for name, before in outcome.sizes.items() if name not in labelled}
    return _ended(settings, run, replace(outcome, sizes=sizes | kept))


def _ended(settings: FederatedSettings, run: Run, outcome: Outcome) -> Step:
    return ended(settings, run.members, outcome) if run.plan is None else ask_moves(run, outcome)


def _ask_likeliest(run: Run, outcome: Outcome) -> Step:
    """Return the request for labels by the Gaussians that the clusters of all participants make."""
    members = run.members
    sizes = outcome.weighted_sizes
    total = float(sizes.sum())
    outcome = replace(outcome, model=replace(outcome.model, weights=np.maximum(sizes, 1e-12) / (total or 1.0)))
    return Step(AskedLikeliest(run, outcome), label_requests(members, outcome.model, members.participants))


def outcome_of(run: Run, settings: FederatedSettings) -> Outcome:
    """Return the outcome of a run that has ended; sizes and variances are 0 where no participant told its own."""
    members, labelled, winner, number = run.members, run.labelled, run.candidates[0], run.number
    centres, clusters, weights = winner.with_numbers, winner.clusters, run.weights(settings)
    variances, counts = _spread(members, labelled, len(centres), weights)
    columns = {name: run.roll.columns(name) for name in members.participants}
    outcome = Outcome(
        model=global_model(members, centres, winner.extent, settings.metric, variances, counts),
        participants=members.participants,
        masks=members.masks,
        local_centroids=clusters.centroids,
        local_clusters=clusters.records(members, winner.groups, winner.margins),
        aggregation=winner.aggregation,
        clarity=clusters.clarity,
        coverage=_coverage(run),
        remarks=run.roll.remarks,
        sizes=sizes_of(labelled, members.participants, len(centres), run.roll.n_rows),
        rounds=run.rounds,
        converged=run.converged,
        merge_tree=None if number is None else number.tree,
        silhouettes={} if number is None else number.choice.silhouettes,
        found=None if number is None else number.choice.found,
        leaves=() if number is None else number.leaves,
        choices=() if number is None else number.choices,
        strain=run.outlyingness,
        doubts=run.doubts,
        odd_columns=odd_units(members, columns, clusters),
        row_weights=unequal(weights),
    )
    return with_tails(outcome, labelled)


def global_model(
    members: Members,
    centroids: MaskedCentroids,
    extent: Extent,
    metric: Metric,
    variances: FloatArray,
    counts: FloatArray,
) -> GlobalModel:
    """Return all that labelling a new row needs."""
    shift, scale, way = members.units
    levels = members.all_levels
    return GlobalModel(members.space, centroids, extent, shift, scale, metric, variances, counts, levels, way)


def with_tails(outcome: Outcome, labelled: Mapping[str, Labelled]) -> Outcome:
    """Return the outcome with the quantiles of distances that participants counted; of Gaussians where none did."""
    model = outcome.model
    if model.metric == "euclidean":
        otherwise = uncounted_quantiles(model.centroids, model.variances, model.extent, outcome.masks)
    else:
        otherwise = np.full((len(model.centroids), len(LEVELS)), np.inf)
    counted = [reply.tails for reply in labelled.values() if reply.tails is not None]
    tails = quantiles_of(counted, otherwise)
    return replace(outcome, model=replace(model, tails=None if np.isinf(tails).all() else tails))


def _spread(
    members: Members, labelled: Mapping[str, Labelled], n_clusters: int, weights: Mapping[str, float]
) -> tuple[FloatArray, FloatArray]:
    """Return the pooled variance of every cluster and feature around the final centroids, and the values behind it."""
    counts, weighted, squares = (np.zeros((n_clusters, len(members.space))) for _ in range(3))
    for name in filter(labelled.__contains__, members.participants):
        index = members.index(name)
        sent_counts, sent_squares = checked(name, labelled[name].spread, n_clusters, len(index))
        counts[:, index] += sent_counts
        weighted[:, index] += weights[name] * sent_counts
        squares[:, index] += weights[name] * sent_squares
    return squares / np.where(counts > 0, weighted, 1.0), counts


def _coverage(run: Run) -> Coverage:
    """Return the rows and observed values of each participant; latecomers sent theirs with their labels."""
    members, early = run.members, run.candidates[0].clusters.coverage
    rows = np.zeros(len(members.participants), dtype=np.intp)
    filled = np.zeros((len(members.participants), len(members.space)), dtype=np.intp)
    rows[: len(early.rows)] = early.rows
    filled[: len(early.rows), : early.filled.shape[1]] = early.filled
    for i, name in enumerate(members.participants[len(early.rows) :], len(early.rows)):
        rows[i] = run.roll.described[name].n_rows
        if name in run.labelled and (counts := run.labelled[name].counts) is not None:
            filled[i, members.index(name)] = np.minimum(counts.sum(axis=0), rows[i]).astype(np.intp)
    return Coverage(rows, filled)
