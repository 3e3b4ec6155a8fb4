"""Files: written whole or not at all, locked by one process, and TOML read with one kind of error."""

from __future__ import annotations

import os
import stat
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

from intarsia.exceptions import InputError, OutputError

_MOST_LEVELS = 20  # of tables and lists within each other in a TOML file
TEMPORARY = ".intarsia-*"  # the files that an interrupted write leaves behind


def write_atomically(
    path: Path, content: bytes | Iterable[bytes] | Callable[[IO[bytes]], None], *, secret: bool = False
) -> None:
    """Write a file completely or not at all: to a temporary file first, which then takes the place of ``path``.

    ``content`` are bytes, parts of them, or a function that writes them to an open file. A ``secret`` file can be read by
    its owner only, from its first byte on. Otherwise the permissions of a file that already exists are kept.
    """
    try:
        target = path.resolve()
    except (OSError, RuntimeError) as error:  # a RuntimeError until Python 3.12
        raise OutputError(f"{path} cannot be written: it is a link that leads to itself.") from error
    try:
        _replace(target, content, secret=secret)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}.") from error


def _replace(target: Path, content: bytes | Iterable[bytes] | Callable[[IO[bytes]], None], *, secret: bool) -> None:
    if target.exists() and not target.is_file():
        raise OutputError(f"{target} already exists and is not a file.")
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY.rstrip("*"), dir=target.parent)
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(handle, 0o600)  # also under a umask that takes away the owner's permissions
        with os.fdopen(handle, "wb") as file:
            if callable(content):
                content(file)
            else:
                file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        if not secret:
            mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~umask()
            os.chmod(temporary, mode)  # noqa: PTH101
        Path(temporary).replace(target)
        sync_folder(target.parent)
    finally:
        Path(temporary).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make new names in a folder durable, where the operating system can promise it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def umask() -> int:
    """Return the permissions that new files of this process do not get."""
    current = os.umask(0o077)
    os.umask(current)
    return current


def open_private(path: Path) -> IO[bytes]:
    """Open a file to append to it and to read it; only its owner can, also where it exists already."""
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    if hasattr(os, "fchmod"):
        with suppress(PermissionError):  # the file of another user, who shares it with this one
            os.fchmod(handle, 0o600)
    return os.fdopen(handle, "ab+")


def lock(file: int, *, wait: bool = True) -> bool:
    """Lock an open file until it is closed or the process ends. Without ``wait``, return False if somebody else has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, or raise an InputError that names the file and quotes nothing of it."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except RecursionError:
        raise _too_deep(path) from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise InputError(f"{path} is not valid TOML ({type(error).__name__}).") from error
    level: list[Any] = [document]
    for _ in range(_MOST_LEVELS):
        level = [child for part in level for child in (part.values() if isinstance(part, dict) else part)]
        level = [child for child in level if isinstance(child, dict | list)]
        if not level:
            return document
    raise _too_deep(path)


def _too_deep(path: Path) -> InputError:
    return InputError(f"{path} has tables or lists within each other, more than {_MOST_LEVELS} levels deep.")
