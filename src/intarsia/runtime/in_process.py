"""The default runtime: participants are objects in this process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from intarsia.core.types import IntArray
from intarsia.participant import Participant
from intarsia.participant.private import PrivateParticipant
from intarsia.participant.secure import SecureParticipant
from intarsia.protocol import Reply, Request, decode_reply, decode_request, encode
from intarsia.runtime.contract import OnReply, Runtime, check_known, check_unique


class Labels(NamedTuple):
    """The labels that a participant keeps for its owner: the global and the local cluster of each row."""

    labels: IntArray | None
    local_labels: IntArray | None


class InProcessRuntime(Runtime):
    """Calls each participant's ``handle``, one after the other."""

    def __init__(self, participants: Sequence[Participant | PrivateParticipant | SecureParticipant]) -> None:
        check_unique(participant.name for participant in participants)
        self._participants = {participant.name: participant for participant in participants}

    def participants(self) -> tuple[str, ...]:
        """Return the names of all participants."""
        return tuple(self._participants)

    def exchange(self, requests: Mapping[str, Request], on_reply: OnReply | None = None) -> dict[str, Reply]:
        """Ask one participant after the other and return their replies."""
        check_known(requests, self._participants)
        replies: dict[str, Reply] = {}
        for name, request in requests.items():
            started = time.perf_counter()
            replies[name] = self._ask(name, request)
            if on_reply is not None:
                on_reply(name, replies[name], time.perf_counter() - started)
        return replies

    def cause_of(self, name: str) -> BaseException | None:
        """Return the exception behind the latest Failure of a participant."""
        return self._participants[name].last_error

    def labels(self) -> dict[str, Labels]:
        """Return the labels of all participants."""
        return {name: Labels(one.labels, one.local_labels) for name, one in self._participants.items()}

    def _ask(self, name: str, request: Request) -> Reply:
        return self._participants[name].handle(request)


class WireRuntime(InProcessRuntime):
    """In this process, but each message is encoded and decoded on its way, as between machines."""

    def _ask(self, name: str, request: Request) -> Reply:
        return decode_reply(encode(super()._ask(name, decode_request(encode(request)))))
