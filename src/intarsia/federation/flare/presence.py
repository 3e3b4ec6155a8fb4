"""Which sites are present: the server's main process is asked, again and again, which processes it is connected with."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Event, Thread
from typing import NamedTuple

_SILENT = 12.0  # seconds; an idle site asks for a task many times a second
_UNHEARD = 20.0  # seconds without a heartbeat, from a machine that lost its power or its network
_LATE = 10.0  # seconds that a job's process may begin later than the first one of another site
_STARTING = 90.0  # seconds in which the processes of a job start
_ABSENT = 3  # looks in a row that found no connection
_LOOK_EVERY = 1.0  # seconds


class Connection(NamedTuple):
    """Whether the server has a living connection to the process of a site, and to that of its job; None: not known."""

    site: bool | None
    job: bool | None


class Presence:
    """Which sites are in this job, and which of ``participants`` are connected without being in it.

    ``connections`` says what the server knows. A process that was killed has no connection any more, which is known at once.
    One that computes is silent, so that silence alone says little.
    """

    def __init__(
        self, participants: Sequence[str], connections: Callable[[Sequence[str]], Mapping[str, Connection]]
    ) -> None:
        self._participants, self._connections = tuple(participants), connections
        self._began = time.monotonic()
        self._signs: dict[str, float] = {}  # when a site last asked for a task or sent a heartbeat
        self._heard: dict[str, float] = {}  # when it last had a heartbeat
        self._started: dict[str, float] = {}  # since when its job's process is known
        self._absences: Counter[tuple[str, str]] = Counter()
        self._computing: set[str] = set()
        self._in_job: set[str] = set()
        self._connected: set[str] = set()
        self._gone_at: dict[str, float] = {}
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
        """Begin with the sites in this job, and look for all again and again."""
        self._in_job, self._began = set(in_job), time.monotonic()
        Thread(target=self._look, daemon=True).start()

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()

    def sign(self, name: str) -> None:
        """Note a sign of life: a site has asked for a task or sent a heartbeat.

        While its process starts it has no connection, which is no absence. Its first sign came over a connection that the
        next look finds.
        """
        now = time.monotonic()
        if name not in self._started:
            self._absences[name, "job"] = 0
        self._signs[name] = self._heard[name] = now
        self._started.setdefault(name, now)

    def asked(self, name: str) -> None:
        """Note that a task waits for a site."""
        self._computing.discard(name)

    def works(self, name: str) -> None:
        """Note that a site has fetched its task."""
        self._computing.add(name)

    def lost(self, names: Iterable[str]) -> None:
        """Remove sites from this job. They stay removed if they come back."""
        for name in names:
            self._in_job.discard(name)
            self._gone_at.setdefault(name, time.monotonic())

    def seconds_away(self, name: str) -> float:
        """How long a site that is not in this job has been away, as far as this job knows."""
        return time.monotonic() - self._gone_at.get(name, self._began)

    def is_gone(self, name: str, since: float) -> bool:
        """Whether the job's process of a site ended, or it gave no sign of life for too long since ``since``."""
        now = time.monotonic()
        if name not in self._started:
            others = [at for other, at in self._started.items() if other != name]
            late = bool(others) and now - min(others) > _LATE and self._absences[name, "job"] >= _ABSENT
            return late or self._absences[name, "site"] >= _ABSENT or now - max(self._began, since) > _STARTING
        if self._absences[name, "job"] >= _ABSENT or now - self._heard[name] > _UNHEARD:
            return True
        return name not in self._computing and now - max(self._signs.get(name, since), since) > _SILENT

    def look(self) -> None:
        """Ask for the connections of all sites, and note which there are."""
        for name, connection in self._connections(sorted({*self._participants, *self._in_job})).items():
            now = time.monotonic()
            for process, there in zip(Connection._fields, connection, strict=True):
                self._absences[name, process] = self._absences[name, process] + 1 if there is False else 0
            if connection.site:
                self._heard[name] = now
            if connection.job:
                self._started.setdefault(name, now)
                self._heard.setdefault(name, now)
            if name not in self._in_job and name in self._participants:
                self._connected = self._connected | {name} if connection.site else self._connected - {name}

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_EVERY):
            self.look()
