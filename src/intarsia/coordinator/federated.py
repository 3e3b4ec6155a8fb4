"""Algorithm 1: federated K-clustering of masked data.

describe → (common units) → summarize → group the local centroids → refine, again and again → label
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from intarsia.coordinator.base import (
    DEVIATIONS,
    EXPONENT,
    MAX_LOCAL_CLUSTERS,
    SOFTENING,
    STRONGEST,
    Gathered,
    Roll,
    Step,
    Study,
    check_comparable,
    check_comparable_centroids,
    check_connected,
    gather,
    global_model,
    local_clusters,
    make_study,
    spread_of,
    starts_stream,
    summaries_of,
    unpacked_densities,
)
from intarsia.coordinator.gather import (
    check_senders,
    checked,
    replies_of,
    sizes_of,
)
from intarsia.coordinator.outlying import stretched
from intarsia.core.alignment import blend, movement, without_own
from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.densities.exact_force import exact_forces
from intarsia.core.densities.force import extent_of_densities
from intarsia.core.distances import Extent, Metric
from intarsia.core.grouping.agglomeration import MergeTree, agglomerate
from intarsia.core.grouping.aggregations import AGGREGATIONS
from intarsia.core.grouping.local_centroids import LocalCentroids, by_size
from intarsia.core.grouping.margins import margins
from intarsia.core.grouping.n_clusters import Choice, choose_n_clusters
from intarsia.core.grouping.objective import CentroidObjective
from intarsia.core.grouping.options import SearchOptions
from intarsia.core.types import IntArray
from intarsia.exceptions import IntarsiaError, ProtocolError, about
from intarsia.protocol import (
    MOST_SETS,
    Centres,
    Describe,
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
from intarsia.results.outcome import Aggregation, Coverage, LocalCluster, Outcome, RoundInfo

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

    roll: Roll


class Number(NamedTuple):
    """K, how it was chosen, and the tree of local clusters that it was chosen from."""

    choice: Choice
    tree: MergeTree
    leaves: tuple[LocalCluster, ...]


@dataclass(frozen=True)
class AskedNumber:
    """Everybody was asked how many clusters they see."""

    study: Study
    roll: Roll


@dataclass(frozen=True)
class AskedSummaries:
    """Everybody was asked for local clusters; ``number`` says how K was chosen, where it was."""

    study: Study
    roll: Roll
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
    """The federated phase: the groupings still in question, the likeliest first, and the rounds so far.

    ``study`` has those who take part now; whoever comes late stands at the end. ``labelled`` are rows that have their label.
    """

    study: Study
    roll: Roll
    candidates: tuple[Candidate, ...]
    rounds: tuple[RoundInfo, ...] = ()
    converged: bool = False
    number: Number | None = None
    labelled: Mapping[str, Labelled] = field(default_factory=dict)
    strain: Mapping[str, float] = field(default_factory=dict)

    @property
    def n_rows(self) -> dict[str, int]:
        """How many rows everybody said to have."""
        return {name: said.n_rows for name, said in self.roll.described.items()}

    @property
    def answered(self) -> set[str]:
        """Whose rows the centroids were moved by in the last round."""
        return set(self.candidates[0].last)


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
    n_jobs: int = 1

    def start(self, participants: Sequence[str]) -> Step:
        """Ask everybody which features they have."""
        roll = Roll.of(participants)
        return Step(AskedFeatures(roll), self._describe(roll))

    def advance(self, state: State, replies: Mapping[str, Reply]) -> Step:
        """Take the replies to the last question and ask the next. Whoever has not described itself yet is asked that."""
        match state:
            case AskedFeatures(roll):
                check_senders(replies, roll.silent)
                return self._described(roll.heard(replies))
            case AskedNumber(study, roll):
                check_senders(replies, (*study.participants, *roll.silent))
                summaries = replies_of(LocalSummary, replies, study.participants)
                return self._numbered(study, roll.heard(replies), summaries)
            case AskedSummaries(study, roll, number):
                check_senders(replies, (*study.participants, *roll.silent))
                summaries = replies_of(LocalSummary, replies, study.participants)
                return self._knowing(number)._summarized(study, roll.heard(replies), summaries, number)  # noqa: SLF001  (itself, but knowing K)
            case AskedRefinement(run):
                check_senders(replies, (*run.study.participants, *run.roll.silent))
                refined = replies_of(Refinement, replies, run.study.participants)
                run = replace(run, roll=run.roll.heard(replies))
                return self._knowing(run.number)._refined(run, refined)  # noqa: SLF001
            case AskedLabels(run):
                check_senders(replies, (*run.study.participants, *run.roll.silent), optional=bool(run.labelled))
                labelled = {**run.labelled, **replies_of(Labelled, replies, run.study.participants)}
                return self._labelled(replace(run, labelled=labelled, roll=run.roll.heard(replies)))
            case AskedLikeliest(run, outcome):
                check_senders(replies, run.study.participants)
                labelled = replies_of(Labelled, replies, run.study.participants)
                sizes = sizes_of(labelled, run.study.participants, len(outcome.model.centroids), run.n_rows)
                missed = {name: own for name, own in outcome.sizes.items() if name not in labelled}  # these labels stay
                return Step(result=replace(outcome, sizes=sizes | missed))

    def _describe(self, roll: Roll) -> dict[str, Request]:
        return dict.fromkeys(roll.silent, Describe(scale=self.scale))

    def _described(self, roll: Roll) -> Step:
        study = self._study(roll)
        state = AskedNumber(study, roll) if self.n_clusters is None else AskedSummaries(study, roll)
        return Step(state, {name: self._summarize(study, name) for name in study.participants} | self._describe(roll))

    def _study(self, roll: Roll) -> Study:
        return make_study({name: roll.has(name) for name in roll.described}, self.scale)

    @property
    def _k(self) -> int:
        assert self.n_clusters is not None
        return self.n_clusters

    def _knowing(self, number: Number | None) -> FederatedAlgorithm:
        return self if number is None else replace(self, n_clusters=number.choice.n_clusters)

    def _numbered(self, study: Study, roll: Roll, summaries: Mapping[str, LocalSummary]) -> Step:
        """Choose K from what everybody sees, and ask for that many clusters, also those who come only now."""
        everybody, roll = self._with_new(study, roll)
        study = self._present(study, summaries)
        gathered = self._gathered(study, summaries)
        for name, summary in summaries.items():
            checked(name, summary.check_densities, "gaussian_diagonal")
        densities = unpacked_densities(study, gathered, summaries, original_units=False)
        seen = gathered.centroids.seen
        extent = extent_of_densities(densities, seen, DEVIATIONS)
        forces = np.minimum(exact_forces(densities, seen, extent, EXPONENT, SOFTENING), STRONGEST)
        check_comparable(study, gathered.owner, ~np.isnan(forces))
        tree = agglomerate(forces)
        choice = choose_n_clusters(summaries_of(study, gathered, densities), forces, extent, tree)
        groups = tree.cut(max(choice.n_clusters, tree.fewest_groups))
        number = Number(choice, tree, local_clusters(study, gathered, groups, [float("nan")] * len(groups)))
        knowing = self._knowing(number)
        requests = {name: knowing._summarize(everybody, name) for name in everybody.participants}  # noqa: SLF001
        return Step(AskedSummaries(everybody, roll, number), requests | self._describe(roll))

    def _with_new(self, study: Study, roll: Roll) -> tuple[Study, Roll]:
        """The study anew with those who came meanwhile; one that does not fit is left out."""
        if set(roll.described) == set(study.participants):
            return study, roll
        try:
            return self._study(roll), roll
        except IntarsiaError:
            return roll.joining(study)

    def _present(self, study: Study, replies: Mapping[str, Reply]) -> Study:
        """The study of those who answered, who must still hang together."""
        there = study.of(replies)
        if there is not study:
            check_connected({name: there.features[name] for name in there.participants})
        return there

    def _gathered(self, study: Study, summaries: Mapping[str, LocalSummary]) -> Gathered:
        for name, summary in summaries.items():
            if summary.features != study.features[name]:
                other = f"participant {name!r} summarised other features than it had described"
                raise about(name, ProtocolError(other))
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

    def _summarized(
        self, study: Study, roll: Roll, summaries: Mapping[str, LocalSummary], number: Number | None
    ) -> Step:
        study = self._present(study, summaries)
        gathered = self._gathered(study, summaries)
        candidates = tuple(
            Candidate(grouped, merge(gathered.centroids, grouped.groups, self._k))
            for grouped in self._group(study, gathered)
        )
        return self._next_round(Run(study, roll, candidates, number=number))

    def _group(self, study: Study, gathered: Gathered) -> list[Grouped]:
        """The best grouping, and others that the local centroids alone hardly tell from it."""
        local = LocalCentroids(gathered.centroids, gathered.owner, self.metric)
        local.check(self._k)
        check_comparable_centroids(study, local)
        problem = CentroidObjective(local, self._k)
        rivals: tuple[IntArray, ...] = ()
        starts = starts_stream(self.seed, "search centroids")
        method = AGGREGATIONS[self.aggregation].of_centroids
        assert method is not None
        found = method(local, self._k, SearchOptions(study.masks, self.n_starts, starts, self.n_jobs))
        # where everybody can be compared with everybody, there is no weak link that could turn the rest
        in_doubt = self.max_rounds > 1 and self.refinement != "plain" and not study.complete
        best = found.groups
        if in_doubt:
            # centroids that know fewer features fit rows more easily, and would win for that alone
            known = [merge(gathered.centroids, g, self._k).seen.sum() for g in (best, *found.rivals)]
            fair = (g for g, entries in zip(found.rivals, known[1:], strict=True) if entries >= known[0])
            rivals = tuple(islice(fair, self.n_rivals))
        aggregation = Aggregation(
            self.aggregation,
            found.loss,
            found.runner_up,
            found.confidence,
            found.n_different,
            n_compared=1 + len(rivals),
        )
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
        judged_by_others = self.refinement == "crosswise" or (self.refinement == "auto" and not run.study.complete)
        return "crosswise" if judged_by_others and 1 <= done < self.max_rounds - self._plain_rounds else "plain"

    def _next_round(self, run: Run) -> Step:
        """Ask for a refinement, or for labels when the rounds are over."""
        run = _with_newcomers(run)
        if run.converged or len(run.rounds) >= self.max_rounds:
            return self._ask_labels(run)
        study, crosswise = run.study, self._kind_of_next(run) != "plain"
        refinements: dict[str, Request] = {
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
        last = run.rounds[-1] if run.rounds else None
        return Step(AskedRefinement(run), refinements | self._describe(run.roll), last=last)

    def _ask_labels(self, run: Run) -> Step:
        """Ask for labels, whoever has not said yet how many rows are where."""
        study = run.study
        labels: dict[str, Request] = {
            name: Label(centres=_sent(run.candidates[0], study, name), columns=study.columns_for(name))
            for name in study.participants
            if name not in run.labelled
        }
        last = run.rounds[-1] if run.rounds else None
        return Step(AskedLabels(run), labels | self._describe(run.roll), last=last)

    def _labelled(self, run: Run) -> Step:
        """The result, or the labels of those who came while the others labelled theirs."""
        before = set(run.study.participants)
        run = _with_newcomers(run)
        if newcomers := [name for name in run.study.participants if name not in before]:
            # whoever did not label by now is not asked again
            late = self._ask_labels(run)
            return replace(late, requests={name: late.requests[name] for name in newcomers}, optional=True)
        outcome = _outcome(run, run.labelled, self.metric)
        return _ask_likeliest(run, outcome) if self.model == "mixture" else Step(result=outcome)

    def _refined(self, run: Run, replies: Mapping[str, Refinement]) -> Step:
        kind, number, n_rows = self._kind_of_next(run), len(run.rounds) + 1, run.n_rows
        for name, reply in replies.items():
            checked(name, reply.check_rows, n_rows[name])
            if len(reply.refined) != len(run.candidates):
                few = f"participant {name!r} answered {len(reply.refined)} of {len(run.candidates)} questions"
                raise about(name, ProtocolError(few))
        candidates = tuple(
            self._moved(run.study, candidate, {name: reply.refined[k] for name, reply in replies.items()})
            for k, candidate in enumerate(run.candidates)
        )
        k = min(range(len(candidates)), key=lambda k: candidates[k].misfit)  # the first of equals
        leader = candidates[k]
        moved = movement(run.candidates[k].centres, leader.centres, leader.grouped.extent)
        sizes = sum((reply.sizes for reply in leader.last.values()), np.zeros(self._k, dtype=np.intp))
        info = RoundInfo(number, moved, tuple(sizes.tolist()), leader.misfit, kind)
        # after a round that somebody missed, there is one more: it may come back with something to say
        as_before = set(replies) in ({*run.study.participants}, run.answered)
        if number >= min(TRIAL_ROUNDS, self.max_rounds):
            candidates = (leader,)
        strain = stretched(run.strain, run.study, leader.last, leader.grouped.gathered.centroids)
        run = replace(run, candidates=candidates, rounds=(*run.rounds, info), strain=strain)
        # a first round at rest says nothing about those that the others judge
        over = kind == self._kind_of_next(run) or kind == "crosswise"
        at_rest = moved <= self.tol and kind != "trial" and over and as_before
        return self._next_round(replace(run, converged=at_rest))

    def _moved(self, study: Study, candidate: Candidate, refined: Mapping[str, Refined]) -> Candidate:
        merged = _merge_refinements(study, refined, self._k)
        centres = blend(candidate.centres, merged, self.step_size)
        misfit = sum(reply.misfit for reply in refined.values())
        return replace(candidate, centres=centres, merged=merged, last=refined, misfit=misfit)


def _with_newcomers(run: Run) -> Run:
    """Everybody who has described itself takes part from now on, with all columns."""
    study, roll = run.roll.joining(run.study)
    if study is run.study:
        return replace(run, roll=roll)
    d = len(study.space)
    candidates = []
    for candidate in run.candidates:
        gathered, extent = candidate.grouped.gathered, candidate.grouped.extent
        wide = (0, d - len(extent.low))
        # nothing is known of how far new columns reach, so they do not decide who belongs where
        grouped = candidate.grouped._replace(
            gathered=replace(gathered, centroids=gathered.centroids.wider(d)),
            extent=Extent(np.pad(extent.low, wide), np.pad(extent.high, wide)),
        )
        merged = None if candidate.merged is None else candidate.merged.wider(d)
        candidates.append(replace(candidate, grouped=grouped, centres=candidate.centres.wider(d), merged=merged))
    return replace(run, study=study, roll=roll, candidates=tuple(candidates), converged=False)


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
        coverage=_coverage(run, labelled),
        remarks=run.roll.remarks,
        sizes=sizes_of(labelled, study.participants, len(winner.centres), run.n_rows),
        rounds=run.rounds,
        converged=run.converged,
        merge_tree=None if run.number is None else run.number.tree,
        silhouettes={} if run.number is None else run.number.choice.silhouettes,
        found=None if run.number is None else run.number.choice.found,
        leaves=() if run.number is None else run.number.leaves,
        strain=run.strain,
    )


def _coverage(run: Run, labelled: Mapping[str, Labelled]) -> Coverage:
    """Who has what; those who came late said it when they labelled their rows."""
    study, early = run.study, run.candidates[0].grouped.gathered.coverage
    rows = np.zeros(len(study.participants), dtype=np.intp)
    filled = np.zeros((len(study.participants), len(study.space)), dtype=np.intp)
    rows[: len(early.rows)] = early.rows
    filled[: len(early.rows), : early.filled.shape[1]] = early.filled
    for i, name in enumerate(study.participants[len(early.rows) :], len(early.rows)):
        rows[i] = run.roll.described[name].n_rows
        if name in labelled and (counts := labelled[name].counts) is not None:
            filled[i, study.index(name)] = np.minimum(counts.sum(axis=0), rows[i]).astype(np.intp)
    return Coverage(rows, filled)


def _merge_refinements(study: Study, refined: Mapping[str, Refined], n_clusters: int) -> MaskedCentroids:
    """merge( { c_i^a, all i } ) for every a: the new centroids, before α."""
    stacked_values, stacked_counts = [], []
    for name, reply in refined.items():
        index = study.index(name)
        checked(name, reply.check_shape, (n_clusters, len(index)))
        values, counts = np.zeros((n_clusters, len(study.space))), np.zeros((n_clusters, len(study.space)))
        values[:, index], counts[:, index] = reply.values, reply.counts
        stacked_values.append(values)
        stacked_counts.append(counts)
    everyone = MaskedCentroids.of(np.concatenate(stacked_values), np.concatenate(stacked_counts))
    return merge(everyone, np.tile(np.arange(n_clusters), len(refined)), n_clusters)


def _sent(candidate: Candidate, study: Study, name: str, *, crosswise: bool = False) -> Centres:
    """The global centroids over one participant's features; crosswise, without its own part in them."""
    index, extent = study.index(name), candidate.grouped.extent
    centres = _columns(candidate.centres, index)
    if crosswise and candidate.merged is not None and name in candidate.last:
        own = MaskedCentroids.of(candidate.last[name].values, candidate.last[name].counts)
        centres = without_own(_columns(candidate.merged, index), own, centres)
    return Centres(values=centres.values, known=centres.seen, low=extent.low[index], high=extent.high[index])


def _columns(centroids: MaskedCentroids, index: IntArray) -> MaskedCentroids:
    return MaskedCentroids(centroids.values[:, index], centroids.counts[:, index])
