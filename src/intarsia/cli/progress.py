"""The progress of a run: one live line on a terminal, plain lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from intarsia.cli.console import err, harmless, plain
from intarsia.cli.forecast import Forecast, Left

if TYPE_CHECKING:  # imported at run time, they would load numpy
    from intarsia.protocol import Reply, Request
    from intarsia.results.outcome import RoundInfo

_NAMED = 3  # names in a line; the others are counted
_LOG_EVERY = 10.0  # seconds between two lines of a log during one step
_BETWEEN, _ASKING = " · ", "asking "
_SPINNER, _PER_SECOND = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", 8


def few(names: Sequence[str], width: int | None = None) -> str:
    """Return the first names and the number of the others, in at most ``width`` columns; the first name is cut if needed."""
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
    """Return a duration in words, rounded so that it does not change every second."""
    if seconds < 10:
        return f"{max(round(seconds), 1)} s"
    if seconds < 57.5:
        return f"{5 * round(seconds / 5)} s"
    minutes = max(round(seconds / 60), 1)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def time_left(left: Left | None) -> str:
    """Return a forecast in words; empty without one."""
    if left is None:
        return ""
    bound, what = "at most " if left.at_most else "", " of this step" if left.of_step else ""
    return f"{bound}~{duration(left.seconds)} left{what}"


class Watch:
    """A watcher of a run that prints its progress: step, replies, time left, movement of the centroids."""

    def __init__(
        self, *, quiet: bool, forecast: Forecast | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._forecast = Forecast() if forecast is None else forecast
        self._clock = clock
        self._log = not quiet and (not err.is_terminal or err.is_dumb_terminal)
        live = not quiet and not self._log
        self._live = Live(self, console=err, transient=True, refresh_per_second=_PER_SECOND) if live else None
        self._lock = Lock()  # the live line is drawn by another thread
        self._started = self._printed = clock()
        self._step, self._moved = "tables", ""
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
        """Show that an exchange begins."""
        from intarsia.protocol.catalogue import is_round, title_of

        step = title_of(phase)
        if any(getattr(request, "n_clusters", 0) is None for request in requests.values()):
            step = "how many clusters"  # takes far longer than finding a given number
        with self._lock:
            self._step, a_round = step, is_round(phase)
            if a_round:
                self._round += 1
                self._step = f"round {self._round}"
            self._moved = "" if last is None else f"{last.movement:.2%}"
            self._forecast.asking(step, requests, last, a_round=a_round)
        if self._live is not None:
            self._live.refresh()
        moved = f"centroids moved by {self._moved} of their extent" if self._moved else ""
        self._print(_ASKING + few(tuple(requests)), moved)

    def answered(self, phase: str, name: str, reply: Reply, seconds: float) -> None:  # noqa: ARG002
        """Show that a participant has replied."""
        with self._lock:
            self._forecast.answered(name, seconds)
        if self._clock() - self._printed >= _LOG_EVERY:
            waiting, n = self._forecast.waiting, len(self._forecast.asked)
            self._print(f"{n - len(waiting)} of {n} have answered", _ASKING + few(waiting) if waiting else "")

    def _print(self, *parts: str) -> None:
        """Print a line, if progress goes to a log."""
        if not self._log:
            return
        self._printed = self._clock()
        text = "; ".join(part for part in (*parts, time_left(self._forecast.left())) if part)
        err.print(plain(f"{time.strftime('%H:%M:%S')} {self._step}: {text}"), soft_wrap=True)

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """The live line: the most important parts first, and names of participants in the columns that remain."""
        with self._lock:
            waiting, n, left = self._forecast.waiting, len(self._forecast.asked), self._forecast.left()
            step, moved = self._step, self._moved
        seconds = self._clock() - self._started
        spinner = _SPINNER[int(seconds * _PER_SECOND) % len(_SPINNER)]
        parts = [step, f"{n - len(waiting)}/{n}" if n else "", time_left(left), f"moved {moved}" if moved else ""]
        text = _BETWEEN.join(part for part in parts if part)
        line = f"{spinner} {int(seconds) // 60}:{int(seconds) % 60:02} {text}"
        if waiting and (names := few(waiting, options.max_width - cell_len(line + _BETWEEN + _ASKING))):
            line += _BETWEEN + _ASKING + names
        result = Text(line, no_wrap=True)
        result.truncate(options.max_width, overflow="ellipsis")
        yield result
