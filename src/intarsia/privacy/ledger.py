"""The ledger of a table: what all studies and kits together spent of its privacy budget, and the answers that they paid for.

Each line is a JSON object. ``event`` is ``debit`` (``study``, ``run``, ``digest`` of the request, ``what`` was released,
``sensitivity``, and ``rho`` in grains of 2⁻⁴⁰; the first one has the SHA-256 of the ``table``) or ``reset`` (``reason``, the
file that was put aside, and the tables before). ``check`` is the SHA-256 of the ``check`` before it and of its own line, so
that a line that was changed or removed is noticed. ``time`` is for readers only.

The order is: charge, draw noise, keep the answer, send it; all but the last under the lock of the ledger. A debit is on
disk before noise is drawn, and an answer before it is sent, so that at any moment told ≤ debited ≤ limit::

    with ledger.locked():
        data = ledger.answer(digest)
        if data is None:
            ledger.charge(study, run, digest, "counts", rho, limit)
            data = ...  # noise.draw, sums, add_noise, encode
            ledger.keep(digest, data)
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any

from intarsia.exceptions import ReleaseError, SettingError, plain
from intarsia.privacy.ledger_store import DIGEST, InMemory, OnDisk, Store

GRAIN = 2.0**-40  # ρ is counted in whole grains: sums are exact
DEBIT, RESET = "debit", "reset"
Entry = dict[str, Any]


def grains_of(rho: float) -> int:
    """Return ρ in grains, rounded up, as a debit is."""
    if not 0 < rho < math.inf:
        raise SettingError(f"rho must be above 0 and finite. Got {rho} instead.")
    return math.ceil(rho / GRAIN)


def grains_within(limit: float) -> int:
    """Return a limit of ρ in grains, rounded down."""
    if not 0 <= limit < math.inf:
        raise SettingError(f"the limit of rho must be at least 0 and finite. Got {limit} instead.")
    return math.floor(limit / GRAIN)


def split(rho: float, shares: Sequence[float]) -> tuple[float, ...]:
    """Split ρ by shares into whole grains, whose debits together are at most ``rho``.

    >>> parts = split(0.0244, [0.35, 0.3, 0.35])
    >>> sum(parts) <= 0.0244, sum(map(grains_of, parts)) <= grains_within(0.0244)
    (True, True)
    """
    if not shares or min(shares) <= 0 or not math.isclose(math.fsum(shares), 1, rel_tol=1e-9):
        raise SettingError(f"shares of rho must be above 0 and sum to 1. Got {len(shares)} that do not.")
    total, given = grains_within(rho), 0
    parts = []
    for share in shares:
        parts.append(min(math.floor(total * share), total - given))
        given += parts[-1]
    if min(parts) == 0:
        raise SettingError(f"rho of {rho:.3g} is too small to be split into {len(shares)} parts.")
    return tuple(part * GRAIN for part in parts)


@dataclass(frozen=True)
class _Account:
    """The lines of a ledger that count: up to byte ``end``, with the ``check`` of the last one."""

    entries: tuple[Entry, ...]
    check: str
    end: int
    is_whole: bool  # whether the last line has its end of line

    @property
    def spent(self) -> int:
        return _spent(self.entries)

    @property
    def tables(self) -> list[str]:
        """The SHA-256 of the tables that something was told of, the newest last."""
        earlier = [table for entry in self.entries for table in entry.get("earlier", ())]
        return [*earlier, *(entry["table"] for entry in self.entries if entry["event"] == DEBIT and "table" in entry)]


class Ledger:
    """The ledger of one table. Debits are never refunded, and the same question is paid for once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = RLock()
        self._depth = 0
        self._charged: set[str] = set()

    @classmethod
    def beside(cls, table: str | Path) -> Ledger:
        """Return the ledger of a table in a file or folder; it stands beside the table."""
        return cls(OnDisk(Path(table)))

    @classmethod
    def in_memory(cls) -> Ledger:
        """Return a ledger for a table in memory; it ends with the process."""
        return cls(InMemory())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all others out, also other processes; the same thread may lock it again."""
        with self._threads:
            if self._depth:
                yield
                return
            with self._store.locked():
                self._depth = 1
                try:
                    yield
                finally:
                    self._depth = 0
                    self._charged.clear()

    def charge(
        self,
        study: str,
        run: str,
        digest: str,
        what: str,
        rho: float,
        limit_rho: float,
        *,
        sensitivity: float | None = None,
    ) -> None:
        """Debit ``rho``, and return when that is on disk; raise a ReleaseError if the table's limit does not allow it.

        ``digest`` is the SHA-256 of the question. The error has figures of other studies: it is for the participant.
        """
        _check_digest(digest)
        cost, limit = grains_of(rho), grains_within(limit_rho)
        with self.locked():
            account = self._account()
            if account.spent + cost > limit:
                raise ReleaseError(
                    f"{plain(what)!r} costs rho {cost * GRAIN:.6g}, but of the table's {limit * GRAIN:.6g} only "
                    f"{max(limit - account.spent, 0) * GRAIN:.6g} are left. Hint: intarsia participant budget shows what "
                    "was spent. A larger epsilon, or new data, is for the person to decide who is responsible for the table."
                )
            entry: Entry = {"event": DEBIT, "study": study, "run": run, "digest": digest, "what": what}
            entry |= {"sensitivity": sensitivity, "rho": cost}
            if not any(each["event"] == DEBIT for each in account.entries):
                entry["table"] = self._new_content(account)
            line = _line(entry, account.check)
            self._store.append(line if account.is_whole else b"\n" + line, account.end)
            self._charged.add(digest)

    def answer(self, digest: str) -> bytes | None:
        """Return the answer that was kept for a question, which costs nothing, or None."""
        _check_digest(digest)
        with self.locked():
            self._account()
            return self._store.answer(digest)

    def keep(self, digest: str, data: bytes) -> None:
        """Keep the answer to a question that was charged since the ledger was locked, and return when it is on disk."""
        with self.locked():
            if digest not in self._charged:
                raise ReleaseError(
                    f"an answer was not charged to {self._store.name} since it was locked, so it may not be told."
                )
            if self._store.answer(digest) is not None:
                raise ReleaseError(f"a question that has an answer was answered a second time ({self._store.name}).")
            self._store.keep(digest, data)

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries since the last reset, in order; raise a ReleaseError if lines were changed or removed."""
        if not self._store.read() and not self._store.digests():
            return ()
        with self.locked():
            return self._account().entries

    def spent(self) -> float:
        """Return the ρ that was spent since the last reset."""
        return _spent(self.entries()) * GRAIN

    def reset(self, reason: str) -> Path | None:
        """Put lines and answers aside and start anew, because the table has new data; return where the lines are now.

        Raises a ReleaseError if the table is one that something was told of.
        """
        if not reason.strip():
            raise SettingError('a reset needs a reason. Hint: --reason "new patients of 2026, other rows".')
        with self.locked():
            account = self._account()
            if not account.spent:
                raise SettingError(f"nothing was spent according to {self._store.name}, so there is nothing to reset.")
            old = sha256(self._store.read()).hexdigest()
            entry = {"event": RESET, "reason": reason, "spent": account.spent, "old": old, "earlier": account.tables}
            entry["table"] = self._new_content(account)
            return self._store.restart(_line(entry, before=""), old[:16])

    def _new_content(self, account: _Account) -> str:
        """Return the SHA-256 of the table as it is now, or raise a ReleaseError if it is one of those before."""
        content = self._store.content()
        if content in account.tables:
            raise ReleaseError(
                f"the table has the same content as when {self._store.name} was charged for it. A budget starts anew with "
                "new data only. Hint: use a table of rows of which nothing was told."
            )
        return content

    def _account(self) -> _Account:
        account = _read(self._store.read(), self._store.name)
        unpaid = self._store.digests() - {entry.get("digest") for entry in account.entries}
        if unpaid:
            raise _damaged(self._store.name, f"{len(unpaid)} answer(s) have no debit in it")
        return account


def _spent(entries: Sequence[Entry]) -> int:
    return sum(int(entry["rho"]) for entry in entries if entry["event"] == DEBIT)


def _check_digest(digest: str) -> None:
    if not DIGEST.fullmatch(digest):
        raise ValueError("a question is named by its SHA-256, as 64 hexadecimal digits.")


def _line(entry: Entry, before: str) -> bytes:
    """Return an entry as a line, with the time and its check."""
    entry = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **entry}
    return (json.dumps(entry | {"check": _check_of(entry, before)}) + "\n").encode()


def _check_of(entry: Entry, before: str) -> str:
    return sha256(f"{before}\n{json.dumps(entry)}".encode()).hexdigest()


def _read(data: bytes, name: str) -> _Account:
    """Return the account in these lines, or raise a ReleaseError that names the first line that was changed.

    Only what follows the last end of line may be incomplete: it was being written when the process ended, so that no noise
    was drawn for it.
    """
    *lines, tail = data.split(b"\n")
    entries: list[Entry] = []
    check, end = "", 0
    for number, line in enumerate(lines, start=1):
        parsed = _parse(line, check, is_first=not entries)
        if parsed is None or parsed[2] != len(line):
            raise _damaged(name, f"line {number} is not what was written, or a line before it is missing")
        entry, check, _ = parsed
        entries.append(entry)
        end += len(line) + 1
    if (parsed := _parse(tail, check, is_first=not entries)) is None:
        return _Account(tuple(entries), check, end, is_whole=True)
    entry, check, length = parsed
    return _Account((*entries, entry), check, end + length, is_whole=False)


def _parse(line: bytes, before: str, *, is_first: bool) -> tuple[Entry, str, int] | None:
    """Return the entry that a line starts with, its check and its length; None if it is not what was written."""
    try:
        entry, length = json.JSONDecoder().raw_decode(line.decode("latin-1"))  # whatever may follow the entry
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or entry.get("event") not in ({DEBIT, RESET} if is_first else {DEBIT}):
        return None
    check = entry.pop("check", None)
    if check != _check_of(entry, before):
        return None
    return entry, check, length


def _damaged(name: str, what: str) -> ReleaseError:
    return ReleaseError(
        f"{name}, the ledger of the table, was changed or damaged: {what}. Nothing is released. Hint: look for the file "
        "as it was; rows of which nothing was told, in a new file, have a ledger of their own."
    )
