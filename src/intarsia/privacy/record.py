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
from pathlib import Path
from secrets import token_bytes
from typing import IO

import msgspec
import numpy as np

from intarsia._files import lock, write_atomically
from intarsia.core.atoms import Partition
from intarsia.core.types import BoolArray, IntArray
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
    """The partitions of rows and of values, by key, and the key of each column with missing values."""

    by_key: Mapping[str, Partition]
    gaps: Mapping[str, str]


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
    """Return the recorded atoms of the rows at these places; added rows are an atom of their own."""
    added = np.ones(len(fresh.by_key[ROWS].atoms), dtype=np.bool_)
    added[places] = False
    by_key = {ROWS: _with_added(stored, ROWS, fresh.by_key[ROWS], places, added)}
    for column, key in fresh.gaps.items():
        if key in by_key or column not in stored.columns:
            continue
        by_key[key] = now = _with_added(stored, stored.gaps.get(column, ROWS), fresh.by_key[key], places, added)
        few = 0 < int((added & (now.atoms >= 0)).sum()) < fewest
        same = np.array_equal(now.atoms[places] >= 0, fresh.by_key[key].atoms[places] >= 0)
        if few or not same:
            raise ReleaseError(
                f"column {quote([column])} has {'few new' if few else 'other missing'} values since it was first told of. "
                f"{_CONSENT}"
            )
    return Atoms({**fresh.by_key, **by_key}, fresh.gaps)


def _with_added(stored: _Stored, key: str, fresh: Partition, places: IntArray, added: BoolArray) -> Partition:
    before = np.frombuffer(stored.atoms[key], dtype=np.int32)
    atoms, pinned = np.empty(len(added), dtype=np.int32), np.zeros(len(added), dtype=np.bool_)
    atoms[places] = before
    atoms[added] = int(before.max(initial=-1)) + 1
    bits = np.frombuffer(stored.pinned[key], dtype=np.uint8)
    pinned[places] = np.unpackbits(bits, count=len(before)).astype(np.bool_)
    return Partition(np.where(added & (fresh.atoms < 0), -1, atoms), pinned)
