"""Where a ledger is: in files beside its table, or in memory for a table in memory. What it means is not known here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Protocol

from intarsia._files import TEMPORARY, lock, open_private, sync_folder, write_atomically
from intarsia.exceptions import InputError, OutputError

SUFFIX, ANSWERS = ".budget", ".answers"
DIGEST = re.compile(r"[0-9a-f]{64}")
_OURS = re.compile(r"\.(budget|answers|told)(\.|$)|^\.intarsia-")  # what participants write beside tables


class Store(Protocol):
    """The lines of a ledger, and the answers that it keeps."""

    name: str

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all others out, also other processes."""

    def read(self) -> bytes:
        """Return all lines."""

    def append(self, line: bytes, end: int) -> None:
        """Write a line after the first ``end`` bytes, and return when it is on disk; what follows them is cut off."""

    def digests(self) -> frozenset[str]:
        """Return the digests of the questions that have an answer."""

    def answer(self, digest: str) -> bytes | None:
        """Return the answer to a question, if there is one."""

    def keep(self, digest: str, data: bytes) -> None:
        """Write an answer completely or not at all, and return when it is on disk."""

    def restart(self, line: bytes, aside: str) -> Path | None:
        """Put lines and answers aside under a name that ends in ``aside``; start with this line and no answers."""

    def content(self) -> str:
        """Return the SHA-256 of the table."""


class OnDisk:
    """The ledger of a table in a file or folder: ``<table>.budget`` and, with the answers, the folder ``<table>.answers``.

    Links are followed, so that a table has one ledger whatever its path.
    """

    def __init__(self, table: Path) -> None:
        self.table = table.resolve()
        self.path = self._beside(SUFFIX)
        self.answers = self._beside(ANSWERS)
        self.name = str(self.path)

    def _beside(self, suffix: str) -> Path:
        return self.table.with_name(self.table.name + suffix)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all others out, also other processes."""
        try:
            file = open_private(self._beside(SUFFIX + ".lock"))
        except OSError as error:
            raise self._unwritable(error) from error
        with file:
            if not lock(file.fileno()):
                raise OutputError(
                    f"{self.name}, the ledger of the table, cannot be locked: the file system has no locks."
                )
            yield

    def read(self) -> bytes:
        """Return all lines."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise InputError(f"{self.name}, the ledger of the table, cannot be read: {error.strerror}.") from error

    def append(self, line: bytes, end: int) -> None:
        """Write a line after the first ``end`` bytes, and return when it is on disk; what follows them is cut off."""
        try:
            with open_private(self.path) as file:
                file.truncate(end)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            sync_folder(self.path.parent)
        except OSError as error:
            raise self._unwritable(error) from error

    def digests(self) -> frozenset[str]:
        """Return the digests of the questions that have an answer."""
        if not self.answers.is_dir():
            return frozenset()
        return frozenset(path.name for path in self.answers.iterdir() if DIGEST.fullmatch(path.name))

    def answer(self, digest: str) -> bytes | None:
        """Return the answer to a question, if there is one."""
        try:
            return (self.answers / digest).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"an answer in {self.answers} cannot be read: {error.strerror}.") from error

    def keep(self, digest: str, data: bytes) -> None:
        """Write an answer completely or not at all, and return when it is on disk."""
        try:
            self.answers.mkdir(mode=0o700, exist_ok=True)
            sync_folder(self.answers.parent)
            for unfinished in self.answers.glob(TEMPORARY):
                unfinished.unlink()
        except OSError as error:
            raise self._unwritable(error) from error
        write_atomically(self.answers / digest, data, secret=True)

    def restart(self, line: bytes, aside: str) -> Path | None:
        """Put lines and answers aside under a name that ends in ``aside``; start with this line and no answers.

        Answers go first. Where it is interrupted, an answer may cost a second time, but no line is ever lost.
        """
        old = self._beside(f"{SUFFIX}.{aside}")
        try:
            if self.answers.exists():
                self.answers.rename(self._beside(f"{ANSWERS}.{aside}"))
        except OSError as error:
            raise self._unwritable(error) from error
        write_atomically(old, self.read(), secret=True)
        write_atomically(self.path, line, secret=True)
        return old

    def content(self) -> str:
        """Return the SHA-256 of the table; of a folder, that of the names and digests of its files."""
        try:
            if not self.table.is_dir():
                return _digest_of(self.table)
            files = [path.relative_to(self.table) for path in sorted(self.table.rglob("*")) if path.is_file()]
            files = [path for path in files if not any(map(_OURS.search, path.parts))]
            named = [f"{path}\0{_digest_of(self.table / path)}" for path in files]
        except OSError as error:
            raise InputError(f"{self.table} cannot be read: {error.strerror}.") from error
        return sha256("\n".join(named).encode(errors="surrogateescape")).hexdigest()

    def _unwritable(self, error: OSError) -> OutputError:
        return OutputError(
            f"{self.name}, the ledger of the table, cannot be written: {error.strerror}. Hint: it stands beside the table, "
            "in a folder that must be writable."
        )


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


class InMemory:
    """The ledger of a table in memory, which lasts as long as the process."""

    name = "the ledger in memory"

    def __init__(self) -> None:
        self._lines = b""
        self._answers: dict[str, bytes] = {}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Do nothing more: the ledger itself keeps other threads out."""
        yield

    def read(self) -> bytes:
        """Return all lines."""
        return self._lines

    def append(self, line: bytes, end: int) -> None:
        """Append a line to the first ``end`` bytes."""
        self._lines = self._lines[:end] + line

    def digests(self) -> frozenset[str]:
        """Return the digests of the questions that have an answer."""
        return frozenset(self._answers)

    def answer(self, digest: str) -> bytes | None:
        """Return the answer to a question, if there is one."""
        return self._answers.get(digest)

    def keep(self, digest: str, data: bytes) -> None:
        """Keep an answer."""
        self._answers[digest] = data

    def restart(self, line: bytes, aside: str) -> Path | None:  # noqa: ARG002
        """Start with this line and no answers."""
        self._lines, self._answers = line, {}
        return None

    def content(self) -> str:
        """Return no digest: a table in memory is always the same one, so that its ledger is never reset."""
        return ""
