"""Ctrl-C and SIGTERM: files are written completely or not at all, and an interrupted command says which."""

from __future__ import annotations

import os
import signal
import socket
import threading
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


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does in this block, so that temporary files are removed.

    Python would see the signal only after a library has returned, which may wait for a server. A thread is told at once, and
    sends what the library listens to.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    listens = callable(signal.getsignal(signal.SIGINT))  # not so in the background of some shells
    reading, writing = socket.socketpair()
    writing.settimeout(0)
    thread = threading.Thread(target=_forward, args=(reading,), daemon=True)
    former = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    before = signal.signal(signal.SIGTERM, (lambda *_: None) if listens else signal.default_int_handler)
    try:
        if listens:
            thread.start()
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.set_wakeup_fd(former)
        writing.close()
        if listens:
            thread.join()
        reading.close()


def _forward(signals: socket.socket) -> None:
    while numbers := signals.recv(16):
        if signal.SIGTERM in numbers:
            os.kill(os.getpid(), signal.SIGINT)


def written(path: Path) -> None:
    """Record that a file or folder has been written completely."""
    _written.append(path)


def message_when_interrupted() -> str:
    """Return the last message of an interrupted command."""
    if _written:
        return f"interrupted, but {_written[-1]} was already written and is complete."
    return "interrupted; nothing was written. Run the same command to start again."
