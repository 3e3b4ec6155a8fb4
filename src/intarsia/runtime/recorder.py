"""Keeps what was exchanged: how long it took, how many bytes, and what every field held. No content is kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from intarsia.protocol import Failure, Refinement, Reply, Request, encode, tag_of
from intarsia.protocol.catalogue import differences, fields_of, rows_behind
from intarsia.results.outcome import Exchange, RoundInfo, Sent, Suppressed
from intarsia.runtime.drive import Watcher

_Kept = TypeVar("_Kept")


@dataclass
class _Tally:
    times: int = 0
    withheld: int = 0
    entries: int = 0
    n_bytes: int = 0
    fewest_rows: int | None = None


@dataclass
class _Open:
    """An exchange that may still be going on."""

    phase: str
    seconds: dict[str, float] = field(default_factory=dict)
    bytes_in: dict[str, int] = field(default_factory=dict)
    bytes_out: dict[str, int] = field(default_factory=dict)


class Recorder:
    """A watcher that keeps a record, and passes on what it is told."""

    def __init__(self, watcher: Watcher | None = None) -> None:
        self._watcher = watcher
        self._exchanges: list[_Open] = []
        self._tallies: dict[tuple[str, str, str], _Tally] = {}
        self._kept_back: dict[tuple[str, str, str], int] = {}
        self._last: dict[str, Refinement] = {}
        self._differences: dict[str, int] = {}

    def asking(self, phase: str, requests: Mapping[str, Request], last: RoundInfo | None) -> None:
        """A new exchange."""
        now = _Open(phase)
        for name, request in requests.items():
            now.bytes_in[name] = len(encode(request))
            self._count(name, request, {})
        self._exchanges.append(now)
        if self._watcher is not None:
            self._watcher.asking(phase, requests, last)

    def answered(self, phase: str, name: str, reply: Reply, seconds: float) -> None:
        """One participant has answered."""
        now = self._exchanges[-1]
        if not isinstance(reply, Failure):  # which is no answer
            now.seconds[name] = seconds
        now.bytes_out[name] = len(encode(reply))
        self._count(name, reply, rows_behind(reply))
        for what, n in ({} if isinstance(reply, Failure) else reply.suppressed).items():
            key = (name, tag_of(reply), what)
            self._kept_back[key] = max(n, self._kept_back.get(key, 0))
        self._compare(name, reply)
        if self._watcher is not None:
            self._watcher.answered(phase, name, reply, seconds)

    def _compare(self, name: str, reply: Reply) -> None:
        fewest = differences(reply, self._last.get(name))
        if fewest is not None:
            self._differences[name] = min(fewest, self._differences.get(name, fewest))
        if isinstance(reply, Refinement):
            self._last[name] = reply

    def _count(self, name: str, message: Request | Reply, behind: Mapping[str, int]) -> None:
        seen: set[str] = set()
        for held in fields_of(message):
            tally = self._tallies.setdefault((name, tag_of(message), held.path), _Tally())
            first = held.path not in seen  # a field of several clusters is still one field of one message
            seen.add(held.path)
            if held.entries is None:
                tally.withheld += first
                continue
            tally.times += first
            tally.entries += held.entries
            tally.n_bytes += held.n_bytes
            if held.path in behind:
                fewest = behind[held.path]
                tally.fewest_rows = fewest if tally.fewest_rows is None else min(fewest, tally.fewest_rows)

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """What was exchanged so far."""
        return tuple(
            Exchange(now.phase, dict(now.seconds), dict(now.bytes_in), dict(now.bytes_out)) for now in self._exchanges
        )

    @property
    def suppressed(self) -> tuple[Suppressed, ...]:
        """What participants' own rules kept back so far."""
        return tuple(Suppressed(*key, most) for key, most in _by_name(self._kept_back))

    @property
    def absent(self) -> dict[str, tuple[str, ...]]:
        """By participant, the exchanges that it was asked in and did not answer."""
        found: dict[str, tuple[str, ...]] = {}
        for now in self._exchanges:
            for name in now.bytes_in:
                if name not in now.seconds:
                    found[name] = (*found.get(name, ()), now.phase)
        return found

    def missed(self, asked: Sequence[str], there: Collection[str]) -> dict[str, tuple[str, ...]]:
        """The same for the record of a run: whoever is not in the result missed all that it was asked."""
        found = self.absent
        for name in asked:
            if name not in there:
                found[name] = tuple(now.phase for now in self._exchanges if name in now.bytes_in)
        return found

    @property
    def differences(self) -> dict[str, int]:
        """By participant, the fewest rows by which two of its sums differ that belong together."""
        return dict(sorted(self._differences.items()))

    @property
    def sent(self) -> tuple[Sent, ...]:
        """Every field of every kind of message so far, by participant."""
        return tuple(
            Sent(name, message, path, t.times, t.withheld, t.entries, t.n_bytes, t.fewest_rows)
            for (name, message, path), t in _by_name(self._tallies)
        )


def _by_name(kept: Mapping[tuple[str, str, str], _Kept]) -> list[tuple[tuple[str, str, str], _Kept]]:
    """Whoever answered first is a matter of chance: participants by name, what each sent in the order of the run."""
    return sorted(kept.items(), key=lambda entry: entry[0][0])
