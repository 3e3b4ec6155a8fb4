"""The seam: a runtime carries requests to participants and brings the replies back. It knows nothing of clustering."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, overload

from intarsia import exceptions
from intarsia.algorithms.base import Algorithm
from intarsia.exceptions import IntarsiaError, LocalAlgorithmError
from intarsia.messages import Failure, Reply, Request
from intarsia.releases import tag_of
from intarsia.results import Outcome, RoundInfo
from intarsia.runtime.transcript import Transcript


class Runtime(Protocol):
    """How requests travel."""

    def participants(self) -> tuple[str, ...]:
        """Who can be asked."""

    def exchange(self, requests: Mapping[str, Request]) -> dict[str, Reply]:
        """Send every request to its participant and wait for the replies."""


class Arrived(Protocol):
    """Told of every reply at once, while others are still awaited."""

    def __call__(self, name: str, reply: Reply, seconds: float) -> None:
        """One participant has answered."""


class RuntimeThatTells(Runtime, Protocol):
    """A runtime that hands over each reply as it comes: what a transcript needs."""

    def exchange(self, requests: Mapping[str, Request], arrived: Arrived | None = None) -> dict[str, Reply]:
        """Send every request to its participant, tell of every reply, and wait for all of them."""


class Watcher(Protocol):
    """Whoever wants to know how a run goes. It is told, and cannot change anything."""

    def asking(self, phase: str, requests: Mapping[str, Request], last: RoundInfo | None) -> None:
        """These participants are asked this now; ``last`` is the round before, if there was one."""

    def answered(self, phase: str, name: str, reply: Reply, seconds: float) -> None:
        """One participant has answered."""


@overload
def drive(algorithm: Algorithm, runtime: Runtime, watcher: Watcher | None = None) -> Outcome: ...


@overload
def drive(
    algorithm: Algorithm,
    runtime: RuntimeThatTells,
    watcher: Watcher | None = None,
    transcript: Transcript | None = None,
) -> Outcome: ...


def drive(
    algorithm: Algorithm, runtime: Any, watcher: Watcher | None = None, transcript: Transcript | None = None
) -> Outcome:
    """Ask what the algorithm wants to ask, until it has a result. This is the whole coordinator.

    With a ``transcript``, what was answered before is not asked again, and every answer is written down as it comes.
    """
    step, n = algorithm.start(runtime.participants()), 0
    while step.result is None:
        if watcher is not None:
            phase = phase_of(next(iter(step.requests.values())))
            watcher.asking(phase, step.requests, step.last)
        if transcript is None:
            replies = runtime.exchange(step.requests)
        else:
            replies = _resumed(transcript, n, runtime, step.requests, watcher)
        for reply in replies.values():
            if isinstance(reply, Failure):
                raise exception_of(reply)
        step, n = algorithm.advance(step.state, replies), n + 1
    return step.result


def _resumed(
    transcript: Transcript, n: int, runtime: RuntimeThatTells, requests: Mapping[str, Request], watcher: Watcher | None
) -> dict[str, Reply]:
    """The replies of an exchange: those that are there, and those that were still to come."""
    before = transcript.opened(n, requests)
    for name, answered in before.items():
        if watcher is not None:
            watcher.answered(phase_of(requests[name]), name, answered.reply, answered.seconds)
    missing = {name: request for name, request in requests.items() if name not in before}
    came: dict[str, Reply] = {}
    if missing:

        def arrived(name: str, reply: Reply, seconds: float) -> None:
            transcript.keep(n, requests, name, reply, seconds)

        came = runtime.exchange(missing, arrived)
    there = {name: answered.reply for name, answered in before.items()} | came
    return {name: there[name] for name in requests if name in there}


def phase_of(request: Request) -> str:
    """The last part of a request's tag: describe, summarize, refine, label or assign."""
    return tag_of(request).rpartition(".")[2]


def exception_of(failure: Failure) -> IntarsiaError:
    """The exception that a participant's failure stands for; one that we do not know becomes a LocalAlgorithmError."""
    kind = getattr(exceptions, failure.error, None)
    known = isinstance(kind, type) and issubclass(kind, IntarsiaError)
    return (kind if known else LocalAlgorithmError)(failure.message)  # type: ignore[misc]
