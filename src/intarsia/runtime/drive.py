"""The seam: a runtime carries requests to participants and brings the replies back. It knows nothing of clustering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, overload

from intarsia import exceptions
from intarsia.coordinator.base import Algorithm, Step
from intarsia.exceptions import (
    DisjointFeaturesError,
    FederationError,
    InputError,
    IntarsiaError,
    LocalAlgorithmError,
    ModelFileError,
    TranscriptError,
    about,
    quote,
)
from intarsia.protocol import Failure, Reply, Request, tag_of
from intarsia.results.outcome import Outcome, RoundInfo
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
        """Send every request to its participant, tell of every reply, and wait for all, or for as many as will do."""


class Watcher(Protocol):
    """Whoever wants to know how a run goes. It is told, and cannot change anything."""

    def asking(self, phase: str, requests: Mapping[str, Request], last: RoundInfo | None) -> None:
        """These participants are asked this now; ``last`` is the round before, if there was one."""

    def answered(self, phase: str, name: str, reply: Reply, seconds: float) -> None:
        """One participant has answered."""


_NOT_A_PARTICIPANTS = (FederationError, TranscriptError, ModelFileError)


class AbsentError(FederationError):
    """Somebody stayed away, and without them it does not go on; ``absent`` says who."""

    def __init__(self, message: str, absent: Sequence[str]) -> None:
        super().__init__(message)
        self.absent = tuple(absent)


@overload
def drive(algorithm: Algorithm, runtime: Runtime, watcher: Watcher | None = None) -> Outcome: ...


@overload
def drive(
    algorithm: Algorithm,
    runtime: RuntimeThatTells,
    watcher: Watcher | None = None,
    transcript: Transcript | None = None,
    quorum: int | None = None,
) -> Outcome: ...


def drive(
    algorithm: Algorithm,
    runtime: Any,
    watcher: Watcher | None = None,
    transcript: Transcript | None = None,
    quorum: int | None = None,
) -> Outcome:
    """Ask what the algorithm wants to ask, until it has a result. This is the whole coordinator.

    With a ``transcript``, what was answered before is not asked again, and every answer is written down as it comes. With a
    ``quorum``, so many answers are enough; whoever stays away, fails or sends what cannot be used is left out of that
    exchange and asked again in the next.

    Raises
    ------
    AbsentError
        Fewer answered than the quorum, or those who did cannot go on without the others.
    """
    step, n, remarks = algorithm.start(runtime.participants()), 0, dict[str, None]()
    while step.result is None:
        if watcher is not None:
            watcher.asking(phase_of(next(iter(step.requests.values()))), step.requests, step.last)
        if transcript is None:
            taken = _advanced(algorithm, step, runtime.exchange(step.requests), quorum)
        else:
            taken = _resumed(transcript, n, runtime, watcher, algorithm, step, quorum)
        remarks |= dict.fromkeys(taken.refused.values())
        step, n = taken.step, n + 1
    return replace(step.result, remarks=(*step.result.remarks, *remarks)) if remarks else step.result


class _Taken(NamedTuple):
    """The next step, whose replies led to it, and why others' were refused."""

    step: Step
    names: tuple[str, ...]
    refused: Mapping[str, str]


def _advanced(algorithm: Algorithm, step: Step, replies: Mapping[str, Reply | None], quorum: int | None) -> _Taken:
    """Take what can be used, if it is enough."""
    requests = step.requests
    good = {name: reply for name, reply in replies.items() if reply is not None and not isinstance(reply, Failure)}
    refused = {name: _failed(name, reply) for name, reply in replies.items() if isinstance(reply, Failure)}
    while True:
        absent = [name for name in requests if name not in good]
        if not _is_enough(step, good, quorum):
            silent = [name for name in absent if name not in refused]
            if refused and (quorum is None or not silent):
                raise next(iter(refused.values()))
            raise AbsentError(
                f"{len(absent)} of {len(requests)} participant(s) did not answer: {quote(absent)}.", absent
            )
        try:
            following = algorithm.advance(step.state, good)
        except IntarsiaError as error:
            silent = [name for name in absent if name not in refused]
            connects = isinstance(error, DisjointFeaturesError) and bool(silent)  # whoever is away may be the link
            if error.participant in good and not connects:
                refused[error.participant] = error
                del good[error.participant]
            elif absent:
                text = f"{quote(absent)} did not answer, and the others cannot go on alone: {error}"
                raise AbsentError(text, absent) from error
            else:
                raise
        else:
            reasons = {name: f"{name!r} was left out of an exchange: {error}" for name, error in refused.items()}
            return _Taken(following, tuple(good), reasons)


def _failed(name: str, failure: Failure) -> IntarsiaError:
    """A failure, with the name of whose it is, whatever it says."""
    text = failure.message if repr(name) in failure.message else f"participant {name!r}: {failure.message}"
    return about(name, exception_of(Failure(error=failure.error, message=text)))


def _is_enough(step: Step, good: Mapping[str, Reply], quorum: int | None) -> bool:
    """Whether the quorum answered what is asked now; what latecomers are asked does not count."""
    if quorum is None:
        return all(name in good for name in step.requests)
    if step.optional:
        return True
    now = phase_of(next(iter(step.requests.values())))
    asked = [name for name, request in step.requests.items() if phase_of(request) == now]
    return sum(name in good for name in asked) >= min(quorum, len(asked))


def _resumed(
    transcript: Transcript,
    n: int,
    runtime: RuntimeThatTells,
    watcher: Watcher | None,
    algorithm: Algorithm,
    step: Step,
    quorum: int | None,
) -> _Taken:
    """An exchange that may have been begun before; how it is settled is written down."""
    requests, closed = step.requests, transcript.closed(n)
    if closed is not None:  # whom it went on without is not waited for once more
        there = _answers(transcript, n, runtime, watcher, requests, closed.names)
        if lost := [name for name in closed.names if name not in there]:
            raise AbsentError(f"what {quote(lost)} answered is damaged, and nobody answers again.", lost)
        return _Taken(algorithm.advance(step.state, there), closed.names, closed.refused)
    there = _answers(transcript, n, runtime, watcher, requests, tuple(requests))
    try:
        taken = _advanced(algorithm, step, there, quorum)
    except IntarsiaError as error:
        # asked again, they may do better; what does not fit together may be mended anywhere
        failed = isinstance(there.get(str(error.participant)), Failure)
        for name in requests if isinstance(error, InputError) and not failed else [error.participant]:
            if name is not None and name in requests:
                transcript.forget(n, requests, name)
        raise
    for name in taken.refused:
        transcript.forget(n, requests, name)
    if set(taken.names) != set(requests):
        transcript.close_exchange(n, taken.names, taken.refused)
    return taken


def _answers(
    transcript: Transcript,
    n: int,
    runtime: RuntimeThatTells,
    watcher: Watcher | None,
    requests: Mapping[str, Request],
    wanted: Sequence[str],
) -> dict[str, Reply]:
    """The replies that are there, and those that were still to come, in the order of the requests."""
    there: dict[str, Reply] = {}
    for name, answered in transcript.opened(n, requests).items():
        if name in wanted:
            there[name] = answered.reply
            if watcher is not None:
                watcher.answered(phase_of(requests[name]), name, answered.reply, answered.seconds)
    if missing := {name: requests[name] for name in wanted if name not in there}:

        def arrived(name: str, reply: Reply, seconds: float) -> None:
            transcript.keep(n, requests, name, reply, seconds)

        there |= runtime.exchange(missing, arrived)
    return {name: there[name] for name in requests if name in there}


def phase_of(request: Request) -> str:
    """The last part of a request's tag: describe, summarize, refine, label or assign."""
    return tag_of(request).rpartition(".")[2]


def exception_of(failure: Failure) -> IntarsiaError:
    """The exception that a participant's failure stands for.

    One that we do not know, or that is not a participant's to raise, becomes a LocalAlgorithmError.
    """
    kind = getattr(exceptions, failure.error, None)
    known = isinstance(kind, type) and issubclass(kind, IntarsiaError) and not issubclass(kind, _NOT_A_PARTICIPANTS)
    return (kind if known else LocalAlgorithmError)(failure.message)  # type: ignore[misc]
