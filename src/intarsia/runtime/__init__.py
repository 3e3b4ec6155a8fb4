"""How requests travel."""

from intarsia.runtime.base import Runtime, Watcher, drive
from intarsia.runtime.in_process import InProcessRuntime
from intarsia.runtime.log import Recorder
from intarsia.runtime.transcript import Transcript

__all__ = ["InProcessRuntime", "Recorder", "Runtime", "Transcript", "Watcher", "drive"]
