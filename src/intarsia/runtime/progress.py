"""The progress of a run as lines: what is asked, who has answered, how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock, Timer
from types import TracebackType
from typing import TYPE_CHECKING, Self

from intarsia.runtime.forecast import Forecast, Left

if TYPE_CHECKING:  # imported at run time, they would load numpy
    from intarsia.protocol import Reply, Request
    from intarsia.results.outcome import RoundInfo

MOST_NAMED = 3  # names in a line; the others are counted
LOG_EVERY = 10.0  # seconds between two lines during one step
ASKING = "asking "


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


class Progress:
    """A watcher of a run that says its progress in lines; none in the first ``silent`` seconds.

    As a context, it also says after these seconds what is asked, however long the answers take.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        *,
        forecast: Forecast | None = None,
        silent: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._forecast = Forecast() if forecast is None else forecast
        self._say_line, self._silent, self._clock = say, silent, clock
        self._lock = Lock()  # a live line is drawn by another thread
        self._started = self._printed = clock()
        self._step, self._moved = "tables", ""
        self._round = 0
        self._late: Timer | None = None
        self._asked: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        if self._silent > 0:
            self._late = Timer(self._silent, self._say_asked)
            self._late.daemon = True
            self._late.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._late is not None:
            self._late.cancel()

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
        self._shown()
        self._asked = (
            ASKING + _few(tuple(requests)),
            f"centroids moved by {self._moved} of their extent" if self._moved else "",
        )
        self._print(*self._asked)

    def answered(self, phase: str, name: str, reply: Reply, seconds: float) -> None:  # noqa: ARG002
        """Show that a participant has replied."""
        with self._lock:
            self._forecast.answered(name, seconds)
        if self._clock() - self._printed >= LOG_EVERY:
            waiting, n = self._forecast.waiting, len(self._forecast.asked)
            self._print(f"{n - len(waiting)} of {n} have answered", ASKING + _few(waiting) if waiting else "")

    def _shown(self) -> None:
        """Draw what has changed, where there is more than lines."""

    def _say_asked(self) -> None:
        """Say what is asked, if nothing was said before."""
        if self._asked and self._printed == self._started:
            self._print(*self._asked)

    def _print(self, *parts: str) -> None:
        if self._clock() - self._started < self._silent:
            return
        self._printed = self._clock()
        text = "; ".join(part for part in (*parts, time_left(self._forecast.left())) if part)
        self._say_line(f"{time.strftime('%H:%M:%S')} {self._step}: {text}")


def _few(names: Sequence[str]) -> str:
    more = f" +{len(names) - MOST_NAMED}" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
