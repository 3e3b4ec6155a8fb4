"""What was answered in a run, kept on disk, so that a run that dies goes on where it was.

An algorithm is two pure functions, so nothing of its state is kept: whoever resumes asks it again what to ask, and gives
it the replies that are there. ::

    transcript/
      lock                one run at a time
      0000/               an exchange
        questions         who was asked, and the digest of every request
        00.reply          the first participant's answer, as soon as it came
        01.reply
        closed            whose answers it was left with, where some stayed away

Every file is written whole or not at all, and carries a checksum: one that is damaged counts as one that never came. A reply
names the request that it answers, so that it cannot be taken for an answer to anything else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from intarsia._files import TEMPORARY, lock, sync_folder, write_atomically
from intarsia.exceptions import OutputError, ProtocolError, TranscriptError, quote
from intarsia.protocol import Failure, Reply, Request, decode_reply, encode

_MAGIC = b"INTARSIA-RUN-1\n"
_DIGEST = 32
_Kind = TypeVar("_Kind")


class Questions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who was asked, and the digest of what."""

    digests: dict[str, bytes]


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One participant's reply, encoded, and what it answers."""

    participant: str
    digest: bytes
    seconds: float
    reply: bytes


class Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose answers an exchange was left with, and why others' could not be used."""

    names: tuple[str, ...]
    refused: dict[str, str] = {}


class Answered(NamedTuple):
    """A reply that came before, and how long it took then."""

    reply: Reply
    seconds: float


class InUseError(TranscriptError):
    """Another process has the folder; it may let go of it soon."""


class Transcript:
    """The replies of one run, in a folder. Made anew it is empty; over a folder that is there it knows what was answered."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        with _said(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("ab")
        if not lock(self._lock.fileno(), wait=False):
            self._lock.close()
            raise InUseError(f"{self.folder} is in use: this run is going on elsewhere.")
        for left in self.folder.rglob(TEMPORARY):
            left.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let others have the folder."""
        self._lock.close()

    @property
    def n_exchanges(self) -> int:
        """How many exchanges were begun."""
        return sum(1 for path in self.folder.iterdir() if path.is_dir() and path.name.isdigit())

    @property
    def n_answers(self) -> int:
        """How many replies are there."""
        return sum(1 for _ in self.folder.glob("*/*.reply"))

    def opened(self, exchange: int, requests: Mapping[str, Request]) -> dict[str, Answered]:
        """Begin an exchange, or come back to it: the replies that are there already.

        Raises
        ------
        TranscriptError
            Something else was asked in this exchange before.
        """
        digests = {name: sha256(encode(request)).digest() for name, request in requests.items()}
        folder = self.folder / f"{exchange:04d}"
        asked = _read(folder / "questions", Questions)
        if asked is None:
            with _said(folder):
                folder.mkdir(exist_ok=True)
                sync_folder(self.folder)
                _write(folder / "questions", Questions(digests))
        elif asked.digests != digests:
            raise TranscriptError(self._what_differs(exchange, asked.digests, digests))
        found = {}
        for name, digest in digests.items():
            answer = _read(self._place(exchange, name, digests), Answer)
            if answer is None or answer.participant != name:
                continue
            if answer.digest != digest:  # the questions were damaged, and were others
                raise TranscriptError(self._what_differs(exchange, {name: answer.digest}, {name: digest}))
            try:
                found[name] = Answered(decode_reply(answer.reply), answer.seconds)
            except ProtocolError as error:
                raise TranscriptError(
                    f"what {name!r} answered in exchange {exchange} of {self.folder} is of another version: {error}. "
                    "Hint: the version that began this run, or a new run."
                ) from None
        return found

    def keep(self, exchange: int, requests: Mapping[str, Request], name: str, reply: Reply, seconds: float) -> None:
        """Write a reply down. A failure is not one: whoever resumes asks again."""
        if isinstance(reply, Failure):
            return
        digest = sha256(encode(requests[name])).digest()
        where = self._place(exchange, name, requests)
        with _said(where):
            _write(where, Answer(name, digest, float(seconds), encode(reply)))

    def forget(self, exchange: int, requests: Mapping[str, Request], name: str) -> None:
        """An answer that cannot be used is not one."""
        with _said(self.folder):
            self._place(exchange, name, requests).unlink(missing_ok=True)

    def closed(self, exchange: int) -> Closed | None:
        """Whose answers the exchange was left with; None if everybody's are still waited for."""
        return _read(self.folder / f"{exchange:04d}" / "closed", Closed)

    def close_exchange(self, exchange: int, names: tuple[str, ...], refused: Mapping[str, str]) -> None:
        """Go on with the answers of these. Whoever resumes does so as well."""
        with _said(self.folder):
            _write(self.folder / f"{exchange:04d}" / "closed", Closed(names, dict(refused)))

    def _place(self, exchange: int, name: str, asked: Mapping[str, Any]) -> Path:
        """Participants by position in the order of names: a name may be no name of a file."""
        return self.folder / f"{exchange:04d}" / f"{sorted(asked).index(name):02d}.reply"

    def _what_differs(self, exchange: int, before: Mapping[str, bytes], now: Mapping[str, bytes]) -> str:
        others = sorted(before.keys() ^ now.keys())
        changed = [name for name in now if name in before and before[name] != now[name]]
        what = f"other participants: {quote(others)}" if others else f"other questions, to {quote(changed)}"
        return (
            f"{self.folder} is the record of another run: exchange {exchange} had {what}. "
            "Hint: the study, the version or the code has changed since; begin a new run, or go back to what it was."
        )


def _write(path: Path, thing: Questions | Answer | Closed) -> None:
    body = msgspec.msgpack.encode(thing)
    write_atomically(path, _MAGIC + sha256(body).digest() + body)


def _read(path: Path, kind: type[_Kind]) -> _Kind | None:
    """What was written, or None if nothing was, or it is damaged."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    head, body = raw[: len(_MAGIC) + _DIGEST], raw[len(_MAGIC) + _DIGEST :]
    if head != _MAGIC + sha256(body).digest():
        return None
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.DecodeError:
        return None


@contextmanager
def _said(where: Path) -> Iterator[None]:
    """An error of the disk as one of ours."""
    try:
        yield
    except OSError as error:
        raise TranscriptError(f"{where} cannot be written: {error.strerror}.") from error
    except OutputError as error:
        raise TranscriptError(str(error)) from error
