"""Files: written whole or not at all, locked by one process, and TOML read with one kind of error."""

from __future__ import annotations

import os
import stat
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

from intarsia.exceptions import InputError, OutputError

TEMPORARY = ".intarsia-*"  # the files that an interrupted write leaves behind


def write_atomically(path: Path, content: bytes | Iterable[bytes], *, secret: bool = False) -> None:
    """Write a file completely or not at all: to a temporary file first, which then takes the place of ``path``.

    A ``secret`` file can be read by its owner only, from its first byte on. Otherwise the permissions of a file that
    already exists are kept.
    """
    try:
        _replace(path.resolve(), [content] if isinstance(content, bytes) else content, secret=secret)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}.") from error


def _replace(target: Path, parts: Iterable[bytes], *, secret: bool) -> None:
    if target.exists() and not target.is_file():
        raise OutputError(f"{target} already exists and is not a file.")
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY.rstrip("*"), dir=target.parent)  # mode 600
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
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
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML ({type(error).__name__}).") from error
