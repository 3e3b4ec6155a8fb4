"""The record of a table: the atoms of all that was ever told of it, kept beside the table by its participant.

One record serves all studies, runs and restarts over the same table. It contains no values: a fingerprint and an atom for
each row, and an atom for each value of columns with missing values. See :mod:`intarsia.core.atoms` and
:mod:`intarsia.privacy.audit`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from secrets import token_bytes
from typing import IO

import msgspec
import numpy as np

from intarsia._files import lock, write_atomically
from intarsia.core.atoms import Partition
from intarsia.core.types import IntArray
from intarsia.exceptions import InputError, OutputError, ReleaseError, quote
from intarsia.tables.fingerprints import Bits, Fingerprints

SUFFIX = ".told"
ROWS = ""  # the key of the atoms of rows; those of values have the key of their column's missing values
_VERSION = 1
_CONSENT = (
    "Sums from before and after such a change can be subtracted from each other. Hint: let the person who is responsible "
    "for the table consent anew, then run intarsia participant renew."
)


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of the file."""

    version: int
    rows: bytes
    columns: dict[str, int]
    gaps: dict[str, str]
    atoms: dict[str, bytes]
    pinned: dict[str, bytes]


@dataclass(frozen=True)
class Atoms:
    """The partitions of rows and of values, by key, and the key of each column with missing values.

    ``complete`` are columns without missing values; one that had some when it was first told of keeps its own partition.
    """

    by_key: Mapping[str, Partition]
    gaps: Mapping[str, str]
    complete: frozenset[str] = frozenset()


class Record:
    """The record in a file, in the owner's order. A change is on disk before the answer that it is about leaves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[bytes] | None = None

    def has(self, token: bytes | None) -> bool:
        """Whether the newest record is the one for which :meth:`write` returned this token; asked while it is locked."""
        if token is None or self._lock is None or not self.path.exists():
            return False
        self._lock.seek(0)
        return self._lock.read() == token

    @classmethod
    def beside(cls, table: str | Path) -> Record:
        """Return the record of a table in a file; it stands beside the table."""
        path = Path(table)
        return cls(path.with_name(path.name + SUFFIX))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other jobs over the same table out."""
        try:
            lock_file = self.path.with_name(self.path.name + ".lock")
            lock_file.touch(mode=0o600)
            file = lock_file.open("r+b")
        except OSError as error:
            raise OutputError(
                f"the record of what was told of the table, {self.path}, cannot be written: {error.strerror}. Hint: "
                "intarsia participant serve --record, with a file that all studies on this table share."
            ) from error
        with file:
            lock(file.fileno())
            self._lock = file
            yield

    def read(self, now: Fingerprints, fresh: Atoms, fewest: int) -> Atoms:
        """Return the atoms of the table as it is now; ``fresh`` are those of a table of which nothing was told.

        Raises a ReleaseError unless the table has the recorded rows, and either no others or at least ``fewest``.
        """
        if not self.path.exists():
            return fresh
        stored = self._stored()
        before = np.frombuffer(stored.rows, dtype=np.uint64)
        common = sorted(stored.columns.keys() & now.columns.keys())
        changed = [name for name in common if stored.columns[name] != now.columns[name]]
        if len(before) == len(now.rows) and not changed:
            return _extended(stored, fresh, np.arange(len(before)), fewest)  # the same rows, perhaps with other columns
        if stored.columns.keys() != now.columns.keys():
            raise ReleaseError(
                f"the rows and the columns of the table changed since it was first told of; {len(changed)} column(s) have "
                f"other values: {quote(changed)}. {_CONSENT}"
            )
        return _extended(stored, fresh, _places(before, now.rows, fewest), fewest)

    def write(self, now: Fingerprints, atoms: Atoms) -> bytes:
        """Replace the record and return its token; columns that are only in the old one stay in it."""
        told = {key: np.asarray(each.atoms, dtype=np.int32).tobytes() for key, each in atoms.by_key.items()}
        pinned = {key: np.packbits(each.pinned).tobytes() for key, each in atoms.by_key.items()}
        columns, gaps = dict(now.columns), dict(atoms.gaps)
        if self.path.exists():
            before = self._stored()
            columns, gaps = before.columns | columns, before.gaps | gaps
            if len(before.rows) == now.rows.nbytes:
                told, pinned = before.atoms | told, before.pinned | pinned
        used = {ROWS, *gaps.values()}
        told, pinned = ({key: each for key, each in both.items() if key in used} for both in (told, pinned))
        stored = _Stored(_VERSION, now.rows.tobytes(), columns, gaps, told, pinned)
        token = self._new_token()
        write_atomically(self.path, msgspec.msgpack.encode(stored), secret=True)
        return token

    def _new_token(self) -> bytes:
        """Note in the lock file who writes, before the record changes: then nobody takes an old one for the newest."""
        assert self._lock is not None
        token = token_bytes(16)
        self._lock.seek(0)
        self._lock.write(token)
        self._lock.flush()
        return token

    def renew(self) -> Path | None:
        """Put the record aside, so that the next one starts without it; return its new place."""
        if not self.path.exists():
            return None
        aside = self.path.with_name(f"{self.path.name}.{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
        self.path.rename(aside)
        return aside

    def _stored(self) -> _Stored:
        try:
            stored = msgspec.msgpack.decode(self.path.read_bytes(), type=_Stored)
        except (OSError, msgspec.DecodeError) as error:
            raise InputError(f"{self.path} cannot be read ({type(error).__name__}).") from error
        if stored.version != _VERSION:
            raise InputError(f"{self.path} has version {stored.version}; this installation supports {_VERSION}.")
        return stored


def _places(before: Bits, now: Bits, fewest: int) -> IntArray:
    """Return where each recorded row is now."""
    old, new = np.argsort(before, kind="stable"), np.argsort(now, kind="stable")
    sorted_old, sorted_new = before[old], now[new]
    same = np.arange(len(old)) - np.searchsorted(sorted_old, sorted_old)  # the number of equal rows before this one
    at = np.minimum(np.searchsorted(sorted_new, sorted_old) + same, len(new) - 1)
    if gone := int((sorted_new[at] != sorted_old).sum()):
        raise ReleaseError(f"{gone} row(s) of the table were changed or removed since it was first told of. {_CONSENT}")
    if 0 < len(new) - len(old) < fewest:
        raise ReleaseError(
            f"fewer than {fewest} rows were added to the table since it was first told of. {_CONSENT} Or wait for more rows."
        )
    places = np.empty(len(old), dtype=np.intp)
    places[old] = new[at]
    return places


def _extended(stored: _Stored, fresh: Atoms, places: IntArray, fewest: int) -> Atoms:
    """Return the recorded atoms of the rows at these places; what was not told so far is an atom of its own.

    That is all added rows; and of a column its values in added rows, with those that were suppressed until now, for example
    because too few rows had their level.
    """
    n_rows = len(fresh.by_key[ROWS].atoms)
    by_key, gaps = {ROWS: _with_new(stored, ROWS, fresh.by_key[ROWS], places)[0]}, dict[str, str]()
    for column in stored.gaps.keys() - fresh.gaps.keys() - fresh.complete:  # suppressed now: nothing new is told of it
        gaps[column] = key = stored.gaps[column]
        by_key[key] = _with_new(stored, key, Partition.whole(np.zeros(n_rows, dtype=np.bool_)), places)[0]
    untold: dict[str, str] = {}
    for column, key in {**dict.fromkeys(fresh.complete & stored.gaps.keys(), ROWS), **fresh.gaps}.items():
        now, before = fresh.by_key[key], stored.gaps.get(column, ROWS)
        if before == ROWS and (column not in stored.columns or (now.atoms[places] < 0).any()):
            untold[column] = key  # if it had been told of, it would have had no missing value
            continue
        gaps[column] = own = before if before == key else _key_of(before, key)
        if own in by_key:
            continue
        by_key[own], n_new = _with_new(stored, before, now, places)
        gone = bool(((by_key[own].atoms >= 0) & (now.atoms < 0)).any())
        if gone or 0 < n_new < fewest:
            raise ReleaseError(
                f"column {quote([column])} has {'other missing' if gone else 'few new'} values since it was first told of. "
                f"{_CONSENT}{'' if gone else ' Or wait for more rows.'}"
            )
    # a column of which nothing was told may share the atoms of another one with the same missing values
    return Atoms({**{key: fresh.by_key[key] for key in untold.values()}, **by_key}, gaps | untold, fresh.complete)


def _key_of(before: str, now: str) -> str:
    """Return the key of values that had one key when they were told of, and have another now."""
    return blake2b(f"{before} {now}".encode(), digest_size=16).hexdigest()


def _with_new(stored: _Stored, key: str, fresh: Partition, places: IntArray) -> tuple[Partition, int]:
    """Return a recorded partition, in which everything that only ``fresh`` has is one new atom, and how much that is."""
    before = np.frombuffer(stored.atoms[key], dtype=np.int32)
    atoms: IntArray = np.full(len(fresh.atoms), -1, dtype=np.int32)
    pinned = np.zeros(len(fresh.atoms), dtype=np.bool_)
    atoms[places] = before
    bits = np.frombuffer(stored.pinned[key], dtype=np.uint8)
    pinned[places] = np.unpackbits(bits, count=len(before)).astype(np.bool_)
    new = (atoms < 0) & (fresh.atoms >= 0)
    atoms[new] = int(before.max(initial=-1)) + 1
    return Partition(atoms, pinned), int(new.sum())
