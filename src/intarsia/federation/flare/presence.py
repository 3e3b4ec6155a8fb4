"""Which sites are present: a site in the job gives signs of life, any other site answers an echo."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from threading import Event, Thread

_GONE = 12.0  # seconds; an idle site asks for a task many times a second
_GONE_COMPUTING = 90.0  # a site that computes has only a heartbeat, which may wait for the computation
_ECHO_EVERY = 2.0  # seconds


class Presence:
    """Which sites are in this job, and which of ``participants`` are connected (``is_connected``) without being in it."""

    def __init__(self, participants: Sequence[str], is_connected: Callable[[str], bool]) -> None:
        self._participants, self._is_connected = tuple(participants), is_connected
        self._seen: dict[str, float] = {}
        self._computing: set[str] = set(participants)  # while they start
        self._in_job: set[str] = set()
        self._connected: set[str] = set()
        self._ended = Event()

    @property
    def in_job(self) -> frozenset[str]:
        """The sites that take tasks of this job."""
        return frozenset(self._in_job)

    @property
    def returned(self) -> list[str]:
        """The participants whose sites are connected, but not in this job."""
        return sorted(self._connected - self._in_job)

    def begin(self, in_job: Iterable[str]) -> None:
        """Begin with the sites in this job, and look for the others again and again."""
        self._in_job = set(in_job)
        Thread(target=self._look, daemon=True).start()

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()

    def sign(self, name: str) -> None:
        """Note a sign of life: a site has asked for a task or sent a heartbeat."""
        self._seen[name] = time.monotonic()

    def asked(self, name: str) -> None:
        """Note that a task waits for a site."""
        self._computing -= {name} & self._seen.keys()

    def works(self, name: str) -> None:
        """Note that a site has fetched its task."""
        self._computing.add(name)

    def lost(self, names: Iterable[str]) -> None:
        """Remove sites from this job. They stay removed if they come back."""
        self._in_job -= set(names)

    def is_gone(self, name: str, since: float) -> bool:
        """Whether a site has given no sign of life for too long, counted from ``since`` at the earliest."""
        silence = time.monotonic() - max(self._seen.get(name, since), since)
        return silence > (_GONE_COMPUTING if name in self._computing else _GONE)

    def _look(self) -> None:
        while not self._ended.wait(_ECHO_EVERY):
            for name in self._participants:
                if name not in self._in_job and self._is_connected(name):
                    self._connected.add(name)
