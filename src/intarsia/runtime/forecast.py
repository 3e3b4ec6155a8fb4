"""An estimate of how long a run will still take, from how long its steps and rounds have taken so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # imported at run time, it would load numpy
    from intarsia.results.outcome import RoundInfo

_STEPS = 3  # rounds over which the shrinking of the movement is averaged
_TRIAL = "trial"  # rounds that compare groupings; their number does not depend on the movement


class Left(NamedTuple):
    """Seconds until the end of the rounds, or, outside of rounds, of the step.

    ``at_most`` is set while the number of further rounds is only bounded.
    """

    seconds: float
    of_step: bool = False
    at_most: bool = False


class Forecast:
    """Estimates the time left from the replies so far; participants are asked one after the other.

    Parameters
    ----------
    max_rounds, tol
        Those of the estimator, if it has rounds.
    clock : callable
        Returns seconds.
    """

    def __init__(
        self, max_rounds: int | None = None, tol: float = 0.0, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_rounds, self._tol, self._clock = max_rounds, tol, clock
        self._step = ""
        self._asked: tuple[str, ...] = ()
        self._now: dict[str, float] = {}
        self._last_time: dict[str, dict[str, float]] = {}
        self._rounds: list[tuple[str, float]] = []
        self._in_rounds = False
        self._started = self._heard = clock()

    def asking(self, step: str, names: Iterable[str], last: RoundInfo | None = None, *, a_round: bool = False) -> None:
        """Record that a step begins. Steps of the same name take about as long; ``last`` is the previous round."""
        if self._step:
            self._last_time[self._step] = self._now
        self._step, self._asked, self._now, self._in_rounds = step, tuple(names), {}, a_round
        if last is not None:
            self._rounds.append((last.kind, last.movement))
        self._started = self._heard = self._clock()

    def answered(self, name: str, seconds: float) -> None:
        """Record that a participant has answered, and the seconds it took."""
        self._now[name] = seconds
        self._heard = self._clock()

    @property
    def asked(self) -> tuple[str, ...]:
        """The participants that were asked in this step."""
        return self._asked

    @property
    def waiting(self) -> tuple[str, ...]:
        """The participants that have not answered; the first one is computing."""
        return tuple(name for name in self._asked if name not in self._now)

    def left(self) -> Left | None:
        """Return the time left; None if it is unknown or the expected time has passed."""
        step = self._left_of_step()
        if step is None:
            return None
        n_further = self._further_rounds() if self._in_rounds else 0
        a_round = self._clock() - self._started + step
        seconds = step + n_further * a_round
        return Left(seconds, of_step=not self._in_rounds, at_most=n_further > 0) if seconds > 0 else None

    def _left_of_step(self) -> float | None:
        expected = [self._expected(name) for name in self.waiting]
        known = [seconds for seconds in expected if seconds is not None]
        if len(known) < len(expected):
            return None
        if not known:
            return 0.0
        return max(known[0] - (self._clock() - self._heard), 0.0) + sum(known[1:])

    def _expected(self, name: str) -> float | None:
        """Seconds expected of a participant: as in the last such step at the pace of this one, or the mean of the others."""
        before = self._last_time.get(self._step, {})
        if name in before:
            return before[name] * _pace(self._now, before)
        return sum(self._now.values()) / len(self._now) if self._now else None

    def _further_rounds(self) -> int:
        """The largest expected number of rounds after this one.

        The movement m shrinks by a factor q each round, so that m qⁿ ≤ tol after n = ⌈log(tol / m) / log q⌉ rounds. Most
        runs end earlier: once no row changes its cluster, no centroid moves.
        """
        most = max((self._max_rounds or 0) - len(self._rounds) - 1, 0)
        kind, movement = self._rounds[-1] if self._rounds else (_TRIAL, math.nan)
        if kind == _TRIAL:
            return most
        if movement <= self._tol:
            return 0
        q = _shrinking(_same_kind(self._rounds)[-_STEPS - 1 :])
        if q is None or self._tol <= 0:
            return most
        n = math.ceil(math.log(self._tol / movement) / math.log(q))
        return min(n - 1, most)


def forecast_for(estimator: Any) -> Forecast:
    """Return a forecast with the stopping rule of an estimator."""
    return Forecast(getattr(estimator, "max_rounds", None), getattr(estimator, "tol", 0.0))


def _pace(now: Mapping[str, float], before: Mapping[str, float]) -> float:
    """The ratio of the seconds that participants took in this step and in the last such step."""
    both = [name for name in now if name in before]
    then = sum(before[name] for name in both)
    return sum(now[name] for name in both) / then if then > 0 else 1.0


def _same_kind(rounds: list[tuple[str, float]]) -> list[float]:
    """The movements of the latest rounds of one kind; another kind starts from the beginning."""
    movements: list[float] = []
    for kind, movement in reversed(rounds):
        if kind != rounds[-1][0]:
            break
        movements.insert(0, movement)
    return movements


def _shrinking(movements: list[float]) -> float | None:
    """The geometric mean of the factors from one movement to the next; None if they do not shrink."""
    if len(movements) < 2 or not 0 < movements[-1] < movements[0]:
        return None
    return float((movements[-1] / movements[0]) ** (1 / (len(movements) - 1)))
