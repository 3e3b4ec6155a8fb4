"""The rounds of Algorithm 1: who judges whom, how centroids move, and when they rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from intarsia.coordinator.candidates import Candidate
from intarsia.coordinator.consistency import (
    Totals,
    amounts_of_round,
    doubts_about_summaries,
    largest,
    typical_deviations,
)
from intarsia.coordinator.continuing import Plan
from intarsia.coordinator.gather import checked
from intarsia.coordinator.members import Members
from intarsia.coordinator.outlying import influence, updated_outlyingness
from intarsia.coordinator.roll import Roll
from intarsia.coordinator.settings import TRIAL_ROUNDS, FederatedSettings
from intarsia.core.alignment import movement
from intarsia.core.grouping.agglomeration import MergeTree
from intarsia.core.grouping.n_clusters import Choice
from intarsia.exceptions import ProtocolError, about
from intarsia.protocol import Centres, Labelled, Refine, Refined, Refinement, Request
from intarsia.results.choices import ConsideredNumber
from intarsia.results.doubts import contradictory
from intarsia.results.outcome import LocalCluster, RoundInfo

PLAIN_SHARE = 4  # where crosswise rounds do not converge, the last one in so many rounds is plain


class ChosenNumber(NamedTuple):
    """K, how it was chosen, the tree of local clusters that it was chosen from, and all numbers that were considered."""

    choice: Choice
    tree: MergeTree
    leaves: tuple[LocalCluster, ...]
    choices: tuple[ConsideredNumber, ...] = ()


@dataclass(frozen=True)
class Run:
    """The federated phase: the groupings still compared, the best first, and the rounds so far.

    ``members`` are the current participants; latecomers are at the end. ``labelled`` are replies to the last request.
    ``outlyingness`` is how far outside the others' centroids those of each participant were in any round, ``doubts`` by how
    much its replies contradict each other (see :mod:`intarsia.coordinator.consistency`). ``plan`` is what a run makes of the
    previous model that it starts from.
    """

    members: Members
    roll: Roll
    candidates: tuple[Candidate, ...]
    rounds: tuple[RoundInfo, ...] = ()
    converged: bool = False
    number: ChosenNumber | None = None
    labelled: Mapping[str, Labelled] = field(default_factory=dict)
    outlyingness: Mapping[str, float] = field(default_factory=dict)
    doubts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    plan: Plan | None = None

    def weights(self, settings: FederatedSettings) -> dict[str, float]:
        """Return what a row of each participant counts."""
        n_rows = self.roll.n_rows
        return settings.row_weights({name: n_rows[name] for name in self.members.participants})

    @property
    def answered(self) -> set[str]:
        """The participants that answered in the last round."""
        return set(self.candidates[0].last)

    @property
    def last_round(self) -> RoundInfo | None:
        """The last round, if there was one."""
        return self.rounds[-1] if self.rounds else None

    def with_latecomers(self) -> Run:
        """Return the run with all participants that have described themselves, and their columns."""
        members, roll = self.roll.with_latecomers(self.members)
        if members is self.members:
            return replace(self, roll=roll)
        candidates = tuple(candidate.widened(len(members.space)) for candidate in self.candidates)
        return replace(self, members=members, roll=roll, candidates=candidates, converged=False)

    def ended(self, settings: FederatedSettings) -> bool:
        """Whether there are no more rounds."""
        return self.converged or len(self.rounds) >= settings.max_rounds


def refine_requests(settings: FederatedSettings, run: Run) -> dict[str, Request]:
    """Return the request for a refinement to every participant."""
    members, crosswise = run.members, is_crosswise(settings, run)
    return {
        name: Refine(
            seed=settings.seed,
            round=len(run.rounds) + 1,
            rivals=_sent(run, name, crosswise=crosswise),
            min_points=settings.min_points,
            max_iter=settings.local_iterations,
            columns=members.columns_for(name),
            crosswise=crosswise,
        )
        for name in members.participants
    }


def _sent(run: Run, name: str, *, crosswise: bool) -> tuple[Centres, ...]:
    return tuple(candidate.centres_for(run.members, name, crosswise=crosswise) for candidate in run.candidates)


def kind_of_next(settings: FederatedSettings, run: Run) -> str:
    """Return the kind of the next round: trials first, then crosswise ones until these rest, then plain ones (as printed).

    In a crosswise round a participant gets the centroids without its own part in them.
    """
    done = len(run.rounds)
    if len(run.candidates) > 1:
        return "trial"
    crosswise = settings.refinement == "crosswise" or (settings.refinement == "auto" and not run.members.complete)
    n_plain = settings.max_rounds // PLAIN_SHARE
    return "crosswise" if crosswise and 1 <= done < settings.max_rounds - n_plain else "plain"


def is_crosswise(settings: FederatedSettings, run: Run) -> bool:
    """Whether each participant gets the centroids of the next round without its own part in them."""
    kind = kind_of_next(settings, run)
    return kind == "crosswise" or (kind == "trial" and not run.members.complete)


def refined(settings: FederatedSettings, run: Run, replies: Mapping[str, Refinement]) -> Run:
    """Return the run after a round."""
    kind, number = kind_of_next(settings, run), len(run.rounds) + 1
    _check(run, replies)
    totals = {name: _totals(run, name) for name in replies}
    doubts = _contradictions(settings, run, replies, totals)
    trusted = {name: reply for name, reply in replies.items() if not contradictory(doubts[name])} or replies
    candidates = _moved_candidates(settings, run, trusted if settings.is_robust else replies)
    k = best_of(candidates)
    leader = candidates[k]
    sizes = sum((reply.sizes for reply in leader.last.values()), np.zeros(settings.k, dtype=np.intp))
    moved = movement(run.candidates[k].centres, leader.centres, leader.extent)
    parts = {name: reply.refined[k] for name, reply in replies.items()}
    outlyingness = updated_outlyingness(run.outlyingness, run.members, parts, leader.clusters.centroids)
    doubts |= _influences(run, {name: leader.last[name] for name in trusted}, totals, doubts)
    same_participants = set(replies) in ({*run.members.participants}, run.answered)
    info = RoundInfo(number, moved, tuple(sizes.tolist()), leader.misfit, kind)
    run = replace(run, outlyingness=outlyingness, doubts=doubts)
    return after_round(settings, run, candidates, info, same_participants=same_participants)


def best_of(candidates: Sequence[Candidate]) -> int:
    """Return which of the candidates fits the rows best, the first of equals."""
    return min(range(len(candidates)), key=lambda k: candidates[k].misfit)


def after_round(
    settings: FederatedSettings,
    run: Run,
    candidates: tuple[Candidate, ...],
    info: RoundInfo,
    *,
    same_participants: bool,
) -> Run:
    """Return the run with the moved candidates, of which the best is left when the trials are over.

    A participant that missed a round may change the centroids when it returns, so there is one more round then.
    """
    if info.number >= min(1 if run.members.complete else TRIAL_ROUNDS, settings.max_rounds):
        candidates = (candidates[best_of(candidates)],)
    run = replace(run, candidates=candidates, rounds=(*run.rounds, info))
    # centroids that rest in a first, plain round may move in a crosswise one
    kind_is_last = info.kind == kind_of_next(settings, run) or info.kind == "crosswise"
    converged = info.movement <= settings.tol and info.kind != "trial" and kind_is_last and same_participants
    return replace(run, converged=converged)


def _check(run: Run, replies: Mapping[str, Refinement]) -> None:
    """Raise a ProtocolError about a reply with other sets of centroids than were sent, or more rows than there are."""
    n_rows = run.roll.n_rows
    for name, reply in replies.items():
        checked(name, reply.check_rows, n_rows[name])
        if len(reply.refined) != len(run.candidates):
            wrong = (
                f"participant {name!r} refined {len(reply.refined)} sets of centroids instead of {len(run.candidates)}"
            )
            raise about(name, ProtocolError(wrong))
        shape = (len(run.candidates[0].centres), len(run.members.index(name)))
        for part in reply.refined:
            checked(name, part.check_shape, shape)


def _totals(run: Run, name: str) -> Totals:
    return Totals.of(run.members, name, run.roll.columns(name), run.candidates[0].clusters)


def _contradictions(
    settings: FederatedSettings, run: Run, replies: Mapping[str, Refinement], totals: Mapping[str, Totals]
) -> dict[str, Mapping[str, float]]:
    """Return by participant how much its replies contradict each other so far."""
    crosswise, doubts = is_crosswise(settings, run), dict(run.doubts)
    for name, reply in replies.items():
        sent = _sent(run, name, crosswise=crosswise)
        amounts = amounts_of_round(totals[name], sent, reply.refined, settings.metric)
        doubts[name] = largest([doubts.get(name, {}), amounts])
    return doubts


def _influences(
    run: Run, parts: Mapping[str, Refined], totals: Mapping[str, Totals], doubts: Mapping[str, Mapping[str, float]]
) -> dict[str, Mapping[str, float]]:
    """Return the doubts with how far each of the participants would move centroids that only these merge."""
    moves = influence(run.members, parts, typical_deviations(run.members, totals))
    return {name: largest([doubts[name], {"influence": move}]) for name, move in moves.items()}


def _moved_candidates(
    settings: FederatedSettings, run: Run, replies: Mapping[str, Refinement]
) -> tuple[Candidate, ...]:
    """Return all candidates, moved by the replies of a round; if robust, who is not trusted keeps to its local clusters."""
    instead = _summarized_well(run) - set(replies) if settings.is_robust else ()
    weights = run.weights(settings)
    moved = []
    for k, candidate in enumerate(run.candidates):
        parts = {name: reply.refined[k] for name, reply in replies.items()}
        parts |= {name: candidate.said_before(run.members, name) for name in sorted(instead)}
        moved.append(candidate.moved(settings, run.members, parts, weights))
    return tuple(moved)


def _summarized_well(run: Run) -> set[str]:
    """Return the participants whose local clusters do not contradict the moments of their columns."""
    clusters = run.candidates[0].clusters
    early = run.members.participants[: len(clusters.coverage.rows)]
    columns = {name: run.roll.columns(name) for name in early}
    doubts = doubts_about_summaries(run.members, columns, clusters)
    return {name for name in early if not contradictory(doubts[name])}
