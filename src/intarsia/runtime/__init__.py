"""How requests travel."""

from intarsia.runtime.base import Runtime, Watcher, drive
from intarsia.runtime.in_process import InProcessRuntime
from intarsia.runtime.log import Recorder

__all__ = ["InProcessRuntime", "Recorder", "Runtime", "Watcher", "drive"]
