"""An algorithm is a state and two pure functions, ``start`` and ``advance``; the runtime sends the requests.

The states of Algorithm 1 (:mod:`~intarsia.coordinator.federated`), each with the requests that were sent. Participants that
have not described themselves yet are asked to in every state but the last::

    AskedFeatures ──▶ AskedSummaries ──▶ AskedRefinement ──▶ AskedLabels ──▶ result
    (Describe)   │    (Summarize)   ▲    (Refine)    ▲  │    (Label)    │   ▲
                 ▼                  │                └──┘ until the     ▼   │
              AskedNumber ──────────┘                     centroids   AskedLikeliest
              (Summarize, if K is to be chosen)           rest        (Label, if model="mixture")

The states of Algorithm 2 (:mod:`~intarsia.coordinator.one_shot`)::

    AskedSummaries ──▶ AskedLabels ──▶ result
    (Summarize)        (Label)    │    ▲
                                  ▼    │
                                  AskedLatecomers
                                  (Label, if a participant described itself only now)

With ``labels="local"`` the request of AskedLabels is Assign.
Newcomers to a finished model (:mod:`~intarsia.coordinator.join`) go through the states of Algorithm 1 without AskedNumber;
nobody else is asked.
In a study that repeats an earlier one, AskedBefore (LabelBefore) comes before AskedRefinement, and AskedMoves (CountMoves)
after the labels. In a study that measures stability, AskedStability (MeasureStability) comes before the result in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from intarsia.protocol import Reply, Request, StudyTerms
from intarsia.results.outcome import Outcome, RoundInfo


@dataclass(frozen=True)
class Step:
    """The state of a run with the next requests, or the result.

    ``last`` is the round before, for a watcher. If ``optional``, the run goes on even if no participant replies.
    """

    state: Any = None
    requests: Mapping[str, Request] = field(default_factory=dict)
    result: Outcome | None = None
    last: RoundInfo | None = None
    optional: bool = False


class Algorithm(Protocol):
    """Decides what to ask and what the replies mean."""

    def terms(self, name: str) -> StudyTerms:
        """Return which requests a participant can get; it refuses all others."""

    def start(self, participants: Sequence[str]) -> Step:
        """Return the first requests."""

    def advance(self, state: Any, replies: Mapping[str, Reply]) -> Step:
        """Return the next requests, or the result. Participants that did not reply in time are not in ``replies``."""
