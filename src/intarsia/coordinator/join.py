"""Participants that join a model that exists: only they are asked, and nothing of the model that others know changes.

describe → summarize → match with the clusters of the model → refine what is new, again and again → label

The entries of the model stay: its centroids, units, extent and spread, over the columns that it has. Columns that only
newcomers have enter with the means of their rows. So a row without values in such columns gets the label that it had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from intarsia.coordinator.candidates import merge_refined
from intarsia.coordinator.columns import TableColumns
from intarsia.coordinator.contract import Step
from intarsia.coordinator.gather import check_senders, checked, replies_of
from intarsia.coordinator.labelling import centres_of, label_requests
from intarsia.coordinator.local_clusters import LocalClusters, lay_out
from intarsia.coordinator.members import Members
from intarsia.coordinator.newcomers import (
    Arrived,
    matched,
    outcome_of_newcomers,
    settled,
    with_entries,
    with_new_features,
    with_newcomers,
)
from intarsia.coordinator.roll import Roll
from intarsia.coordinator.settings import FederatedSettings, OneShotSettings, n_local_clusters_of
from intarsia.core.alignment import blend, movement
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent
from intarsia.core.types import IntArray
from intarsia.exceptions import InputError, ProtocolError, SettingError, about, quote
from intarsia.protocol import Labelled, LocalSummary, Refine, Refinement, Reply, Request, StudyTerms, Summarize
from intarsia.results.outcome import GlobalModel, Outcome


@dataclass(frozen=True)
class AskedFeatures:
    """The newcomers were asked for their features."""

    roll: Roll


@dataclass(frozen=True)
class AskedSummaries:
    """The newcomers were asked for local clusters, in the units of the model."""

    newcomers: Members
    columns: Mapping[str, TableColumns]


@dataclass(frozen=True)
class Joining:
    """Newcomers whose local clusters are matched, and the model with their features, as it is after some rounds."""

    newcomers: Members
    columns: Mapping[str, TableColumns]
    clusters: LocalClusters
    groups: IntArray
    model: GlobalModel
    n_rounds: int = 0
    rests: bool = False


@dataclass(frozen=True)
class AskedRefinement:
    """The newcomers were asked to refine the centroids."""

    joining: Joining


@dataclass(frozen=True)
class AskedLabels:
    """The newcomers were asked to label their rows."""

    joining: Joining


State = AskedFeatures | AskedSummaries | AskedRefinement | AskedLabels


@dataclass(frozen=True)
class JoinAlgorithm:
    """Adds participants to a model. Its participants, and those of its outcome, are the newcomers alone.

    ``settings`` are those of :func:`settings_of_join`: a newcomer gets some of the requests that a participant of a study
    with these settings gets, and no others.
    """

    settings: FederatedSettings
    into: GlobalModel

    def terms(self, name: str) -> StudyTerms:
        """Return which requests a newcomer can get."""
        return self.settings.terms(name)

    def start(self, participants: Sequence[str]) -> Step:
        """Ask the newcomers for their features."""
        roll = Roll.of(sorted(participants))
        return Step(AskedFeatures(roll), roll.ask(self.settings.scale))

    def advance(self, state: State, replies: Mapping[str, Reply]) -> Step:
        """Return the next requests, or the outcome of all newcomers."""
        match state:
            case AskedFeatures(roll):
                check_senders(replies, roll.silent)
                return self._described(roll.heard(replies))
            case AskedSummaries(newcomers, columns):
                check_senders(replies, newcomers.participants)
                return self._summarized(newcomers, columns, replies_of(LocalSummary, replies, newcomers.participants))
            case AskedRefinement(joining):
                names = joining.newcomers.participants
                check_senders(replies, names)
                return self._next(self._refined(joining, replies_of(Refinement, replies, names)))
            case AskedLabels(joining):
                names = joining.newcomers.participants
                check_senders(replies, names)
                return self._labelled(joining, replies_of(Labelled, replies, names))

    def _described(self, roll: Roll) -> Step:
        columns = {name: roll.columns(name) for name in sorted(roll.described)}
        newcomers = with_newcomers(self.into, columns, self.settings.scale, self.settings.factors)
        requests: dict[str, Request] = {
            name: Summarize(
                seed=self.settings.seed,
                n_clusters=self.settings.k,
                n_local_clusters=n_local_clusters_of(self.settings, name),
                max_local_clusters=self.settings.k,
                columns=newcomers.columns_for(name),
            )
            for name in newcomers.participants
        }
        return Step(AskedSummaries(newcomers, columns), requests)

    def _summarized(
        self, newcomers: Members, columns: Mapping[str, TableColumns], summaries: Mapping[str, LocalSummary]
    ) -> Step:
        """Match local clusters with those of the model, and start from their means in what is new."""
        for name, summary in summaries.items():
            if summary.features != newcomers.features[name]:
                wrong = f"participant {name!r} summarised other features than it had described"
                raise about(name, ProtocolError(wrong))
        newcomers = replace(newcomers, participants=tuple(summaries))
        clusters = lay_out(newcomers, summaries)
        groups = matched(newcomers, self.into, clusters)
        model = with_new_features(newcomers, self.into, clusters, groups)
        return self._next(Joining(newcomers, columns, clusters, groups, model))

    def _next(self, joining: Joining) -> Step:
        """Ask for a refinement, or for labels when what is new rests."""
        newcomers, model, settings = joining.newcomers, joining.model, self.settings
        is_wider = len(model.space) > len(self.into.space)
        if joining.rests or not is_wider or joining.n_rounds >= settings.max_rounds:
            return Step(AskedLabels(joining), label_requests(newcomers, model, newcomers.participants))
        requests: dict[str, Request] = {
            name: Refine(
                seed=settings.seed,
                round=joining.n_rounds + 1,
                rivals=(centres_of(newcomers, model, name),),
                min_points=settings.min_points,
                max_iter=settings.local_iterations,
                columns=newcomers.columns_for(name),
            )
            for name in newcomers.participants
        }
        return Step(AskedRefinement(joining), requests)

    def _refined(self, joining: Joining, replies: Mapping[str, Refinement]) -> Joining:
        """Return the model after a round: entries of new features move, all others stay."""
        newcomers, model, k, d = joining.newcomers, joining.model, self.settings.k, len(self.into.space)
        n_rows = dict(zip(newcomers.participants, joining.clusters.coverage.rows.tolist(), strict=True))
        for name, reply in replies.items():
            if len(reply.refined) != 1:
                wrong = f"participant {name!r} refined {len(reply.refined)} sets of centroids instead of 1"
                raise about(name, ProtocolError(wrong))
            checked(name, reply.check_rows, n_rows[name])
            checked(name, reply.refined[0].check_shape, (k, len(newcomers.index(name))))
        refined = merge_refined(newcomers, {name: reply.refined[0] for name, reply in replies.items()}, k)
        moved = with_entries(model, d, blend(model.centroids, refined, self.settings.step_size))
        extent = Extent(model.extent.low[d:], model.extent.high[d:])
        old, new = (MaskedCentroids(c.values[:, d:], c.counts[:, d:]) for c in (model.centroids, moved.centroids))
        rests = movement(old, new, extent) <= self.settings.tol
        return replace(joining, model=moved, n_rounds=joining.n_rounds + 1, rests=rests)

    def _labelled(self, joining: Joining, labelled: Mapping[str, Labelled]) -> Step:
        where = settled(joining.model, joining.clusters, joining.groups)
        arrived = Arrived(joining.newcomers, joining.columns, joining.clusters, where, labelled)
        return Step(result=outcome_of_newcomers(self.into, joining.model, arrived))


def settings_of_join(known: FederatedSettings | OneShotSettings, model: GlobalModel) -> FederatedSettings:
    """Return the settings by which somebody joins the model of a study with ``known`` settings: plain rounds, the K it has.

    A one-shot study has no rounds, and gets none.
    """
    same = ("step_size", "max_rounds", "tol", "min_points", "local_iterations")
    rounds: dict[str, Any] = (
        {name: getattr(known, name) for name in same} if isinstance(known, FederatedSettings) else {}
    )
    return FederatedSettings(
        n_clusters=len(model.centroids),
        n_local_clusters=known.n_local_clusters,
        feature_weights=known.feature_weights,
        scale=model.units or known.scale,
        refinement="plain",
        n_rivals=0,
        model="kmeans" if model.weights is None else "mixture",
        metric=model.metric,
        seed=known.seed,
        **({"max_rounds": 0} | rounds),
    )


def check_can_join(outcome: Outcome, names: Sequence[str]) -> None:
    """Raise an error if these newcomers cannot join the model of a finished run.

    Raises
    ------
    SettingError
        The study is private or has secure sums: what one newcomer tells could be neither noisy nor masked as that of others.
    InputError
        Nobody is given, or somebody is part of the model already.
    """
    instead = (
        "Hint: a new study with all participants; or predict() labels rows of the newcomer by the columns that the model "
        "has, and tells nobody anything."
    )
    if outcome.privacy is not None:
        raise SettingError(
            "nobody can join a private study: its budget bought one set of noisy sums over all participants, and a newcomer "
            f"would tell sums of its rows without noise. {instead}"
        )
    if outcome.secure is not None:
        raise SettingError(
            "nobody can join a study with secure sums: a total over one newcomer is the newcomer's own sum, which the "
            f"coordinator would see. {instead}"
        )
    if not names:
        raise InputError("there is no newcomer. Hint: give the table of at least one.")
    if known := [name for name in names if name in outcome.participants]:
        raise InputError(
            f"{len(known)} participant(s) are part of the model already: {quote(known)}. "
            "Hint: predict() labels new rows of them; a newcomer needs another name."
        )
