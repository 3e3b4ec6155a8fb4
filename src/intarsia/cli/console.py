"""What all commands share: where to print, and how a run is watched."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from intarsia.messages import Reply, Request
from intarsia.results import RoundInfo

PHASES = {
    "describe": "who has what",
    "summarize": "local clusters",
    "refine": "rounds",
    "label": "labels",
    "assign": "labels",
}

out = Console()
err = Console(stderr=True)


def print_json(thing: Any) -> None:
    """For machines: one JSON document on standard output, and nothing else."""
    sys.stdout.write(json.dumps(thing, ensure_ascii=False, indent=2) + "\n")


class Watch:
    """Shows how a run goes: a live line on a terminal, plain lines in a log; in its own words."""

    def __init__(self, *, quiet: bool) -> None:
        self._live = err.is_terminal and not quiet
        self._quiet = quiet
        self._progress = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20), TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(), console=err, transient=True,
        )  # fmt: skip
        self._task: TaskID | None = None
        self._round = 0

    def __enter__(self) -> Self:
        if self._live:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._progress.stop()

    def asking(self, phase: str, requests: Mapping[str, Request], last: RoundInfo | None) -> None:
        """A new exchange."""
        what, note = PHASES.get(phase, phase), ""
        if phase == "refine":
            self._round += 1
            what = f"round {self._round}"
        if last is not None:
            note = f"centroids moved by {last.movement:.2%} of their extent"
        if self._live:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._task = self._progress.add_task(what, total=len(requests), note=note)
        elif not self._quiet:
            stamp = time.strftime("%H:%M:%S")
            err.print(f"{stamp} {what}: {len(requests)} participants" + (f"; {note}" if note else ""), highlight=False)

    def answered(self, phase: str, name: str, reply: Reply, seconds: float) -> None:  # noqa: ARG002
        """One party is done."""
        if self._live and self._task is not None:
            self._progress.advance(self._task)
