"""The machine: versions of Python and libraries, memory and disk."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from intarsia._version import __version__
from intarsia.exceptions import FederationError, install
from intarsia.federation.doctor.finding import Finding, State
from intarsia.federation.flare.engine import check_engine
from intarsia.federation.study_file import Study

MB = 1024 * 1024
OLDEST_PYTHON = (3, 11)
PROCESS_MEMORY = 350 * MB  # what a site or a server takes during a run, without the table
LEAST_DISK = 500 * MB  # replies, logs and labels of a study
_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def versions(study: Study | None) -> Iterator[Finding]:
    """Look at Python, at the engine, and at the libraries that the study's protection needs."""
    python = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        yield Finding("versions", State.FAULT, f"Python {python}", "Install Python 3.11 or newer.")
    needed = {"opendp": "private"} if study is not None and study.privacy is not None else {}
    if study is not None and study.secure_sums:
        needed |= {"cryptography": "secure", "pycryptodome": "secure"}
    for library, extra in needed.items():
        if _version(library) is None:
            seen = f"the study needs {library}, which is not installed"
            yield Finding("versions", State.FAULT, seen, _how_to_install("cli", "flare", extra))
    try:
        check_engine()
    except FederationError as error:
        seen = str(error).partition(" Hint: ")[0]
        yield Finding("versions", State.FAULT, seen, _how_to_install("cli", "flare"))
        return
    seen = f"intarsia {__version__}, Python {python}, nvflare {_version('nvflare')}"
    yield Finding("versions", State.FINE, seen, "Compare intarsia's version with the other machines.")


def _how_to_install(*extras: str) -> str:
    hint = install(*extras).removeprefix("Hint: ")
    return f"Install the same version on every machine: install.sh of the wheelhouse, or {hint}"


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def memory(table_bytes: int | None) -> Finding:
    """Compare the memory that is available with what a run takes; ``table_bytes`` is the table in memory as numbers."""
    needed = PROCESS_MEMORY + 3 * (table_bytes or 0)
    free = available_memory()
    if free is None:
        return Finding("memory", State.SKIPPED, "this system does not say how much memory is available")
    seen = f"{free // MB} MB are available, and a run needs about {needed // MB} MB"
    if free < needed:
        remedy = "End other programs, give the machine or container more memory, "
        remedy += "or set INTARSIA_MEMORY_LIMIT=10000000: a Parquet table that is larger is then read in batches."
        return Finding("memory", State.FAULT, seen, remedy)
    return Finding("memory", State.FINE, seen)


def available_memory() -> int | None:
    """Return the bytes that this process may still use: of the machine, its container, and its own limit."""
    limits = [*_of_machine(), *_of_container(), *_of_process()]
    return max(0, min(limits)) if limits else None


def _of_machine() -> Iterator[int]:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024


def _of_container() -> Iterator[int]:
    for limit, used in _CGROUPS:
        with suppress(OSError, ValueError):  # "max" is no number: there is no limit
            yield int(Path(limit).read_text(encoding="ascii")) - int(Path(used).read_text(encoding="ascii"))


def _of_process() -> Iterator[int]:
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            yield limit - pages * os.sysconf("SC_PAGE_SIZE")


def disk(folder: Path) -> Finding:
    """Look at the space in the folder where a kit keeps replies, logs and labels, and whether it can be written."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("disk", State.FAULT, f"{folder}: {error.strerror}", "Check the path and its permissions.")
    seen = f"{free // MB} MB are free at {folder}"
    if free < LEAST_DISK:
        remedy = f"Free some space: replies, logs and labels of a study take up to {LEAST_DISK // MB} MB."
        return Finding("disk", State.FAULT, seen, remedy)
    if not os.access(folder, os.W_OK):
        return Finding("disk", State.FAULT, f"this user cannot write to {folder}", f"chown -R the user to {folder}.")
    return Finding("disk", State.FINE, seen)
