"""The loop of the coordinator: it asks what an algorithm wants to ask until the algorithm has a result.

Only this loop calls the watcher, writes and reads the transcript, and decides whether enough participants answered.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from intarsia import exceptions
from intarsia.coordinator.contract import Algorithm, Step
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
from intarsia.protocol import Failure, Reply, Request, phase_of
from intarsia.results.outcome import Outcome
from intarsia.runtime.contract import AbsentError, Runtime, Watcher, check_unique
from intarsia.runtime.transcript import Transcript

_NOT_OF_PARTICIPANTS = (FederationError, TranscriptError, ModelFileError)


def drive(
    algorithm: Algorithm,
    runtime: Runtime,
    watcher: Watcher | None = None,
    transcript: Transcript | None = None,
    quorum: int | None = None,
) -> Outcome:
    """Run an algorithm over the participants of any runtime and return its outcome.

    The ``watcher`` is told of every request and every reply. Replies are written to the ``transcript`` when they arrive;
    what it contains already is not asked again. ``quorum`` replies are enough: participants that do not answer, fail or
    send an unusable reply are excluded from that exchange and asked again in the next. Without it all must answer.

    Raises
    ------
    AbsentError
        Fewer participants answered than the quorum, or those who did cannot continue without the others. If so many
        refused that the others could not reach the quorum, the first refusal is raised instead.
    """
    names = runtime.participants()
    check_unique(names)
    run = _Run(algorithm, runtime, watcher, transcript, quorum)
    step, n, remarks = algorithm.start(names), 0, dict[str, None]()
    while step.result is None:
        advanced = run.exchange(n, step)
        remarks |= dict.fromkeys(advanced.refused.values())
        step, n = advanced.step, n + 1
    return replace(step.result, remarks=(*step.result.remarks, *remarks)) if remarks else step.result


class _Advanced(NamedTuple):
    """The next step, the participants whose replies led to it, and why the replies of others were refused."""

    step: Step
    names: tuple[str, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True)
class _Run:
    """One run of an algorithm: the arguments of :func:`drive`."""

    algorithm: Algorithm
    runtime: Runtime
    watcher: Watcher | None
    transcript: Transcript | None
    quorum: int | None

    def exchange(self, n: int, step: Step) -> _Advanced:
        """Exchange what the step asks for and advance. In a transcript, also write how the exchange was settled."""
        requests = step.requests
        if self.watcher is not None:
            self.watcher.asking(_phase(step), requests, step.last)
        if self.transcript is None:
            return self.advance(step, self.replies(n, requests, tuple(requests)))
        closed = self.transcript.closed(n)
        if closed is not None:  # an earlier run went on without the others
            replies = self.replies(n, requests, closed.names)
            if lost := [name for name in closed.names if isinstance(replies.get(name), Failure | None)]:
                raise AbsentError(f"the kept replies of {quote(lost)} are damaged, and they do not answer again.", lost)
            return _Advanced(self.algorithm.advance(step.state, replies), closed.names, closed.refused)
        replies = self.replies(n, requests, tuple(requests))
        try:
            advanced = self.advance(step, replies)
        except IntarsiaError as error:
            # whoever resumes asks them again; columns that do not fit together may be mended by any participant
            failed = isinstance(replies.get(str(error.participant)), Failure)
            for name in requests if isinstance(error, InputError) and not failed else [error.participant]:
                if name is not None and name in requests:
                    self.transcript.forget(n, requests, name)
            raise
        for name in advanced.refused:
            self.transcript.forget(n, requests, name)
        if set(advanced.names) != set(requests):
            self.transcript.close_exchange(n, advanced.names, advanced.refused)
        return advanced

    def replies(self, n: int, requests: Mapping[str, Request], wanted: Sequence[str]) -> dict[str, Reply]:
        """Return the replies of the wanted participants, from the transcript or from the runtime."""
        replies: dict[str, Reply] = {}

        def tell(name: str, reply: Reply, seconds: float) -> None:
            if self.watcher is not None:
                self.watcher.answered(phase_of(requests[name]), name, reply, seconds)

        def on_reply(name: str, reply: Reply, seconds: float) -> None:
            if self.transcript is not None:
                self.transcript.keep(n, requests, name, reply, seconds)
            tell(name, reply, seconds)
            if self.transcript is None and self.quorum is None and isinstance(reply, Failure):
                raise self.error_of(name, reply)  # the other replies would be of no use

        for name, (reply, seconds) in ({} if self.transcript is None else self.transcript.opened(n, requests)).items():
            if name in wanted:
                replies[name] = reply
                tell(name, reply, seconds)
        if missing := {name: requests[name] for name in wanted if name not in replies}:
            replies |= self.runtime.exchange(missing, on_reply)
        return {name: replies[name] for name in requests if name in replies}

    def advance(self, step: Step, replies: Mapping[str, Reply]) -> _Advanced:
        """Advance with the usable replies, if they are enough. A reply that the algorithm refuses is not usable."""
        usable = {name: reply for name, reply in replies.items() if not isinstance(reply, Failure)}
        refused = {name: self.error_of(name, reply) for name, reply in replies.items() if isinstance(reply, Failure)}
        while True:
            silent = [name for name in step.requests if name not in usable and name not in refused]
            if not self.is_enough(step, usable):
                if refused and not (self.quorum is not None and silent and self.is_enough(step, {*usable, *silent})):
                    raise next(iter(refused.values()))  # no return of a silent one would help
                text = f"{len(silent)} of {len(step.requests)} participant(s) did not answer: {quote(silent)}."
                raise AbsentError(text + _in_words(refused), silent)
            try:
                following = self.algorithm.advance(step.state, usable)
            except IntarsiaError as error:
                linked = isinstance(error, DisjointFeaturesError) and bool(silent)  # an absent one may be the link
                if error.participant in usable and not linked:
                    refused[error.participant] = error
                    del usable[error.participant]
                elif silent:
                    text = f"{quote(silent)} did not answer, and the others cannot continue alone: {error}"
                    raise AbsentError(text + _in_words(refused), silent) from error
                elif refused:
                    raise next(iter(refused.values())) from error
                else:
                    raise
            else:
                reasons = {name: f"{name!r} was excluded from an exchange: {error}" for name, error in refused.items()}
                return _Advanced(following, tuple(usable), reasons)

    def is_enough(self, step: Step, usable: Container[str]) -> bool:
        """Whether the quorum answered what is asked now. What latecomers are asked does not count."""
        if self.quorum is None:
            return all(name in usable for name in step.requests)
        if step.optional:
            return True
        phase = _phase(step)
        asked = [name for name, request in step.requests.items() if phase_of(request) == phase]
        return sum(name in usable for name in asked) >= min(self.quorum, len(asked))

    def error_of(self, name: str, failure: Failure) -> IntarsiaError:
        """Return the exception for a participant's failure. It names the participant, and its cause is theirs."""
        text = failure.message if repr(name) in failure.message else f"participant {name!r}: {failure.message}"
        error = about(name, exception_of(Failure(error=failure.error, message=text)))
        error.__cause__ = self.runtime.cause_of(name)
        return error


def _in_words(refused: Mapping[str, IntarsiaError]) -> str:
    """Why participants that answered are not counted, as a sentence to append; empty if there are none."""
    reasons = " ".join(f"{str(error).rstrip('.')}." for error in refused.values())
    return f" {len(refused)} refused or failed: {reasons}" if refused else ""


def _phase(step: Step) -> str:
    """The phase of an exchange: that of its first request."""
    return phase_of(next(iter(step.requests.values())))


def exception_of(failure: Failure) -> IntarsiaError:
    """Return the exception that a participant's failure names.

    An unknown one, or one that a participant has no right to raise, becomes a LocalAlgorithmError.
    """
    kind = getattr(exceptions, failure.error, None)
    known = isinstance(kind, type) and issubclass(kind, IntarsiaError) and not issubclass(kind, _NOT_OF_PARTICIPANTS)
    return (kind if known else LocalAlgorithmError)(failure.message)  # type: ignore[misc]
