"""The seam: a runtime carries requests to participants and brings the replies back. It knows nothing of clustering."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from intarsia import exceptions
from intarsia.algorithms.base import Algorithm
from intarsia.exceptions import IntarsiaError, LocalAlgorithmError
from intarsia.messages import Failure, Reply, Request
from intarsia.releases import tag_of
from intarsia.results import Outcome, RoundInfo


class Runtime(Protocol):
    """How requests travel."""

    def participants(self) -> tuple[str, ...]:
        """Who can be asked."""

    def exchange(self, requests: Mapping[str, Request]) -> dict[str, Reply]:
        """Send every request to its participant and wait for the replies."""


class Watcher(Protocol):
    """Whoever wants to know how a run goes. It is told, and cannot change anything."""

    def asking(self, phase: str, requests: Mapping[str, Request], last: RoundInfo | None) -> None:
        """These participants are asked this now; ``last`` is the round before, if there was one."""

    def answered(self, phase: str, name: str, reply: Reply, seconds: float) -> None:
        """One participant has answered."""


def drive(algorithm: Algorithm, runtime: Runtime, watcher: Watcher | None = None) -> Outcome:
    """Ask what the algorithm wants to ask, until it has a result. This is the whole coordinator."""
    step = algorithm.start(runtime.participants())
    while step.result is None:
        if watcher is not None:
            phase = phase_of(next(iter(step.requests.values())))
            watcher.asking(phase, step.requests, step.last)
        replies = runtime.exchange(step.requests)
        for reply in replies.values():
            if isinstance(reply, Failure):
                raise exception_of(reply)
        step = algorithm.advance(step.state, replies)
    return step.result


def phase_of(request: Request) -> str:
    """The last part of a request's tag: describe, summarize, refine, label or assign."""
    return tag_of(request).rpartition(".")[2]


def exception_of(failure: Failure) -> IntarsiaError:
    """The exception that a participant's failure stands for; one that we do not know becomes a LocalAlgorithmError."""
    kind = getattr(exceptions, failure.error, None)
    known = isinstance(kind, type) and issubclass(kind, IntarsiaError)
    return (kind if known else LocalAlgorithmError)(failure.message)  # type: ignore[misc]
