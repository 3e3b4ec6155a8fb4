"""How requests travel."""

from intarsia.runtime.base import Runtime, Watcher, drive
from intarsia.runtime.in_process import InProcessRuntime

__all__ = ["InProcessRuntime", "Runtime", "Watcher", "drive"]
