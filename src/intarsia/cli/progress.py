"""What all commands share: where to print, and how a run is watched."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from intarsia.cli.forecast import Forecast, Left

if TYPE_CHECKING:  # for their names alone; they would load much
    from intarsia.protocol import Reply, Request
    from intarsia.results.outcome import RoundInfo

PHASES = {
    "describe": "who has what",
    "summarize": "local clusters",
    "refine": "rounds",
    "label": "labels",
    "assign": "labels",
}
_NAMED = 3  # so many names, then a count
_LOG_EVERY = 10.0  # seconds between lines in a log while the same step goes on
_BETWEEN, _ASKING = " · ", "asking "
_SPINNER, _PER_SECOND = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", 8

out = Console()
err = Console(stderr=True)


def print_json(thing: Any) -> None:
    """For machines: one JSON document on standard output, and nothing else."""
    sys.stdout.write(json.dumps(thing, ensure_ascii=False, indent=2) + "\n")


def harmless(text: str, *, lines: bool = False) -> str:
    """Without what would steer a terminal: names may hold anything."""
    return "".join(c if c.isprintable() or (lines and c == "\n") else "\N{REPLACEMENT CHARACTER}" for c in text)


def plain(text: str, style: str = "") -> Text:
    """Text with names in it, which may look like markup, and are not."""
    return Text(harmless(text, lines=True), style)


def few(names: Sequence[str], width: int | None = None) -> str:
    """The first few names, and how many more; in so many columns, of which the first name takes what there is."""
    shown = [harmless(name) for name in names[:_NAMED]]
    for n in range(len(shown), 0, -1):
        text = ", ".join(shown[:n]) + _more(len(names) - n)
        if width is None or cell_len(text) <= width:
            return text
    more = _more(len(names) - 1)
    room = (width or 0) - cell_len(more) - 1
    return f"{set_cell_size(shown[0], room)}…{more}" if shown and room > 0 else ""


def _more(n: int) -> str:
    return f" +{n}" if n else ""


def duration(seconds: float) -> str:
    """In words that do not change with every second."""
    if seconds < 10:
        return f"{max(round(seconds), 1)} s"
    if seconds < 57.5:
        return f"{5 * round(seconds / 5)} s"
    minutes = max(round(seconds / 60), 1)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def time_left(left: Left | None) -> str:
    """The forecast, or nothing."""
    if left is None:
        return ""
    bound, what = "at most " if left.at_most else "", " of this step" if left.of_step else ""
    return f"{bound}~{duration(left.seconds)} left{what}"


class Watch:
    """Shows how a run goes: a live line on a terminal, plain lines in a log; in its own words."""

    def __init__(
        self, *, quiet: bool, forecast: Forecast | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._forecast = Forecast() if forecast is None else forecast
        self._clock = clock
        self._log = not quiet and (not err.is_terminal or err.is_dumb_terminal)
        live = not quiet and not self._log
        self._live = Live(self, console=err, transient=True, refresh_per_second=_PER_SECOND) if live else None
        self._lock = Lock()  # the live line is drawn from a thread of its own
        self._started = self._said = clock()
        self._what, self._moved = "tables", ""
        self._round = 0

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def asking(self, phase: str, requests: Mapping[str, Request], last: RoundInfo | None) -> None:
        """A new exchange."""
        step = PHASES.get(phase, phase)
        if any(getattr(request, "n_clusters", 0) is None for request in requests.values()):
            step = "how many clusters"  # which takes far longer than to find that many
        with self._lock:
            self._what, a_round = step, phase == "refine"
            if a_round:
                self._round += 1
                self._what = f"round {self._round}"
            self._moved = "" if last is None else f"{last.movement:.2%}"
            self._forecast.asking(step, requests, last, a_round=a_round)
        if self._live is not None:
            self._live.refresh()
        moved = f"centroids moved by {self._moved} of their extent" if self._moved else ""
        self._say(_ASKING + few(tuple(requests)), moved)

    def answered(self, phase: str, name: str, reply: Reply, seconds: float) -> None:  # noqa: ARG002
        """One party is done."""
        with self._lock:
            self._forecast.answered(name, seconds)
        if self._clock() - self._said >= _LOG_EVERY:
            waiting, n = self._forecast.waiting, len(self._forecast.asked)
            self._say(f"{n - len(waiting)} of {n} have answered", _ASKING + few(waiting) if waiting else "")

    def _say(self, *parts: str) -> None:
        """A line in a log."""
        if not self._log:
            return
        self._said = self._clock()
        said = "; ".join(part for part in (*parts, time_left(self._forecast.left())) if part)
        err.print(plain(f"{time.strftime('%H:%M:%S')} {self._what}: {said}"), soft_wrap=True)

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """The live line: what matters most first, and names in whatever columns remain."""
        with self._lock:
            waiting, n, left = self._forecast.waiting, len(self._forecast.asked), self._forecast.left()
            what, moved = self._what, self._moved
        seconds = self._clock() - self._started
        spinner = _SPINNER[int(seconds * _PER_SECOND) % len(_SPINNER)]
        parts = [what, f"{n - len(waiting)}/{n}" if n else "", time_left(left), f"moved {moved}" if moved else ""]
        known = _BETWEEN.join(part for part in parts if part)
        line = f"{spinner} {int(seconds) // 60}:{int(seconds) % 60:02} {known}"
        if waiting and (names := few(waiting, options.max_width - cell_len(line + _BETWEEN + _ASKING))):
            line += _BETWEEN + _ASKING + names
        text = Text(line, no_wrap=True)
        text.truncate(options.max_width, overflow="ellipsis")
        yield text
