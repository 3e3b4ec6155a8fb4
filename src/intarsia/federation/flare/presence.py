"""Who is there: a site in this job gives signs of life, one that is not in it answers a knock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from threading import Event, Thread

_GONE = 12.0  # an idle site looks for work many times a second; so long without a look, its job process is gone
_GONE_AT_WORK = 90.0  # one that computes has a heartbeat, which may have to wait for what is computed
_KNOCK_EVERY = 2.0  # seconds


class Presence:
    """Who is there: every sign of life of a site in this job, and whether one of ``participants`` that is not answers."""

    def __init__(self, participants: Sequence[str], knock: Callable[[str], bool]) -> None:
        self._participants, self._knock = tuple(participants), knock
        self._seen: dict[str, float] = {}
        self._at_work: set[str] = set(participants)  # starting up
        self._in_job: set[str] = set()
        self._back: set[str] = set()
        self._over = Event()

    @property
    def in_job(self) -> frozenset[str]:
        """Who takes tasks of this job."""
        return frozenset(self._in_job)

    @property
    def returned(self) -> list[str]:
        """Who is connected, but not in this job."""
        return sorted(self._back - self._in_job)

    def begin(self, in_job: Iterable[str]) -> None:
        """These were there when the job began; the others are knocked at, again and again."""
        self._in_job = set(in_job)
        Thread(target=self._look, daemon=True).start()

    def end(self) -> None:
        """Knock no more."""
        self._over.set()

    def sign(self, name: str) -> None:
        """A site has asked for work, or its heart beats."""
        self._seen[name] = time.monotonic()

    def asked(self, name: str) -> None:
        """A task waits for it."""
        self._at_work -= {name} & self._seen.keys()

    def works(self, name: str) -> None:
        """It has fetched its task."""
        self._at_work.add(name)

    def lost(self, names: Iterable[str]) -> None:
        """They are not in this job any more, even if they come back."""
        self._in_job -= set(names)

    def is_gone(self, name: str, since: float) -> bool:
        """Whether there has been no sign of life for too long."""
        quiet = time.monotonic() - max(self._seen.get(name, since), since)
        return quiet > (_GONE_AT_WORK if name in self._at_work else _GONE)

    def _look(self) -> None:
        while not self._over.wait(_KNOCK_EVERY):
            for name in self._participants:
                if name not in self._in_job and self._knock(name):
                    self._back.add(name)
