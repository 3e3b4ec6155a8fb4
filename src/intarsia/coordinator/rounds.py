"""The rounds of Algorithm 1: who judges whom, how centroids move, and when they rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from intarsia.coordinator.candidates import Candidate
from intarsia.coordinator.gather import checked
from intarsia.coordinator.members import Members
from intarsia.coordinator.outlying import updated_outlyingness
from intarsia.coordinator.roll import Roll
from intarsia.coordinator.settings import TRIAL_ROUNDS, FederatedSettings
from intarsia.core.alignment import movement
from intarsia.core.grouping.agglomeration import MergeTree
from intarsia.core.grouping.n_clusters import Choice
from intarsia.exceptions import ProtocolError, about
from intarsia.protocol import Labelled, Refine, Refinement, Request
from intarsia.results.outcome import LocalCluster, RoundInfo

PLAIN_SHARE = 4  # where crosswise rounds do not converge, the last one in so many rounds is plain


class ChosenNumber(NamedTuple):
    """K, how it was chosen, and the tree of local clusters that it was chosen from."""

    choice: Choice
    tree: MergeTree
    leaves: tuple[LocalCluster, ...]


@dataclass(frozen=True)
class Run:
    """The federated phase: the groupings still compared, the best first, and the rounds so far.

    ``members`` are the current participants; latecomers are at the end. ``labelled`` are replies to the last request.
    ``outlyingness`` is how far outside the others' centroids those of each participant were in any round.
    """

    members: Members
    roll: Roll
    candidates: tuple[Candidate, ...]
    rounds: tuple[RoundInfo, ...] = ()
    converged: bool = False
    number: ChosenNumber | None = None
    labelled: Mapping[str, Labelled] = field(default_factory=dict)
    outlyingness: Mapping[str, float] = field(default_factory=dict)

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
    members, crosswise = run.members, kind_of_next(settings, run) != "plain"
    return {
        name: Refine(
            seed=settings.seed,
            round=len(run.rounds) + 1,
            rivals=tuple(candidate.centres_for(members, name, crosswise=crosswise) for candidate in run.candidates),
            min_points=settings.min_points,
            max_iter=settings.local_iterations,
            columns=members.columns_for(name),
            crosswise=crosswise,
        )
        for name in members.participants
    }


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


def refined(settings: FederatedSettings, run: Run, replies: Mapping[str, Refinement]) -> Run:
    """Return the run after a round."""
    kind, number = kind_of_next(settings, run), len(run.rounds) + 1
    candidates = _moved_candidates(settings, run, replies)
    k = min(range(len(candidates)), key=lambda k: candidates[k].misfit)  # the first of equals
    leader = candidates[k]
    moved = movement(run.candidates[k].centres, leader.centres, leader.extent)
    sizes = sum((reply.sizes for reply in leader.last.values()), np.zeros(settings.k, dtype=np.intp))
    info = RoundInfo(number, moved, tuple(sizes.tolist()), leader.misfit, kind)
    # a participant that missed a round may change the centroids when it returns, so there is one more round
    same_participants = set(replies) in ({*run.members.participants}, run.answered)
    if number >= min(TRIAL_ROUNDS, settings.max_rounds):
        candidates = (leader,)
    outlyingness = updated_outlyingness(run.outlyingness, run.members, leader.last, leader.clusters.centroids)
    run = replace(run, candidates=candidates, rounds=(*run.rounds, info), outlyingness=outlyingness)
    # centroids that rest in a first, plain round may move in a crosswise one
    kind_is_last = kind == kind_of_next(settings, run) or kind == "crosswise"
    converged = moved <= settings.tol and kind != "trial" and kind_is_last and same_participants
    return replace(run, converged=converged)


def _moved_candidates(
    settings: FederatedSettings, run: Run, replies: Mapping[str, Refinement]
) -> tuple[Candidate, ...]:
    """Return all candidates, moved by the replies of a round."""
    n_rows = run.roll.n_rows
    for name, reply in replies.items():
        checked(name, reply.check_rows, n_rows[name])
        if len(reply.refined) != len(run.candidates):
            wrong = (
                f"participant {name!r} refined {len(reply.refined)} sets of centroids instead of {len(run.candidates)}"
            )
            raise about(name, ProtocolError(wrong))
    return tuple(
        candidate.moved(settings, run.members, {name: reply.refined[k] for name, reply in replies.items()})
        for k, candidate in enumerate(run.candidates)
    )
