"""A watcher that records a run: seconds, bytes, and the size of every field of every message. No content is kept."""

from __future__ import annotations

import platform
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar

from intarsia._version import __version__
from intarsia.protocol import Failure, Labelled, Masked, Reply, Request, encode, tag_of
from intarsia.protocol.catalogue import differences, fields_of, rows_behind
from intarsia.results.outcome import Exchange, RoundInfo, RunRecord, Sent, Suppressed
from intarsia.runtime.contract import Watcher

_Count = TypeVar("_Count")
VERSIONS = {"intarsia": __version__, "python": platform.python_version()} | {
    library: version(library) for library in ("numpy", "scipy", "msgspec")
}


@dataclass
class _Tally:
    times: int = 0
    suppressed: int = 0
    entries: int = 0
    n_bytes: int = 0
    fewest_rows: int | None = None


class _Exchange(NamedTuple):
    """An exchange whose replies may still be arriving."""

    phase: str
    seconds: dict[str, float]
    bytes_in: dict[str, int]
    bytes_out: dict[str, int]


class Recorder:
    """A watcher that records a run from its creation on, and passes all it is told on to another watcher."""

    def __init__(self, watcher: Watcher | None = None) -> None:
        self._watcher = watcher
        self._started, self._clock = datetime.now(UTC), time.perf_counter()
        self._exchanges: list[_Exchange] = []
        self._tallies: dict[tuple[str, str, str], _Tally] = {}
        self._suppressed: dict[tuple[str, str, str], int] = {}
        self._last: dict[tuple[str, type[Reply]], Reply] = {}
        self._differences: dict[str, int] = {}
        self._audited: dict[str, int] = {}

    def asking(self, phase: str, requests: Mapping[str, Request], last: RoundInfo | None) -> None:
        """Record the beginning of an exchange."""
        self._exchanges.append(_Exchange(phase, {}, {name: len(encode(asked)) for name, asked in requests.items()}, {}))
        for name, request in requests.items():
            self._count(name, request, {})
        if self._watcher is not None:
            self._watcher.asking(phase, requests, last)

    def answered(self, phase: str, name: str, reply: Reply, seconds: float) -> None:
        """Record a reply. A failure has bytes, but counts as no answer."""
        exchange = self._exchanges[-1]
        if not isinstance(reply, Failure):
            exchange.seconds[name] = seconds
        exchange.bytes_out[name] = len(encode(reply))
        self._count(name, reply, rows_behind(reply))
        if isinstance(reply, Labelled | Masked):
            self._audited[name] = min(reply.audited, self._audited.get(name, reply.audited))
            if reply.audited > 1:
                self._suppressed[name, tag_of(reply), "something"] = 1
        self._compare(name, reply)
        if self._watcher is not None:
            self._watcher.answered(phase, name, reply, seconds)

    def _compare(self, name: str, reply: Reply) -> None:
        fewest = differences(reply, self._last.get((name, type(reply))))
        if fewest is not None:
            self._differences[name] = min(fewest, self._differences.get(name, fewest))
        self._last[name, type(reply)] = reply

    def _count(self, name: str, message: Request | Reply, behind: Mapping[str, int]) -> None:
        counted: set[str] = set()
        for part in fields_of(message):
            tally = self._tallies.setdefault((name, tag_of(message), part.path), _Tally())
            first = part.path not in counted  # a field of several clusters is one field of one message
            counted.add(part.path)
            if part.entries is None:
                tally.suppressed += first
                continue
            tally.times += first
            tally.entries += part.entries
            tally.n_bytes += part.n_bytes
            if part.path in behind:
                fewest = behind[part.path]
                tally.fewest_rows = fewest if tally.fewest_rows is None else min(fewest, tally.fewest_rows)

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """All exchanges so far."""
        return tuple(
            Exchange(phase, _in_order(bytes_in, seconds), dict(bytes_in), _in_order(bytes_in, bytes_out))
            for phase, seconds, bytes_in, bytes_out in self._exchanges
        )

    @property
    def sent(self) -> tuple[Sent, ...]:
        """Every field of every kind of message so far, by participant."""
        return tuple(
            Sent(name, message, path, t.times, t.suppressed, t.entries, t.n_bytes, t.fewest_rows)
            for (name, message, path), t in _by_name(self._tallies)
        )

    def absent(self, included: Collection[str]) -> dict[str, tuple[str, ...]]:
        """By participant, the phases that it was asked in and did not answer: all of them if it is not included."""
        absent: dict[str, tuple[str, ...]] = {}
        for exchange in self._exchanges:
            for name in exchange.bytes_in:
                if name not in exchange.seconds or name not in included:
                    absent[name] = (*absent.get(name, ()), exchange.phase)
        return absent

    def record(
        self,
        method: str,
        settings: Mapping[str, Any],
        seed: int,
        versions: Mapping[str, str],
        notes: Iterable[str],
        included: Collection[str],
    ) -> RunRecord:
        """Return the record of the run, which ends now; ``included`` are the participants in its outcome."""
        return RunRecord(
            method=method,
            settings=settings,
            seed=seed,
            versions=dict(versions),
            started=self._started.isoformat(timespec="seconds"),
            seconds=time.perf_counter() - self._clock,
            exchanges=self.exchanges,
            sent=self.sent,
            notes=tuple(notes),
            suppressed=tuple(Suppressed(*key, most) for key, most in _by_name(self._suppressed)),
            differences=dict(sorted(self._differences.items())),
            audited=dict(sorted(self._audited.items())),
            absent=self.absent(included),
        )


def _in_order(names: Iterable[str], values: Mapping[str, _Count]) -> dict[str, _Count]:
    """Values in the order of the requests: who answers first is chance."""
    return {name: values[name] for name in names if name in values}


def _by_name(counts: Mapping[tuple[str, str, str], _Count]) -> list[tuple[tuple[str, str, str], _Count]]:
    """Counts by the participants' names, each participant's in the order of the run."""
    return sorted(counts.items(), key=lambda entry: entry[0][0])
