"""Algorithm 1: federated K-clustering of masked data.

describe → (common units) → summarize → group the local centroids → refine, again and again → label
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from intarsia.coordinator.candidates import first_candidates, starts_pooled
from intarsia.coordinator.choices import considered
from intarsia.coordinator.columns import (
    TableColumns,
    capped_weights,
    check_connected,
    check_weighted_columns,
    with_weighted_moments,
)
from intarsia.coordinator.consistency import doubts_about_summaries
from intarsia.coordinator.contract import Step
from intarsia.coordinator.finishing import AskedLabels, AskedLikeliest, ask_labels, finish, finish_likeliest
from intarsia.coordinator.forces import attraction, choose_k, moments_of
from intarsia.coordinator.gather import check_senders, checked, replies_of
from intarsia.coordinator.local_clusters import LocalClusters, check_comparable, densities_of, lay_out
from intarsia.coordinator.members import Members, agree
from intarsia.coordinator.repeat import AskedBefore, AskedMoves, ask_before, begun, counted, settled
from intarsia.coordinator.roll import Roll
from intarsia.coordinator.rounds import ChosenNumber, Run, refine_requests, refined
from intarsia.coordinator.settings import (
    MAX_LOCAL_CLUSTERS,
    NUMBER_DENSITY,
    FederatedSettings,
    OneShotSettings,
    check_rows,
    most_local_clusters,
    n_local_clusters_of,
)
from intarsia.coordinator.stability import AskedStability, measured
from intarsia.core.types import FloatArray
from intarsia.exceptions import ProtocolError, about
from intarsia.protocol import Labelled, LocalSummary, Refinement, Reply, Request, Summarize

ROOM = 2  # local clusters more than K in a repeat: otherwise a new cluster is hidden in an old one
_FORCES = OneShotSettings(force="exact", density=NUMBER_DENSITY)


@dataclass(frozen=True)
class AskedFeatures:
    """All participants were asked for their features."""

    roll: Roll


@dataclass(frozen=True)
class AskedNumber:
    """All participants were asked for local clusters, as many as they find, from which K is chosen."""

    members: Members
    roll: Roll


@dataclass(frozen=True)
class AskedSummaries:
    """All participants were asked for local clusters; ``number`` says how K was chosen, if it was."""

    members: Members
    roll: Roll
    number: ChosenNumber | None = None


@dataclass(frozen=True)
class AskedRefinement:
    """All participants were asked to refine the current centroids."""

    run: Run


State = (
    AskedFeatures
    | AskedNumber
    | AskedSummaries
    | AskedBefore
    | AskedRefinement
    | AskedLabels
    | AskedLikeliest
    | AskedMoves
    | AskedStability
)


@dataclass(frozen=True)
class FederatedAlgorithm(FederatedSettings):
    """Algorithm 1 with its settings."""

    def start(self, participants: Sequence[str]) -> Step:
        """Ask all participants for their features."""
        roll = Roll.of(participants)
        return Step(AskedFeatures(roll), roll.ask(self.scale))

    def advance(self, state: State, replies: Mapping[str, Reply]) -> Step:  # noqa: PLR0911  (one return per state)
        """Return the next requests, or the result. Participants that are still silent are asked to describe themselves."""
        match state:
            case AskedFeatures(roll):
                check_senders(replies, roll.silent)
                return self._described(roll.heard(replies))
            case AskedNumber(members, roll):
                check_senders(replies, (*members.participants, *roll.silent))
                summaries = replies_of(LocalSummary, replies, members.participants)
                return self._numbered(members, roll.heard(replies), summaries)
            case AskedSummaries(members, roll, number):
                check_senders(replies, (*members.participants, *roll.silent))
                summaries = replies_of(LocalSummary, replies, members.participants)
                return self._summarized(members, roll.heard(replies), summaries, number)
            case AskedBefore(members, roll):
                check_senders(replies, (*members.participants, *roll.silent))
                labelled = replies_of(Labelled, replies, members.participants)
                return self.next_round(begun(self, replace(state, roll=roll.heard(replies)), labelled))
            case AskedRefinement(run):
                check_senders(replies, (*run.members.participants, *run.roll.silent))
                refinements = replies_of(Refinement, replies, run.members.participants)
                run = replace(run, roll=run.roll.heard(replies))
                return self.next_round(refined(self.settings_of(run), run, refinements))
            case AskedLabels(run):
                expected = (*run.members.participants, *run.roll.silent)
                check_senders(replies, expected, optional=bool(run.labelled))
                labelled = {**run.labelled, **replies_of(Labelled, replies, run.members.participants)}
                return finish(self, replace(run, labelled=labelled, roll=run.roll.heard(replies)))
            case AskedLikeliest(run, outcome):
                check_senders(replies, run.members.participants)
                return finish_likeliest(self, run, outcome, replies_of(Labelled, replies, run.members.participants))
            case AskedMoves(run):
                check_senders(replies, run.members.participants)
                return counted(self, state, replies)
            case AskedStability():
                check_senders(replies, state.asked)
                return measured(state, replies)

    def _described(self, roll: Roll) -> Step:
        return self.begun(self._agree(roll), roll)

    def begun(self, members: Members, roll: Roll) -> Step:
        """Ask members that agreed on columns and units for local clusters."""
        self._check_rows(roll.n_rows)
        state = AskedNumber(members, roll) if self.n_clusters is None else AskedSummaries(members, roll)
        return Step(state, _summarize(self, members) | roll.ask(self.scale))

    def _check_rows(self, n_rows: Mapping[str, int]) -> None:
        """Raise an error before anything is clustered if there are too few rows; own clusterers may find single rows."""
        fixed = {name: n_local_clusters_of(self, name) for name in n_rows}
        most = {name: most_local_clusters(rows, fixed[name], any_size=True) for name, rows in n_rows.items()}
        check_rows(self.n_clusters, n_rows, most)

    def _agree(self, roll: Roll) -> Members:
        columns = {name: roll.columns(name) for name in roll.described}
        weights = self.row_weights(roll.n_rows)
        if self.is_robust:
            weights = capped_weights(weights, roll.n_rows)
        return agreed(self, roll, with_weighted_moments(columns, weights), self.scale)

    def _asked_before(
        self,
        members: Members,
        roll: Roll,
        clusters: LocalClusters,
        number: ChosenNumber | None = None,
        variances: FloatArray | None = None,
    ) -> AskedBefore:
        columns = {name: roll.columns(name) for name in members.participants}
        doubts = doubts_about_summaries(members, columns, clusters)
        return AskedBefore(members, roll, clusters, doubts, number, variances)

    def settings_of(self, run: Run) -> FederatedSettings:
        """Return the settings with the number of clusters of a run."""
        if run.plan is not None:
            return replace(self, n_clusters=len(run.plan.centres))
        return self.with_k(run.number)

    def with_k(self, number: ChosenNumber | None) -> FederatedSettings:
        """Return the settings with the K that was chosen, if it was."""
        return self if number is None else replace(self, n_clusters=number.choice.n_clusters)

    def _numbered(self, members: Members, roll: Roll, summaries: Mapping[str, LocalSummary]) -> Step:
        """Choose K from the local clusters of all, and ask for that many clusters, also of latecomers.

        Units stay those of the first summary: a participant answers in no others.
        """
        all_members, roll = roll.with_latecomers(members)
        members = _present(members, summaries)
        clusters = _checked_clusters(self, members, summaries)
        for name, summary in summaries.items():
            checked(name, summary.check_densities, NUMBER_DENSITY)
        densities = densities_of(members, clusters, summaries, original_units=False)
        attracted = attraction(_FORCES, members, clusters, densities, summaries)
        check_comparable(members, clusters.owner, ~np.isnan(attracted.local.forces))
        choice, tree = choose_k(members, clusters, densities, attracted), attracted.local.tree
        groups = tree.cut(max(choice.n_clusters, tree.fewest_groups))
        choices = considered(members, clusters, densities, attracted, choice)
        number = ChosenNumber(choice, tree, clusters.records(members, groups), choices)
        if self.previous is not None:
            variances = moments_of(densities, clusters.centroids.seen, clusters.sizes).variances
            return ask_before(self, self._asked_before(members, roll, clusters, number, variances))
        requests = _summarize(self.with_k(number), all_members)
        return Step(AskedSummaries(all_members, roll, number), requests | roll.ask(self.scale))

    def _summarized(
        self, members: Members, roll: Roll, summaries: Mapping[str, LocalSummary], number: ChosenNumber | None
    ) -> Step:
        """Group the local centroids, and start the first round."""
        settings, members = self.with_k(number), _present(members, summaries)
        clusters = _checked_clusters(self, members, summaries)
        if self.previous is not None:
            return ask_before(self, self._asked_before(members, roll, clusters))
        doubts = doubts_about_summaries(members, {name: roll.columns(name) for name in members.participants}, clusters)
        candidates = first_candidates(settings, members, clusters)
        return self.next_round(Run(members, roll, candidates, number=number, doubts=doubts))

    def next_round(self, run: Run) -> Step:
        """Ask for a refinement, or for labels when the rounds are over."""
        run, settings = run.with_latecomers(), self.settings_of(run)
        if run.ended(settings):
            return ask_labels(settings, settled(run))
        requests = refine_requests(settings, run) | run.roll.ask(self.scale)
        return Step(AskedRefinement(run), requests, last=run.last_round)


def _summarize(settings: FederatedSettings, members: Members) -> dict[str, Request]:
    """Return the request for local clusters, to every participant; in a repeat there is room for new ones among them."""
    k = settings.n_clusters if settings.n_clusters is None or settings.previous is None else settings.n_clusters + ROOM
    return {
        name: Summarize(
            seed=settings.seed,
            n_clusters=k,
            n_local_clusters=n_local_clusters_of(settings, name),
            max_local_clusters=k or MAX_LOCAL_CLUSTERS,
            density=NUMBER_DENSITY if settings.n_clusters is None else None,
            columns=members.columns_for(name),
            halves=k is not None and settings.previous is None and starts_pooled(settings, members),
        )
        for name in members.participants
    }


def _present(members: Members, summaries: Mapping[str, LocalSummary]) -> Members:
    """Return the members that sent a summary; their features must still connect them."""
    present = members.only(summaries)
    if present is not members:
        check_connected({name: present.features[name] for name in present.participants})
    return present


def agreed(settings: FederatedSettings, roll: Roll, columns: Mapping[str, TableColumns], scale: str | None) -> Members:
    """Return the members of a run; while a participant is silent, columns with a weight may be those of its table."""
    if settings.feature_weights and not roll.silent:
        check_weighted_columns(settings.feature_weights, columns)
    return agree(columns, scale, previous=settings.previous, factors=settings.factors)


def _checked_clusters(
    settings: FederatedSettings, members: Members, summaries: Mapping[str, LocalSummary]
) -> LocalClusters:
    for name, summary in summaries.items():
        if summary.features != members.features[name]:
            wrong = f"participant {name!r} summarised other features than it had described"
            raise about(name, ProtocolError(wrong))
    return lay_out(members, summaries).with_weights(settings, members)
