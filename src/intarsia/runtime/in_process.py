"""The default runtime: participants are objects in this process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from intarsia.core.types import IntArray
from intarsia.participant import Responder
from intarsia.protocol import Failure, Reply, Request
from intarsia.runtime.drive import Arrived, Watcher, exception_of, phase_of


class Labels(NamedTuple):
    """What a participant keeps for its owner."""

    found: IntArray | None
    local: IntArray | None


class InProcessRuntime:
    """Calls each participant's ``handle``. Here the traceback of a failure is the caller's own, so it is kept."""

    def __init__(self, participants: Sequence[Responder], watcher: Watcher | None = None) -> None:
        self._participants = {participant.name: participant for participant in participants}
        self._watcher = watcher

    def participants(self) -> tuple[str, ...]:
        """Who can be asked."""
        return tuple(self._participants)

    def labels(self) -> dict[str, Labels]:
        """What everybody knows of its own rows."""
        return {name: Labels(one.labels, one.local_labels) for name, one in self._participants.items()}

    def exchange(self, requests: Mapping[str, Request], arrived: Arrived | None = None) -> dict[str, Reply]:
        """Ask one after the other; a failure is raised at once, with its cause."""
        replies: dict[str, Reply] = {}
        for name, request in requests.items():
            started = time.perf_counter()
            reply = self._participants[name].handle(request)
            if isinstance(reply, Failure):
                raise exception_of(reply) from self._participants[name].last_error
            replies[name] = reply
            seconds = time.perf_counter() - started
            if arrived is not None:
                arrived(name, reply, seconds)
            if self._watcher is not None:
                self._watcher.answered(phase_of(request), name, reply, seconds)
        return replies
