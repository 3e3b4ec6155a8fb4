"""The contract of a runtime: how requests reach participants and how replies come back.

A runtime knows nothing of clustering, of transcripts, of quorums or of watchers; :func:`~intarsia.runtime.drive.drive` does.
Every runtime follows these rules, and ``tests/runtime/test_conformance.py`` checks each rule for each runtime.

1. ``participants()`` returns the names of all participants, each name once and always in the same order.
2. ``exchange(requests)`` sends each request to the participant of that name and returns the replies by name, in the order of
   the requests. It may be called with any subset of the participants; a name that is not a participant is an InputError.
3. A :class:`~intarsia.protocol.Failure` is a reply. A runtime never raises because a participant failed.
4. Whoever does not answer, or not in time, is not in the result. A reply that comes after the exchange is discarded.
5. ``on_reply(name, reply, seconds)`` is called exactly once for each reply in the result, when the reply arrives and before
   ``exchange`` returns, never twice at the same time. ``seconds`` is how long the answer took. If ``on_reply`` raises, the
   exchange ends and raises that exception.
6. ``exchange`` raises an IntarsiaError only if the runtime itself cannot continue, for example because it was aborted.
7. A participant answers a request in the same way whoever else is asked and in whatever order: results do not depend on
   the runtime.
8. After a Failure, ``cause_of(name)`` is the participant's own exception where it is in reach, so that a user who has all
   tables sees its traceback. It is None between machines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from intarsia.exceptions import FederationError, InputError, quote
from intarsia.protocol import Reply, Request
from intarsia.results.outcome import RoundInfo


class OnReply(Protocol):
    """A function that is called with each reply when it arrives."""

    def __call__(self, name: str, reply: Reply, seconds: float) -> None:
        """Take the reply of one participant."""


class Runtime(Protocol):
    """The way between a coordinator and its participants. The rules are those of :mod:`intarsia.runtime.contract`."""

    def participants(self) -> tuple[str, ...]:
        """Return the names of all participants."""

    def exchange(self, requests: Mapping[str, Request], on_reply: OnReply | None = None) -> dict[str, Reply]:
        """Send each request to its participant and return the replies that came in time."""

    def cause_of(self, name: str) -> BaseException | None:  # noqa: ARG002
        """Return the exception behind the latest Failure of a participant, where it is in reach."""
        return None


class Watcher(Protocol):
    """An observer of a run. Only :func:`~intarsia.runtime.drive.drive` calls it, and it cannot change anything."""

    def asking(self, phase: str, requests: Mapping[str, Request], last: RoundInfo | None) -> None:
        """An exchange begins: these participants are asked this. ``last`` is the round before, if there was one."""

    def answered(self, phase: str, name: str, reply: Reply, seconds: float) -> None:
        """One participant has answered. A Failure is an answer, too."""


class AbsentError(FederationError):
    """Too few participants answered to continue. ``absent`` are the names of those who did not."""

    def __init__(self, message: str, absent: Sequence[str]) -> None:
        super().__init__(message)
        self.absent = tuple(absent)


def check_unique(names: Iterable[str]) -> None:
    """Refuse two participants of the same name."""
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        raise InputError(f"{len(repeated)} participant name(s) are used more than once: {quote(repeated)}.")


def check_known(requests: Iterable[str], participants: Iterable[str]) -> None:
    """Refuse requests to names that are not participants."""
    if unknown := sorted(set(requests) - set(participants)):
        raise InputError(f"{len(unknown)} request(s) are to unknown participants: {quote(unknown)}.")
