"""What commands write."""

from __future__ import annotations

from pathlib import Path

from intarsia.cli.interrupts import uninterrupted, written
from intarsia.exceptions import InputError


def write_text(path: Path, text: str) -> None:
    """Write a whole file, or say why it cannot be."""
    try:
        with uninterrupted():
            path.write_text(text, encoding="utf-8")
            written(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from error
