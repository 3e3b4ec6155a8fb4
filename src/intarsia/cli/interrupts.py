"""What Ctrl-C leaves behind: nothing, or something whole. And it says which."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

INTERRUPTED = 130
_written: list[Path] = []


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until this is done."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        signal.raise_signal(signal.SIGINT)


def written(path: Path) -> None:
    """Remember what is there now, and stays should Ctrl-C be pressed later."""
    _written.append(path)


def farewell() -> str:
    """What an interrupted command says."""
    if _written:
        return f"interrupted, but {_written[-1]} was written before, and is whole."
    return "interrupted; nothing was written. The same command starts again."
