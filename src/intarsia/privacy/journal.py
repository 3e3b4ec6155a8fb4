"""The journal of a participant: one line for every request that is counted, and one for every reply that left.

A study has one journal at each participant. A line is a JSON object without data: ``event`` is ``asked``, ``refused`` (not
a request of the study; ``why``), ``left``, or ``agreed`` (consent was given anew, and a new run may begin); ``request`` is
the tag of the request and ``digest`` the SHA-256 of its bytes. A line about a reply also has its tag, the number
and the SHA-256 of its bytes, what was suppressed, and of each field the entries, the bytes and the smallest number of rows
behind an entry.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from intarsia._files import lock, open_private
from intarsia.protocol import Reply, Request, encode, tag_of
from intarsia.protocol.catalogue import account_of

ASKED, LEFT, REFUSED, AGREED = "asked", "left", "refused", "agreed"


class Journal:
    """One file of JSON lines. Each line is on disk before the reply leaves, and several processes may write."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self, event: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield all entries, or those of one event; a line that was cut off is skipped."""
        if not self.path.exists():
            return
        for line in self.path.read_bytes().splitlines():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict) and event in {None, entry.get("event")}:
                yield entry

    def write_reply(
        self,
        reply: Reply,
        request: Request | None,
        suppressed: Mapping[str, int] | None = None,
        data: bytes | None = None,
    ) -> None:
        """Write that a reply is about to leave as these bytes; ``request`` is None if it could not be read.

        ``suppressed`` says how much the release policy changed or suppressed in it, which nobody else gets to know.
        """
        with self.locked() as journal:
            journal.append(entry_of(reply, request, suppressed or {}, encode(reply) if data is None else data))

    @contextmanager
    def locked(self) -> Iterator[LockedJournal]:
        """Keep all other writers out, also those of other processes."""
        with open_private(self.path) as file:
            lock(file.fileno())
            yield LockedJournal(self, file)


class LockedJournal:
    """A journal that nobody else writes to meanwhile."""

    def __init__(self, journal: Journal, file: IO[bytes]) -> None:
        self._file = file
        self.entries = journal.entries

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write one line, and return when it is on disk."""
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="seconds"), **entry}, ensure_ascii=False) + "\n"
        file = self._file
        file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
        complete = file.read(1) in {b"", b"\n"}
        file.write((line if complete else "\n" + line).encode())
        file.flush()
        os.fsync(file.fileno())


def digest_of(request: Request) -> str:
    """Return the SHA-256 of a request's bytes, by which the same request is recognised."""
    return sha256(encode(request)).hexdigest()


def entry_of(reply: Reply, request: Request | None, suppressed: Mapping[str, int], data: bytes) -> dict[str, Any]:
    """Return the entry of a reply that leaves as these bytes."""
    return {
        "event": LEFT,
        "request": None if request is None else tag_of(request),
        "digest": None if request is None else digest_of(request),
        "reply": tag_of(reply),
        "fields": account_of(reply),
        "suppressed": {what: n for what, n in sorted(suppressed.items()) if n},
        "bytes": len(data),
        "sha256": sha256(data).hexdigest(),
    }
