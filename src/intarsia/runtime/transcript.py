"""The transcript of a run: all replies, kept on disk, so that an interrupted run continues where it was.

An algorithm is two pure functions, so its state is not kept: a resumed run asks the algorithm again what to ask, and gives
it the replies from the transcript. ::

    transcript/
      lock                held by the one process that runs
      0000/               an exchange
        questions         the participants that were asked, and the digest of every request
        00.reply          the first participant's reply, in the bytes that arrived
        01.reply
        closed            the participants whose replies were used, where some did not answer

Each file is written completely or not at all, and has a checksum: a damaged file counts as a missing one. A reply is kept
with the digest of its request, so that it cannot be taken for the reply to another request.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from intarsia._files import TEMPORARY, lock, sync_folder, write_atomically
from intarsia.exceptions import OutputError, ProtocolError, TranscriptError, quote
from intarsia.protocol import Failure, Reply, Request, decode_reply, encode

_MAGIC = b"INTARSIA-RUN-1\n"
_DIGEST = 32
_Kind = TypeVar("_Kind")


class Questions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The participants that were asked, each with the digest of its request."""

    digests: dict[str, bytes]


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One participant's reply in bytes, and the digest of the request that it answers."""

    participant: str
    digest: bytes
    seconds: float
    reply: bytes


class Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The participants whose replies an exchange used, and why the replies of others were refused."""

    names: tuple[str, ...]
    refused: dict[str, str] = {}


class InUseError(TranscriptError):
    """Another process uses the folder. It may end soon."""


class Transcript:
    """The replies of one run, in a folder. A folder that exists already is continued."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        with _disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("ab")
        if not lock(self._lock.fileno(), wait=False):
            self._lock.close()
            raise InUseError(f"{self.folder} is in use: another process is running this study.")
        for unfinished in self.folder.rglob(TEMPORARY):
            unfinished.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock on the folder."""
        self._lock.close()

    @property
    def n_answers(self) -> int:
        """Number of replies that are kept."""
        return sum(1 for _ in self.folder.glob("*/*.reply"))

    def opened(self, exchange: int, requests: Mapping[str, Request]) -> dict[str, tuple[Reply, float]]:
        """Begin an exchange or resume it, and return the replies that are kept already, with their seconds.

        Raises
        ------
        TranscriptError
            The exchange was begun with other requests.
        """
        digests = {name: sha256(encode(request)).digest() for name, request in requests.items()}
        folder = self.folder / f"{exchange:04d}"
        asked = read_file(folder / "questions", Questions)
        if asked is None:
            with _disk_errors(folder):
                folder.mkdir(exist_ok=True)
                sync_folder(self.folder)
                _write(folder / "questions", Questions(digests))
        elif asked.digests != digests:
            raise TranscriptError(self._what_differs(exchange, asked.digests, digests))
        kept = {}
        for name, digest in digests.items():
            answer = read_file(self._path(exchange, name, digests), Answer)
            if answer is None or answer.participant != name:
                continue
            if answer.digest != digest:  # the file of questions was damaged, and other questions were asked
                raise TranscriptError(self._what_differs(exchange, {name: answer.digest}, {name: digest}))
            try:
                kept[name] = decode_reply(answer.reply), answer.seconds
            except ProtocolError as error:
                raise TranscriptError(
                    f"the reply of {name!r} in exchange {exchange} of {self.folder} has another version: {error}. "
                    "Hint: use the version that began this run, or begin a new run."
                ) from None
        return kept

    def keep(self, exchange: int, requests: Mapping[str, Request], name: str, reply: Reply, seconds: float) -> None:
        """Write a reply. A failure is not kept: a resumed run asks again."""
        if isinstance(reply, Failure):
            return
        digest = sha256(encode(requests[name])).digest()
        path = self._path(exchange, name, requests)
        with _disk_errors(path):
            _write(path, Answer(name, digest, float(seconds), encode(reply)))

    def forget(self, exchange: int, requests: Mapping[str, Request], name: str) -> None:
        """Delete a reply that cannot be used, so that a resumed run asks again."""
        with _disk_errors(self.folder):
            self._path(exchange, name, requests).unlink(missing_ok=True)

    def closed(self, exchange: int) -> Closed | None:
        """Return whose replies an exchange used; None if it was not settled without some participants."""
        return read_file(self.folder / f"{exchange:04d}" / "closed", Closed)

    def close_exchange(self, exchange: int, names: tuple[str, ...], refused: Mapping[str, str]) -> None:
        """Settle an exchange with the replies of these participants. A resumed run does the same."""
        with _disk_errors(self.folder):
            _write(self.folder / f"{exchange:04d}" / "closed", Closed(names, dict(refused)))

    def _path(self, exchange: int, name: str, asked: Mapping[str, Any]) -> Path:
        """The file of a reply, by the position of the participant's name: a name need not be a valid file name."""
        return self.folder / f"{exchange:04d}" / f"{sorted(asked).index(name):02d}.reply"

    def _what_differs(self, exchange: int, before: Mapping[str, bytes], now: Mapping[str, bytes]) -> str:
        others = sorted(before.keys() ^ now.keys())
        changed = [name for name in now if name in before and before[name] != now[name]]
        what = f"other participants: {quote(others)}" if others else f"other requests to {quote(changed)}"
        return (
            f"{self.folder} is the transcript of another run: exchange {exchange} had {what}. "
            "Hint: the study, the version or the code has changed since. Begin a new run, or undo the change."
        )


def _write(path: Path, content: Questions | Answer | Closed) -> None:
    body = msgspec.msgpack.encode(content)
    write_atomically(path, _MAGIC + sha256(body).digest() + body, secret=True)


def read_file(path: Path, kind: type[_Kind]) -> _Kind | None:
    """Return the content of a file of a transcript; None if it is missing or damaged."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    head, body = raw[: len(_MAGIC) + _DIGEST], raw[len(_MAGIC) + _DIGEST :]
    if head != _MAGIC + sha256(body).digest():
        return None
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None


@contextmanager
def _disk_errors(where: Path) -> Iterator[None]:
    """Turn an error of the disk into a TranscriptError."""
    try:
        yield
    except OSError as error:
        raise TranscriptError(f"{where} cannot be written: {error.strerror}.") from error
    except OutputError as error:
        raise TranscriptError(str(error)) from error
