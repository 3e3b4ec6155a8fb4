"""How requests travel. Names are loaded when first used: a coordinator need not load what participants compute with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intarsia.runtime.drive import Runtime, Watcher, drive
    from intarsia.runtime.in_process import InProcessRuntime
    from intarsia.runtime.processes import Joining, ParallelRuntime
    from intarsia.runtime.recorder import Recorder
    from intarsia.runtime.transcript import Transcript

_HOME = {
    "Runtime": "drive",
    "Watcher": "drive",
    "drive": "drive",
    "InProcessRuntime": "in_process",
    "Recorder": "recorder",
    "Joining": "processes",
    "ParallelRuntime": "processes",
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
