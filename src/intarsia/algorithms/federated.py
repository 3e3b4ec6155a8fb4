"""Algorithm 1: federated K-clustering of masked data.

describe → (common units) → summarize → group the local centroids → refine, again and again → label
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from intarsia.algorithms.base import (
    Gathered,
    Step,
    Study,
    check_centroids,
    check_comparable,
    check_description,
    check_summary,
    gather,
    local_clusters,
    make_study,
    replies_of,
    sizes_of,
    starts_stream,
)
from intarsia.core.alignment import blend, movement
from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.distances import Extent, Metric
from intarsia.core.meta_clustering import LocalCentroids, by_size, method_a, method_b, objective
from intarsia.core.search import CentroidProblem, margins, search_centroids
from intarsia.core.types import IntArray
from intarsia.exceptions import ProtocolError
from intarsia.messages import (
    Centres,
    Describe,
    Description,
    Label,
    Labelled,
    LocalSummary,
    Refine,
    Refinement,
    Reply,
    Request,
    Summarize,
)
from intarsia.results import Aggregation, GlobalModel, Outcome, RoundInfo

PAPER_METHODS = {"method_a": method_a, "method_b": method_b}
AGGREGATIONS = ("search", *PAPER_METHODS)


class Grouped(NamedTuple):
    """The initialisation: local clusters, their groups, and how they were found."""

    gathered: Gathered
    groups: IntArray
    extent: Extent
    margins: tuple[float, ...]
    aggregation: Aggregation


@dataclass(frozen=True)
class AskedFeatures:
    """Everybody was asked what they have."""

    participants: tuple[str, ...]


@dataclass(frozen=True)
class AskedSummaries:
    """Everybody was asked for local clusters."""

    study: Study


@dataclass(frozen=True)
class Run:
    """The federated phase: the current global centroids, and how they got there."""

    study: Study
    grouped: Grouped
    centres: MaskedCentroids
    rounds: tuple[RoundInfo, ...] = ()
    converged: bool = False


@dataclass(frozen=True)
class AskedRefinement:
    """Everybody was asked to refine the current centroids."""

    run: Run


@dataclass(frozen=True)
class AskedLabels:
    """Everybody was asked to label their rows."""

    run: Run


State = AskedFeatures | AskedSummaries | AskedRefinement | AskedLabels


@dataclass(frozen=True)
class FederatedAlgorithm:
    """Algorithm 1 with its settings; see :class:`intarsia.FederatedClustering` for what they mean."""

    n_clusters: int
    aggregation: str = "search"
    n_starts: int = 30
    n_local_clusters: Mapping[str, int] | int | None = None
    scale: bool = False
    step_size: float = 0.8
    max_rounds: int = 20
    tol: float = 1e-4
    min_points: int = 1
    local_iterations: int = 1
    metric: Metric = "euclidean"
    seed: int = 0

    def start(self, participants: Sequence[str]) -> Step:
        """Ask everybody which features they have."""
        return Step(AskedFeatures(tuple(participants)), dict.fromkeys(participants, Describe(moments=self.scale)))

    def advance(self, state: State, replies: Mapping[str, Reply]) -> Step:
        """Take the replies to the last question and ask the next."""
        match state:
            case AskedFeatures(participants):
                return self._described(replies_of(Description, replies, participants))
            case AskedSummaries(study):
                return self._summarized(study, replies_of(LocalSummary, replies, study.participants))
            case AskedRefinement(run):
                return self._refined(run, replies_of(Refinement, replies, run.study.participants))
            case AskedLabels(run):
                return _labelled(run, replies_of(Labelled, replies, run.study.participants), self.metric)

    def _described(self, described: Mapping[str, Description]) -> Step:
        for name, reply in described.items():
            check_description(name, reply)
        study = make_study(
            {name: reply.features for name, reply in described.items()},
            {name: reply.moments for name, reply in described.items()},
        )
        return Step(AskedSummaries(study), {name: self._summarize(study, name) for name in study.participants})

    def _summarize(self, study: Study, name: str) -> Request:
        fixed = self.n_local_clusters
        return Summarize(
            seed=self.seed,
            n_clusters=self.n_clusters,
            n_local_clusters=fixed.get(name) if isinstance(fixed, Mapping) else fixed,
            max_local_clusters=self.n_clusters,
            units=study.units_for(name),
        )

    def _summarized(self, study: Study, summaries: Mapping[str, LocalSummary]) -> Step:
        for name, summary in summaries.items():
            check_summary(name, summary)
            if summary.features != study.features[name]:
                raise ProtocolError(f"participant {name!r} summarised other features than it had described")
        gathered = gather(study, summaries)
        grouped = self._group(study, gathered)
        return self._next_round(Run(study, grouped, merge(gathered.centroids, grouped.groups, self.n_clusters)))

    def _group(self, study: Study, gathered: Gathered) -> Grouped:
        local = LocalCentroids(gathered.centroids, gathered.owner, self.metric)
        local.check(self.n_clusters)
        check_comparable(study, gathered.owner, local.comparable)
        problem = CentroidProblem(local, self.n_clusters)
        if self.aggregation == "search":
            starts = starts_stream(self.seed, "search centroids")
            found = search_centroids(local, self.n_clusters, study.overlap, self.n_starts, starts)
            groups = found.groups
            aggregation = Aggregation("search", found.loss, found.runner_up, found.confidence, found.n_different)
        else:
            groups = PAPER_METHODS[self.aggregation](local, self.n_clusters)
            # one heuristic has no runner-up, hence no confidence
            loss = objective(local, groups, self.n_clusters)
            aggregation = Aggregation(self.aggregation, loss, None, float("nan"), 1)
        groups = by_size(groups, gathered.sizes.astype(np.float64))
        return Grouped(gathered, groups, local.extent, tuple(margins(problem, groups).tolist()), aggregation)

    def _next_round(self, run: Run) -> Step:
        """Ask for a refinement, or for labels when the rounds are over."""
        participants = run.study.participants
        if run.converged or len(run.rounds) >= self.max_rounds:
            labels = {
                name: Label(centres=_centres_for(run, name), units=run.study.units_for(name)) for name in participants
            }
            return Step(AskedLabels(run), labels)
        refinements = {
            name: Refine(
                seed=self.seed,
                round=len(run.rounds) + 1,
                centres=_centres_for(run, name),
                min_points=self.min_points,
                max_iter=self.local_iterations,
                units=run.study.units_for(name),
            )
            for name in participants
        }
        return Step(AskedRefinement(run), refinements)

    def _refined(self, run: Run, refined: Mapping[str, Refinement]) -> Step:
        merged = _merge_refinements(run.study, refined, self.n_clusters)
        centres = blend(run.centres, merged, self.step_size)
        moved = movement(run.centres, centres, run.grouped.extent)
        sizes = sum((reply.sizes for reply in refined.values()), np.zeros(self.n_clusters, dtype=np.intp))
        info = RoundInfo(len(run.rounds) + 1, moved, tuple(sizes.tolist()))
        return self._next_round(replace(run, centres=centres, rounds=(*run.rounds, info), converged=moved <= self.tol))


def _labelled(run: Run, labelled: Mapping[str, Labelled], metric: Metric) -> Step:
    study, grouped = run.study, run.grouped
    outcome = Outcome(
        model=GlobalModel(study.space, run.centres, grouped.extent, study.shift, study.scale, metric),
        participants=study.participants,
        masks=study.masks,
        local_centroids=grouped.gathered.centroids,
        local_clusters=local_clusters(study, grouped.gathered, grouped.groups, grouped.margins),
        aggregation=grouped.aggregation,
        clarity=grouped.gathered.clarity,
        sizes=sizes_of(labelled, study.participants, len(run.centres)),
        rounds=run.rounds,
        converged=run.converged,
    )
    return Step(result=outcome)


def _merge_refinements(study: Study, refined: Mapping[str, Refinement], n_clusters: int) -> MaskedCentroids:
    """merge( { c_i^a, all i } ) for every a: the new centroids, before α."""
    stacked_values, stacked_counts = [], []
    for name in study.participants:
        reply, index = refined[name], study.index(name)
        check_centroids(name, reply, (n_clusters, len(index)))
        values, counts = np.zeros((n_clusters, len(study.space))), np.zeros((n_clusters, len(study.space)))
        values[:, index], counts[:, index] = reply.values, reply.counts
        stacked_values.append(values)
        stacked_counts.append(counts)
    everyone = MaskedCentroids.of(np.concatenate(stacked_values), np.concatenate(stacked_counts))
    return merge(everyone, np.tile(np.arange(n_clusters), len(study.participants)), n_clusters)


def _centres_for(run: Run, name: str) -> Centres:
    """The global centroids over one participant's features."""
    index, extent = run.study.index(name), run.grouped.extent
    return Centres(
        values=run.centres.values[:, index],
        known=run.centres.seen[:, index],
        low=extent.low[index],
        high=extent.high[index],
    )
