"""The progress of a run: one live line on a terminal, plain lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from intarsia.cli.console import err, harmless, plain
from intarsia.runtime.forecast import Forecast
from intarsia.runtime.progress import ASKING, MOST_NAMED, Progress, time_left

_BETWEEN = " · "
_SPINNER, _PER_SECOND = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", 8


def few(names: Sequence[str], width: int | None = None) -> str:
    """Return the first names and the number of the others, in at most ``width`` columns; the first name is cut if needed."""
    shown = [harmless(name) for name in names[:MOST_NAMED]]
    for n in range(len(shown), 0, -1):
        text = ", ".join(shown[:n]) + _more(len(names) - n)
        if width is None or cell_len(text) <= width:
            return text
    more = _more(len(names) - 1)
    room = (width or 0) - cell_len(more) - 1
    return f"{set_cell_size(shown[0], room)}…{more}" if shown and room > 0 else ""


def _more(n: int) -> str:
    return f" +{n}" if n else ""


class Watch(Progress):
    """A watcher of a run that prints its progress: step, replies, time left, movement of the centroids."""

    def __init__(
        self, *, quiet: bool, forecast: Forecast | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(self._say, forecast=forecast, clock=clock)
        self._log = not quiet and (not err.is_terminal or err.is_dumb_terminal)
        live = not quiet and not self._log
        self._live = Live(self, console=err, transient=True, refresh_per_second=_PER_SECOND) if live else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._live is not None:
            self._live.stop()

    def _shown(self) -> None:
        if self._live is not None:
            self._live.refresh()

    def _say(self, line: str) -> None:
        if self._log:
            err.print(plain(line), soft_wrap=True)

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
        if waiting and (names := few(waiting, options.max_width - cell_len(line + _BETWEEN + ASKING))):
            line += _BETWEEN + ASKING + names
        result = Text(line, no_wrap=True)
        result.truncate(options.max_width, overflow="ellipsis")
        yield result
