"""A study, or the public part of one, as one file: no pickle, a version number, a checksum over the content.

::

    8 bytes   INTARSIA, or INTARPUB for a public file
    2 bytes   version of this layout, big-endian: 2, or 1 for a public file
    32 bytes  SHA-256 of the content
    the rest  the content: one MessagePack map, :class:`~intarsia.results.stored.StoredStudy` or
              :class:`~intarsia.results.public.PublicStudy`

The content of a study is what the coordinator knows: model, local clusters, rounds, the record of the run. Labels belong to
the participants and are written only on request. A public file has nothing of a single participant.
"""

from __future__ import annotations

import os
import struct
from hashlib import sha256
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import msgspec

from intarsia._files import write_atomically
from intarsia._version import __version__
from intarsia.exceptions import ModelFileError, OutputError, ProtocolError
from intarsia.protocol.wire import expect_array, pack_array, unpack_array
from intarsia.results.outcome import Outcome, RunRecord
from intarsia.results.public import PublicStudy
from intarsia.results.public_checks import problems_of_public
from intarsia.results.stored import Labels, StoredStudy, outcome_from, stored_from
from intarsia.results.stored_checks import problems_of

MAGIC = b"INTARSIA"
VERSION = 2
PUBLIC_MAGIC = b"INTARPUB"
PUBLIC_VERSION = 1
HEADER = len(MAGIC) + 2 + 32

_Content = TypeVar("_Content", StoredStudy, PublicStudy)


class _Kind(NamedTuple, Generic[_Content]):
    """A kind of file: its first bytes, its version, what it is called, and its content."""

    magic: bytes
    version: int
    name: str
    decoder: msgspec.msgpack.Decoder[_Content]


def _decoder(content: type[_Content]) -> msgspec.msgpack.Decoder[_Content]:
    return msgspec.msgpack.Decoder(content, dec_hook=expect_array, ext_hook=unpack_array)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=pack_array)
_STUDY = _Kind(MAGIC, VERSION, "saved study", _decoder(StoredStudy))
_PUBLIC = _Kind(PUBLIC_MAGIC, PUBLIC_VERSION, "public model", _decoder(PublicStudy))


def save(
    path: str | os.PathLike[str],
    outcome: Outcome,
    names_in_order: tuple[str, ...],
    run: RunRecord,
    labels: Labels | None = None,
    local_labels: Labels | None = None,
    *,
    numbered: bool = False,
) -> None:
    """Write an outcome and the record of its run to a file, which is replaced only once everything is written.

    With labels, only its owner can read the file.
    """
    stored = stored_from(outcome, names_in_order, run, labels, local_labels, numbered=numbered)
    if (problem := next(problems_of(stored), None)) is not None:
        raise ModelFileError(f"this study cannot be saved: {problem}.")
    try:
        write_atomically(Path(path), to_bytes(stored), secret=labels is not None or local_labels is not None)
    except OutputError as error:
        raise ModelFileError(str(error)) from error


def load(path: str | os.PathLike[str]) -> tuple[Outcome, StoredStudy]:
    """Read and check a file that :func:`save` wrote; return the outcome and all that the file contains."""
    stored = from_bytes(_bytes_of(Path(path)), Path(path).name)
    if (problem := next(problems_of(stored), None)) is not None:
        raise ModelFileError(f"{Path(path).name} is invalid: {problem}.")
    return outcome_from(stored), stored


def load_public(path: str | os.PathLike[str]) -> PublicStudy | None:
    """Read and check a public file; return None if the file begins like another."""
    raw = _bytes_of(Path(path))
    return public_from_bytes(raw, Path(path).name) if raw.startswith(PUBLIC_MAGIC) else None


def save_public(path: str | os.PathLike[str], stored: PublicStudy) -> None:
    """Write a public file, which is replaced only once everything is written."""
    try:
        write_atomically(Path(path), public_to_bytes(stored))
    except OutputError as error:
        raise ModelFileError(str(error)) from error


def public_to_bytes(stored: PublicStudy) -> bytes:
    """Return the bytes of a public file with this content, which is checked."""
    if (problem := next(problems_of_public(stored), None)) is not None:
        raise ModelFileError(f"this model cannot be shared: {problem}.")
    return _packed(_PUBLIC, stored)


def public_from_bytes(raw: bytes, name: str) -> PublicStudy:
    """Return the checked content of a public file; ``name`` is used in errors."""
    stored = _unpacked(_PUBLIC, raw, name)
    if (problem := next(problems_of_public(stored), None)) is not None:
        raise ModelFileError(f"{name} is invalid: {problem}.")
    return stored


def to_bytes(stored: StoredStudy) -> bytes:
    """Return the bytes of a file with this content."""
    return _packed(_STUDY, stored)


def from_bytes(raw: bytes, name: str) -> StoredStudy:
    """Return the content of a file; ``name`` is used in errors. Values are not checked yet, only types."""
    if raw.startswith(PUBLIC_MAGIC):
        raise ModelFileError(
            f"{name} is a public model, which labels and explains, but has no record of the run. Hint: the study's own file."
        )
    return _unpacked(_STUDY, raw, name)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}.") from error


def _packed(kind: _Kind[_Content], stored: _Content) -> bytes:
    content = _ENCODER.encode(stored)
    return kind.magic + struct.pack(">H", kind.version) + sha256(content).digest() + content


def _unpacked(kind: _Kind[_Content], raw: bytes, name: str) -> _Content:
    if not raw.startswith(kind.magic) or len(raw) < HEADER:
        raise ModelFileError(f"{name} is not a {kind.name}{' (a CSV file?)' if _is_text(raw) else ''}.")
    (version,) = struct.unpack_from(">H", raw, len(kind.magic))
    if version != kind.version:
        hint = "install a newer intarsia" if version > kind.version else "fit and save the study again"
        raise ModelFileError(
            f"{name} has format version {version}; intarsia {__version__} reads version {kind.version}. Hint: {hint}."
        )
    content = raw[HEADER:]
    if sha256(content).digest() != raw[len(kind.magic) + 2 : HEADER]:
        raise ModelFileError(f"{name} is damaged: its checksum does not match. Hint: copy or save it again.")
    try:
        return kind.decoder.decode(content)
    except (msgspec.DecodeError, ProtocolError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{name} cannot be read ({type(error).__name__}).") from None


def _is_text(raw: bytes) -> bool:
    start = raw[:1000].decode(errors="ignore")
    return bool(start) and all(character.isprintable() or character.isspace() for character in start)
