"""The states of Algorithm 1, and what it knows while rounds run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from intarsia.coordinator.candidates import Candidate
from intarsia.coordinator.members import Members
from intarsia.coordinator.roll import Roll
from intarsia.core.grouping.agglomeration import MergeTree
from intarsia.core.grouping.n_clusters import Choice
from intarsia.protocol import Labelled
from intarsia.results.outcome import LocalCluster, Outcome, RoundInfo


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


@dataclass(frozen=True)
class AskedLabels:
    """All participants were asked to label their rows."""

    run: Run


@dataclass(frozen=True)
class AskedLikeliest:
    """All participants were asked to label their rows once more, by the most likely Gaussian."""

    run: Run
    outcome: Outcome


State = AskedFeatures | AskedNumber | AskedSummaries | AskedRefinement | AskedLabels | AskedLikeliest
