"""How requests travel. Names are loaded when first used: a coordinator need not load what participants compute with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intarsia.runtime.base import Runtime, Watcher, drive
    from intarsia.runtime.in_process import InProcessRuntime
    from intarsia.runtime.log import Recorder
    from intarsia.runtime.parallel import Joining, ParallelRuntime
    from intarsia.runtime.transcript import Transcript

_HOME = {
    "Runtime": "base",
    "Watcher": "base",
    "drive": "base",
    "InProcessRuntime": "in_process",
    "Recorder": "log",
    "Joining": "parallel",
    "ParallelRuntime": "parallel",
    "Transcript": "transcript",
}

__all__ = [
    "InProcessRuntime",
    "Joining",
    "ParallelRuntime",
    "Recorder",
    "Runtime",
    "Transcript",
    "Watcher",
    "drive",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
