"""Algorithm 1: federated K-clustering of masked data.

describe → (common units) → summarize → group the local centroids → refine, again and again → label
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from intarsia.algorithms.base import (
    DEVIATIONS,
    EXPONENT,
    MAX_LOCAL_CLUSTERS,
    SOFTENING,
    STRONGEST,
    Gathered,
    Has,
    Step,
    Study,
    check_comparable,
    gather,
    global_model,
    local_clusters,
    make_study,
    spread_of,
    starts_stream,
    summaries_of,
    unpacked_densities,
)
from intarsia.algorithms.replies import (
    check_centroids,
    check_densities,
    check_description,
    check_rows,
    check_summary,
    replies_of,
    sizes_of,
)
from intarsia.algorithms.strain import stretched
from intarsia.core.agglomeration import MergeTree, agglomerate
from intarsia.core.alignment import blend, movement, without_own
from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.distances import Extent, Metric
from intarsia.core.features import is_complete
from intarsia.core.force import exact_forces, gaussian_extent
from intarsia.core.meta_clustering import LocalCentroids, by_size, method_a, method_b, objective
from intarsia.core.n_clusters import Choice, choose_n_clusters
from intarsia.core.search import CentroidProblem, margins, search_centroids
from intarsia.core.types import IntArray
from intarsia.exceptions import ProtocolError
from intarsia.messages import (
    MOST_SETS,
    Centres,
    Describe,
    Description,
    Gaussians,
    Label,
    Labelled,
    LocalSummary,
    Refine,
    Refined,
    Refinement,
    Reply,
    Request,
    Summarize,
)
from intarsia.results import Aggregation, Coverage, LocalCluster, Outcome, RoundInfo

PAPER_METHODS = {"method_a": method_a, "method_b": method_b}
AGGREGATIONS = ("search", *PAPER_METHODS)
MOST_RIVALS = MOST_SETS - 1
MODELS = ("kmeans", "mixture")
REFINEMENTS = ("auto", "crosswise", "plain")
TRIAL_ROUNDS = 4  # so many rounds until groupings in question are compared
PLAIN_SHARE = 4  # where crosswise rounds do not come to rest, one in so many, at the end, is plain


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


class Number(NamedTuple):
    """K, how it was chosen, and the tree of local clusters that it was chosen from."""

    choice: Choice
    tree: MergeTree
    leaves: tuple[LocalCluster, ...]


@dataclass(frozen=True)
class AskedNumber:
    """Everybody was asked how many clusters they see."""

    study: Study


@dataclass(frozen=True)
class AskedSummaries:
    """Everybody was asked for local clusters; ``number`` says how K was chosen, where it was."""

    study: Study
    number: Number | None = None


@dataclass(frozen=True)
class Candidate:
    """One grouping, the global centroids that it led to so far, and what stands behind them.

    ``merged`` and ``last`` are what all and each reported in the last round; ``misfit`` is how badly the rows fit.
    """

    grouped: Grouped
    centres: MaskedCentroids
    merged: MaskedCentroids | None = None
    last: Mapping[str, Refined] = field(default_factory=dict)
    misfit: float = float("nan")


@dataclass(frozen=True)
class Run:
    """The federated phase: the groupings still in question, the likeliest first, and the rounds so far."""

    study: Study
    candidates: tuple[Candidate, ...]
    rounds: tuple[RoundInfo, ...] = ()
    converged: bool = False
    number: Number | None = None
    strain: Mapping[str, float] = field(default_factory=dict)

    @property
    def coverage(self) -> Coverage:
        """Rows and filled cells, as everybody said before the first round."""
        return self.candidates[0].grouped.gathered.coverage


@dataclass(frozen=True)
class AskedRefinement:
    """Everybody was asked to refine the current centroids."""

    run: Run


@dataclass(frozen=True)
class AskedLabels:
    """Everybody was asked to label their rows."""

    run: Run


@dataclass(frozen=True)
class AskedLikeliest:
    """Everybody was asked to label their rows once more, by the likeliest of Gaussians."""

    run: Run
    outcome: Outcome


State = AskedFeatures | AskedNumber | AskedSummaries | AskedRefinement | AskedLabels | AskedLikeliest


@dataclass(frozen=True)
class FederatedAlgorithm:
    """Algorithm 1 with its settings; see :class:`intarsia.FederatedClustering` for what they mean."""

    n_clusters: int | None
    aggregation: str = "search"
    n_starts: int = 30
    n_local_clusters: Mapping[str, int] | int | None = None
    scale: str | None = None
    step_size: float = 0.8
    max_rounds: int = 20
    tol: float = 1e-4
    min_points: int = 1
    local_iterations: int = 1
    refinement: str = "auto"
    n_rivals: int = 3
    model: str = "kmeans"
    metric: Metric = "euclidean"
    seed: int = 0

    def start(self, participants: Sequence[str]) -> Step:
        """Ask everybody which features they have."""
        return Step(AskedFeatures(tuple(participants)), dict.fromkeys(participants, Describe(scale=self.scale)))

    def advance(self, state: State, replies: Mapping[str, Reply]) -> Step:
        """Take the replies to the last question and ask the next."""
        match state:
            case AskedFeatures(participants):
                return self._described(replies_of(Description, replies, participants))
            case AskedNumber(study):
                return self._numbered(study, replies_of(LocalSummary, replies, study.participants))
            case AskedSummaries(study, number):
                summaries = replies_of(LocalSummary, replies, study.participants)
                return self._knowing(number)._summarized(study, summaries, number)  # noqa: SLF001  (itself, but knowing K)
            case AskedRefinement(run):
                refined = replies_of(Refinement, replies, run.study.participants)
                return self._knowing(run.number)._refined(run, refined)  # noqa: SLF001
            case AskedLabels(run):
                labelled = replies_of(Labelled, replies, run.study.participants)
                outcome = _outcome(run, labelled, self.metric)
                return _ask_likeliest(run, outcome) if self.model == "mixture" else Step(result=outcome)
            case AskedLikeliest(run, outcome):
                labelled = replies_of(Labelled, replies, run.study.participants)
                sizes = sizes_of(labelled, run.study.participants, len(outcome.model.centroids), run.coverage)
                return Step(result=replace(outcome, sizes=sizes))

    def _described(self, described: Mapping[str, Description]) -> Step:
        for name, reply in described.items():
            check_description(name, reply)
        study = make_study(
            {name: Has(reply.features, reply.levels, reply.moments) for name, reply in described.items()}, self.scale
        )
        state = AskedNumber(study) if self.n_clusters is None else AskedSummaries(study)
        return Step(state, {name: self._summarize(study, name) for name in study.participants})

    @property
    def _k(self) -> int:
        assert self.n_clusters is not None
        return self.n_clusters

    def _knowing(self, number: Number | None) -> FederatedAlgorithm:
        return self if number is None else replace(self, n_clusters=number.choice.n_clusters)

    def _numbered(self, study: Study, summaries: Mapping[str, LocalSummary]) -> Step:
        """Choose K from what everybody sees, and ask for that many clusters."""
        gathered = self._gathered(study, summaries)
        check_densities(summaries, "gaussian_diagonal")
        densities = unpacked_densities(study, gathered, summaries, original_units=False)
        seen = gathered.centroids.seen
        extent = gaussian_extent(densities, seen, DEVIATIONS)
        forces = np.minimum(exact_forces(densities, seen, extent, EXPONENT, SOFTENING), STRONGEST)
        check_comparable(study, gathered.owner, ~np.isnan(forces))
        tree = agglomerate(forces)
        choice = choose_n_clusters(summaries_of(study, gathered, densities), forces, extent, tree)
        groups = tree.cut(max(choice.n_clusters, tree.fewest_groups))
        number = Number(choice, tree, local_clusters(study, gathered, groups, [float("nan")] * len(groups)))
        knowing = self._knowing(number)
        requests = {name: knowing._summarize(study, name) for name in study.participants}  # noqa: SLF001
        return Step(AskedSummaries(study, number), requests)

    def _gathered(self, study: Study, summaries: Mapping[str, LocalSummary]) -> Gathered:
        for name, summary in summaries.items():
            check_summary(name, summary)
            if summary.features != study.features[name]:
                raise ProtocolError(f"participant {name!r} summarised other features than it had described")
        return gather(study, summaries)

    def _summarize(self, study: Study, name: str) -> Request:
        fixed = self.n_local_clusters
        return Summarize(
            seed=self.seed,
            n_clusters=self.n_clusters,
            n_local_clusters=fixed.get(name) if isinstance(fixed, Mapping) else fixed,
            max_local_clusters=self.n_clusters or MAX_LOCAL_CLUSTERS,
            density="gaussian_diagonal" if self.n_clusters is None else None,
            columns=study.columns_for(name),
        )

    def _summarized(self, study: Study, summaries: Mapping[str, LocalSummary], number: Number | None) -> Step:
        gathered = self._gathered(study, summaries)
        candidates = tuple(
            Candidate(grouped, merge(gathered.centroids, grouped.groups, self._k))
            for grouped in self._group(study, gathered)
        )
        return self._next_round(Run(study, candidates, number=number))

    def _group(self, study: Study, gathered: Gathered) -> list[Grouped]:
        """The best grouping, and others that the local centroids alone hardly tell from it."""
        local = LocalCentroids(gathered.centroids, gathered.owner, self.metric)
        local.check(self._k)
        check_comparable(study, gathered.owner, local.comparable)
        problem = CentroidProblem(local, self._k)
        rivals: tuple[IntArray, ...] = ()
        if self.aggregation == "search":
            starts = starts_stream(self.seed, "search centroids")
            found = search_centroids(local, self._k, study.overlap, self.n_starts, starts)
            # where everybody can be compared with everybody, there is no weak link that could turn the rest
            in_doubt = self.max_rounds > 1 and self.refinement != "plain" and not is_complete(study.overlap)
            best = found.groups
            if in_doubt:
                # centroids that know fewer features fit rows more easily, and would win for that alone
                known = [merge(gathered.centroids, g, self._k).seen.sum() for g in (best, *found.rivals)]
                fair = (g for g, entries in zip(found.rivals, known[1:], strict=True) if entries >= known[0])
                rivals = tuple(islice(fair, self.n_rivals))
            aggregation = Aggregation(
                "search", found.loss, found.runner_up, found.confidence, found.n_different, n_compared=1 + len(rivals)
            )
        else:
            best = PAPER_METHODS[self.aggregation](local, self._k)
            # one heuristic has no runner-up, hence no confidence
            loss = objective(local, best, self._k)
            aggregation = Aggregation(self.aggregation, loss, None, float("nan"), 1)
        grouped = []
        for number, groups in enumerate((best, *rivals)):
            ordered = by_size(groups, gathered.sizes.astype(np.float64))
            how = aggregation if number == 0 else _overruled(aggregation, problem.loss(ordered))
            grouped.append(Grouped(gathered, ordered, local.extent, tuple(margins(problem, ordered).tolist()), how))
        return grouped

    @property
    def _plain_rounds(self) -> int:
        return self.max_rounds // PLAIN_SHARE

    def _kind_of_next(self, run: Run) -> str:
        """Compare the groupings in question first; let the others judge until that changes nothing; end as printed."""
        done = len(run.rounds)
        if len(run.candidates) > 1:
            return "trial"
        judged_by_others = self.refinement == "crosswise" or (
            self.refinement == "auto" and not is_complete(run.study.overlap)
        )
        return "crosswise" if judged_by_others and 1 <= done < self.max_rounds - self._plain_rounds else "plain"

    def _next_round(self, run: Run) -> Step:
        """Ask for a refinement, or for labels when the rounds are over."""
        study = run.study
        if run.converged or len(run.rounds) >= self.max_rounds:
            labels = {
                name: Label(centres=_sent(run.candidates[0], study, name), columns=study.columns_for(name))
                for name in study.participants
            }
            return Step(AskedLabels(run), labels, last=run.rounds[-1] if run.rounds else None)
        crosswise = self._kind_of_next(run) != "plain"
        refinements = {
            name: Refine(
                seed=self.seed,
                round=len(run.rounds) + 1,
                rivals=tuple(_sent(candidate, study, name, crosswise=crosswise) for candidate in run.candidates),
                min_points=self.min_points,
                max_iter=self.local_iterations,
                columns=study.columns_for(name),
            )
            for name in study.participants
        }
        return Step(AskedRefinement(run), refinements, last=run.rounds[-1] if run.rounds else None)

    def _refined(self, run: Run, replies: Mapping[str, Refinement]) -> Step:
        kind, number = self._kind_of_next(run), len(run.rounds) + 1
        for name, n_rows in zip(run.study.participants, run.coverage.rows, strict=True):
            check_rows(name, replies[name], int(n_rows))
        for name, reply in replies.items():
            if len(reply.refined) != len(run.candidates):
                raise ProtocolError(
                    f"participant {name!r} answered {len(reply.refined)} of {len(run.candidates)} questions"
                )
        candidates = tuple(
            self._moved(run.study, candidate, {name: reply.refined[k] for name, reply in replies.items()})
            for k, candidate in enumerate(run.candidates)
        )
        k = min(range(len(candidates)), key=lambda k: candidates[k].misfit)  # the first of equals
        leader = candidates[k]
        moved = movement(run.candidates[k].centres, leader.centres, leader.grouped.extent)
        sizes = sum((reply.sizes for reply in leader.last.values()), np.zeros(self._k, dtype=np.intp))
        info = RoundInfo(number, moved, tuple(sizes.tolist()), leader.misfit, kind)
        if number >= min(TRIAL_ROUNDS, self.max_rounds):
            candidates = (leader,)
        strain = stretched(run.strain, run.study, leader.last, leader.grouped.gathered.centroids)
        run = replace(run, candidates=candidates, rounds=(*run.rounds, info), strain=strain)
        # a first round at rest says nothing about those that the others judge
        over = kind == self._kind_of_next(run) or kind == "crosswise"
        return self._next_round(replace(run, converged=moved <= self.tol and kind != "trial" and over))

    def _moved(self, study: Study, candidate: Candidate, refined: Mapping[str, Refined]) -> Candidate:
        merged = _merge_refinements(study, refined, self._k)
        centres = blend(candidate.centres, merged, self.step_size)
        misfit = sum(refined[name].misfit for name in study.participants)
        return replace(candidate, centres=centres, merged=merged, last=refined, misfit=misfit)


def _overruled(aggregation: Aggregation, loss: float) -> Aggregation:
    """What is to be said about a rival, should the rows prefer it."""
    return replace(aggregation, loss=loss, runner_up=aggregation.loss, confidence=0.0, overruled=True)


def _ask_likeliest(run: Run, outcome: Outcome) -> Step:
    """The clusters that everybody's labels make, as Gaussians; rows that another one makes likelier change sides."""
    study, winner = run.study, run.candidates[0]
    sizes = sum(outcome.sizes.values(), np.zeros(len(winner.centres), dtype=np.intp))
    outcome = replace(outcome, model=replace(outcome.model, weights=np.maximum(sizes, 1e-12) / max(sizes.sum(), 1)))
    mixture = outcome.model.mixture(sizes)
    requests = {}
    for name in study.participants:
        own = mixture.on(study.index(name))
        gaussians = Gaussians(
            means=own.means,
            variances=own.variances,
            seen=own.seen,
            weights=own.weights,
            overall=own.overall,
            width=own.width,
        )
        requests[name] = Label(centres=_sent(winner, study, name), columns=study.columns_for(name), gaussians=gaussians)
    return Step(AskedLikeliest(run, outcome), requests)


def _outcome(run: Run, labelled: Mapping[str, Labelled], metric: Metric) -> Outcome:
    study, winner = run.study, run.candidates[0]
    grouped = winner.grouped
    return Outcome(
        model=global_model(
            study, winner.centres, grouped.extent, metric, *spread_of(study, labelled, len(winner.centres))
        ),
        participants=study.participants,
        masks=study.masks,
        local_centroids=grouped.gathered.centroids,
        local_clusters=local_clusters(study, grouped.gathered, grouped.groups, grouped.margins),
        aggregation=grouped.aggregation,
        clarity=grouped.gathered.clarity,
        coverage=grouped.gathered.coverage,
        sizes=sizes_of(labelled, study.participants, len(winner.centres), run.coverage),
        rounds=run.rounds,
        converged=run.converged,
        merge_tree=None if run.number is None else run.number.tree,
        silhouettes={} if run.number is None else run.number.choice.silhouettes,
        found=None if run.number is None else run.number.choice.found,
        leaves=() if run.number is None else run.number.leaves,
        strain=run.strain,
    )


def _merge_refinements(study: Study, refined: Mapping[str, Refined], n_clusters: int) -> MaskedCentroids:
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


def _sent(candidate: Candidate, study: Study, name: str, *, crosswise: bool = False) -> Centres:
    """The global centroids over one participant's features; crosswise, without its own part in them."""
    index, extent = study.index(name), candidate.grouped.extent
    centres = _columns(candidate.centres, index)
    if crosswise and candidate.merged is not None:
        own = MaskedCentroids.of(candidate.last[name].values, candidate.last[name].counts)
        centres = without_own(_columns(candidate.merged, index), own, centres)
    return Centres(values=centres.values, known=centres.seen, low=extent.low[index], high=extent.high[index])


def _columns(centroids: MaskedCentroids, index: IntArray) -> MaskedCentroids:
    return MaskedCentroids(centroids.values[:, index], centroids.counts[:, index])
