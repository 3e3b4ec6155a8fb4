"""A study as one file: no pickle, a version number, a checksum over the content.

::

    8 bytes   INTARSIA
    2 bytes   version of this layout, big-endian: 2
    32 bytes  SHA-256 of the content
    the rest  the content: one MessagePack map, :class:`~intarsia.results.stored.StoredStudy`

The content is what the coordinator knows: model, local clusters, rounds, the record of the run. Labels belong to the
participants and are written only on request.
"""

from __future__ import annotations

import os
import struct
from hashlib import sha256
from pathlib import Path

import msgspec

from intarsia._files import write_atomically
from intarsia._version import __version__
from intarsia.exceptions import ModelFileError, OutputError, ProtocolError
from intarsia.protocol.wire import expect_array, pack_array, unpack_array
from intarsia.results.outcome import Outcome, RunRecord
from intarsia.results.stored import Labels, StoredStudy, outcome_from, stored_from
from intarsia.results.stored_checks import problems_of

MAGIC = b"INTARSIA"
VERSION = 2
HEADER = len(MAGIC) + 2 + 32

_ENCODER = msgspec.msgpack.Encoder(enc_hook=pack_array)
_DECODER = msgspec.msgpack.Decoder(StoredStudy, dec_hook=expect_array, ext_hook=unpack_array)


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
    where = Path(path)
    try:
        raw = where.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{where} cannot be read: {error.strerror}.") from error
    stored = from_bytes(raw, where.name)
    if (problem := next(problems_of(stored), None)) is not None:
        raise ModelFileError(f"{where.name} is invalid: {problem}.")
    return outcome_from(stored), stored


def to_bytes(stored: StoredStudy) -> bytes:
    """Return the bytes of a file with this content."""
    content = _ENCODER.encode(stored)
    return MAGIC + struct.pack(">H", VERSION) + sha256(content).digest() + content


def from_bytes(raw: bytes, name: str) -> StoredStudy:
    """Return the content of a file; ``name`` is used in errors. Values are not checked yet, only types."""
    if raw[: len(MAGIC)] != MAGIC or len(raw) < HEADER:
        raise ModelFileError(
            f"{name} is not a saved study: it does not begin with {MAGIC.decode()} ({len(raw)} bytes)."
        )
    (version,) = struct.unpack_from(">H", raw, len(MAGIC))
    if version != VERSION:
        hint = "install a newer intarsia" if version > VERSION else "fit and save the study again"
        raise ModelFileError(
            f"{name} has format version {version}; intarsia {__version__} reads version {VERSION}. Hint: {hint}."
        )
    content = raw[HEADER:]
    if sha256(content).digest() != raw[len(MAGIC) + 2 : HEADER]:
        raise ModelFileError(f"{name} is damaged: its checksum does not match. Hint: copy or save it again.")
    try:
        return _DECODER.decode(content)
    except (msgspec.DecodeError, ProtocolError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{name} cannot be read ({type(error).__name__}).") from None
