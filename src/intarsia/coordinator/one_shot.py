"""Algorithm 2: one-shot distributed agglomerative clustering with masked data.

    summarize (local clusters with a density each) → forces → group → label

One exchange gathers everything; the second only tells participants the global clusters on their features, by which they
label their rows, or (``labels="local"``, the paper) the group of each of their local clusters. A participant that comes
only then labels its rows by the global clusters in both cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from intarsia.coordinator.choices import considered
from intarsia.coordinator.columns import TableColumns, check_weighted_columns, with_weighted_moments
from intarsia.coordinator.consistency import doubts_about_summaries
from intarsia.coordinator.contract import Step
from intarsia.coordinator.finishing import global_model, with_tails
from intarsia.coordinator.forces import Attraction, attraction, choose_k
from intarsia.coordinator.gather import check_senders, checked, replies_of, sizes_of
from intarsia.coordinator.labelling import label_requests
from intarsia.coordinator.local_clusters import LocalClusters, check_comparable, densities_of, lay_out
from intarsia.coordinator.members import Members, agree
from intarsia.coordinator.odd_units import odd_units
from intarsia.coordinator.roll import Roll
from intarsia.coordinator.settings import BY_LOCAL, MAX_LOCAL_CLUSTERS, OneShotSettings, n_local_clusters_of
from intarsia.coordinator.stability import AskedStability, ended, measured
from intarsia.coordinator.weights import unequal
from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.densities.base import Density
from intarsia.core.distances import Metric
from intarsia.core.features import indicators
from intarsia.core.grouping.aggregations import AGGREGATIONS
from intarsia.core.grouping.certainty import margins
from intarsia.core.grouping.local_centroids import by_size
from intarsia.core.grouping.n_clusters import Choice
from intarsia.core.grouping.objective import ForceObjective
from intarsia.core.grouping.search import SearchOptions
from intarsia.core.mixture import pooled_squares
from intarsia.core.randomness import stream
from intarsia.core.types import FloatArray, IntArray
from intarsia.exceptions import DisjointFeaturesError, TooFewClustersError
from intarsia.protocol import Assign, Labelled, LocalSummary, Moments, Reply, Request, Summarize
from intarsia.results.outcome import Aggregation, Coverage, Outcome


class Grouped(NamedTuple):
    """The groups of all local clusters, and how K was chosen, if it was."""

    groups: IntArray
    aggregation: Aggregation
    choice: Choice | None


@dataclass(frozen=True)
class AskedSummaries:
    """All participants were asked for local clusters."""

    participants: tuple[str, ...]


@dataclass(frozen=True)
class AskedLabels:
    """All participants were asked to label their rows; those that had not replied were asked for a description."""

    members: Members
    outcome: Outcome
    roll: Roll


@dataclass(frozen=True)
class AskedLatecomers:
    """Participants that came after the groups were found were asked to label their rows."""

    members: Members
    outcome: Outcome
    roll: Roll


State = AskedSummaries | AskedLabels | AskedLatecomers | AskedStability


@dataclass(frozen=True)
class OneShotAlgorithm(OneShotSettings):
    """Algorithm 2 with its settings."""

    def start(self, participants: Sequence[str]) -> Step:
        """Ask all participants for local clusters and their densities."""
        return Step(AskedSummaries(tuple(participants)), {name: self._summarize(name) for name in participants})

    def advance(self, state: State, replies: Mapping[str, Reply]) -> Step:
        """Group the local clusters, or collect how many rows each group has."""
        match state:
            case AskedSummaries(participants):
                check_senders(replies, participants)
                return self._summarized(replies_of(LocalSummary, replies, participants), participants)
            case AskedLabels(members, outcome, roll):
                check_senders(replies, (*outcome.participants, *roll.silent))
                return self._labelled(members, outcome, roll.heard(replies), replies)
            case AskedLatecomers(members, outcome, roll):
                check_senders(replies, tuple(roll.described), optional=True)
                return ended(self, members, _with_latecomers(members, outcome, roll, replies))
            case AskedStability():
                check_senders(replies, state.asked)
                return measured(state, replies)

    def _summarize(self, name: str) -> Summarize:
        return Summarize(
            seed=self.seed,
            n_clusters=self.n_clusters,
            n_local_clusters=n_local_clusters_of(self, name),
            max_local_clusters=self.n_clusters or MAX_LOCAL_CLUSTERS,
            scale=self.scale,
            factors=self.factors or None,
            density=self.density,
            shrink=self.shrink,
            bounding_boxes=self.bounding_boxes,
            n_proxies=self.n_compared,
        )

    def _summarized(self, summaries: Mapping[str, LocalSummary], asked: Sequence[str]) -> Step:
        for name, summary in summaries.items():
            checked(name, summary.check_densities, self.density)
        columns = {name: _columns_of(summary) for name, summary in summaries.items()}
        if self.feature_weights and len(summaries) == len(asked):  # those of a silent participant may be meant
            check_weighted_columns(self.feature_weights, columns)
        weights = self.row_weights({name: summary.n_rows for name, summary in summaries.items()})
        weighted = with_weighted_moments(columns, weights)
        members = agree(weighted, self.scale, allow_partial=self.allow_partial, factors=self.factors)
        clusters = _in_common_units(members, lay_out(members, summaries)).with_weights(self, members)
        self._check_enough(len(clusters.owner))
        densities = densities_of(members, clusters, summaries, original_units=True)
        attracted = attraction(self, members, clusters, densities, summaries)
        if not self.allow_partial:
            check_comparable(members, clusters.owner, ~np.isnan(attracted.local.forces))
        grouped = self._group(members, clusters, densities, attracted)
        outcome = _outcome(members, clusters, densities, attracted, grouped, self.metric)
        doubts, odd = doubts_about_summaries(members, columns, clusters), odd_units(members, columns, clusters)
        outcome = replace(outcome, doubts=doubts, odd_columns=odd, row_weights=unequal(weights))
        roll = Roll.of([name for name in asked if name not in summaries])
        if self.model == "mixture":
            outcome = replace(outcome, model=replace(outcome.model, weights=_shares(outcome.groups, clusters.weight)))
        if self.labels == BY_LOCAL:
            requests = _assignments(outcome, clusters.owner)
        else:
            requests = label_requests(members, outcome.model, outcome.participants, spread=False, tails=True)
        return Step(AskedLabels(members, outcome, roll), requests | roll.ask(None))

    def _check_enough(self, n_local: int) -> None:
        if self.n_clusters is not None and self.n_clusters > n_local:
            raise TooFewClustersError(
                f"{self.n_clusters} global clusters were requested, but participants found only {n_local} local clusters "
                "in total. Hint: request fewer clusters, or more local ones (n_local_clusters). Participants with few rows "
                "for so many clusters count as one cluster."
            )

    def _group(
        self, members: Members, clusters: LocalClusters, densities: Sequence[Density], attracted: Attraction
    ) -> Grouped:
        local, method, choice, n_groups = attracted.local, self.aggregation, None, self.n_clusters
        if n_groups is None:
            choice = choose_k(members, clusters, densities, attracted, separate=AGGREGATIONS[method].separates)
            n_groups = choice.n_clusters
        fewest = local.tree.fewest_groups
        if n_groups < fewest and not self.allow_partial:
            raise DisjointFeaturesError(
                f"{len(local)} local clusters cannot be joined into {n_groups} groups, only into {fewest} or more: some "
                "share only features of which one of them has no values. Hint: allow_partial=True, or impute the missing "
                "values of these columns."
            )
        n_groups = max(n_groups, fewest)
        if fewest > 1 and AGGREGATIONS[method].needs_connection:
            method = "greedy"
        group = AGGREGATIONS[method].of_forces
        assert group is not None
        generator = partial(stream, self.seed, "coordinator", "search forces")
        best = group(local, n_groups, SearchOptions(members.masks, self.n_starts, generator))
        aggregation = Aggregation(method, best.loss, best.runner_up, best.confidence, best.n_different)
        return Grouped(best.groups, aggregation, choice)

    def _labelled(self, members: Members, outcome: Outcome, roll: Roll, replies: Mapping[str, Reply]) -> Step:
        """Return the result with sizes, or ask latecomers for labels."""
        labelled = replies_of(Labelled, replies, outcome.participants)
        assert outcome.coverage is not None
        rows = dict(zip(outcome.participants, outcome.coverage.rows.tolist(), strict=True))
        sizes = sizes_of(labelled, outcome.participants, len(outcome.model.centroids), rows)
        all_members, roll = roll.with_latecomers(members)
        outcome = with_tails(replace(outcome, sizes=sizes, remarks=roll.remarks), labelled)
        return ended(self, members, outcome) if all_members is members else _ask_latecomers(all_members, outcome, roll)


def _columns_of(summary: LocalSummary) -> TableColumns:
    """Return the columns of a participant's table: numeric ones with their moments, and categorical ones."""
    are_indicators = set(indicators(summary.levels))
    index = [k for k, feature in enumerate(summary.features) if feature not in are_indicators]
    moments = summary.moments
    if moments is not None:
        low, high, quantiles = (
            None if part is None else part[..., index] for part in (moments.low, moments.high, moments.quantiles)
        )
        moments = Moments(moments.count[index], moments.mean[index], moments.m2[index], low, high, quantiles)
    return TableColumns(tuple(summary.features[k] for k in index), summary.levels, moments)


def _in_common_units(members: Members, clusters: LocalClusters) -> LocalClusters:
    # entries that a cluster does not have are 0 in any units
    values = np.where(
        clusters.centroids.seen, (clusters.centroids.values - members.units.shift) / members.units.scale, 0.0
    )
    return replace(clusters, centroids=MaskedCentroids.of(values, clusters.centroids.counts))


def _outcome(
    members: Members,
    clusters: LocalClusters,
    densities: Sequence[Density],
    attracted: Attraction,
    grouped: Grouped,
    metric: Metric,
) -> Outcome:
    groups, weighted = by_size(grouped.groups, clusters.weight), clusters.weighted
    n_groups, choice = int(groups.max()) + 1, grouped.choice
    clear = margins(ForceObjective(attracted.local.forces, clusters.owner, n_groups), groups)
    merged = merge(weighted, groups, n_groups)
    squares = pooled_squares(weighted, _squares(clusters, densities), groups, merged)
    variances = squares / np.where(merged.seen, merged.counts, 1.0)
    counts = merged.counts if clusters.weights is None else merge(clusters.centroids, groups, n_groups).counts
    centroids = MaskedCentroids(merged.values, counts)
    return Outcome(
        model=global_model(members, centroids, attracted.extent, metric, variances, centroids.counts),
        participants=members.participants,
        masks=members.masks,
        local_centroids=clusters.centroids,
        local_clusters=clusters.records(members, groups, clear.tolist()),
        aggregation=grouped.aggregation,
        clarity=clusters.clarity,
        coverage=clusters.coverage,
        fidelity=clusters.fidelity,
        merge_tree=attracted.local.tree,
        silhouettes={} if choice is None else choice.silhouettes,
        found=None if choice is None else choice.found,
        choices=() if choice is None else considered(members, clusters, densities, attracted, choice),
    )


def _squares(clusters: LocalClusters, densities: Sequence[Density]) -> FloatArray:
    """Return the weighted sums of squares of every local cluster around its mean, from the variances of its density."""
    variances = np.zeros(clusters.centroids.values.shape)
    for z, density in enumerate(densities):
        variances[z, clusters.centroids.seen[z]] = density.variances
    return variances * clusters.weighted.counts


def _shares(groups: IntArray, sizes: FloatArray) -> FloatArray:
    """Return the shares of the groups in the weighted rows of all local clusters."""
    rows = np.maximum(np.bincount(groups, weights=sizes), 1e-12)
    return np.asarray(rows / rows.sum())


def _assignments(outcome: Outcome, owner: IntArray) -> dict[str, Request]:
    n_groups = len(outcome.model.centroids)
    return {
        name: Assign(groups=outcome.groups[owner == i], n_groups=n_groups)
        for i, name in enumerate(outcome.participants)
    }


def _ask_latecomers(members: Members, outcome: Outcome, roll: Roll) -> Step:
    """Return the request for labels to all members that are not part of the outcome."""
    requests = label_requests(members, outcome.model, members.participants[len(outcome.participants) :])
    return Step(AskedLatecomers(members, outcome, roll), requests, optional=True)


def _with_latecomers(members: Members, outcome: Outcome, roll: Roll, replies: Mapping[str, Reply]) -> Outcome:
    """Return the outcome with the rows of latecomers counted; groups and centroids are those of the others."""
    late = members.participants[len(outcome.participants) :]
    labelled = replies_of(Labelled, replies, late)
    rows = {name: roll.described[name].n_rows for name in late}
    n_clusters, n_features, coverage = len(outcome.model.centroids), len(outcome.model.space), outcome.coverage
    assert coverage is not None
    filled = np.zeros((len(late), n_features), dtype=np.intp)
    for row, name in zip(filled, late, strict=True):
        if name in labelled:
            index = members.index(name)
            counts, _ = checked(name, labelled[name].spread, n_clusters, len(index))
            known = index < n_features
            row[index[known]] = np.minimum(counts.sum(axis=0)[known], rows[name]).astype(np.intp)
    return replace(
        outcome,
        participants=members.participants,
        masks=members.masks[:, :n_features],
        sizes=dict(outcome.sizes) | sizes_of(labelled, late, n_clusters, rows),
        coverage=Coverage(
            np.append(coverage.rows, np.array(list(rows.values()), dtype=np.intp)),
            np.concatenate([coverage.filled, filled]),
        ),
    )
