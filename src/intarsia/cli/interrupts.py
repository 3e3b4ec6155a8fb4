"""Ctrl-C: files are written completely or not at all, and an interrupted command says which."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

INTERRUPTED = 130
_written: list[Path] = []


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the block has ended."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        signal.raise_signal(signal.SIGINT)


def written(path: Path) -> None:
    """Record that a file or folder has been written completely."""
    _written.append(path)


def message_when_interrupted() -> str:
    """Return the last message of an interrupted command."""
    if _written:
        return f"interrupted, but {_written[-1]} was already written and is complete."
    return "interrupted; nothing was written. Run the same command to start again."
