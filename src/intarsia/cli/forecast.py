"""How long a run will still take, as far as that can be known. Participants are asked one after the other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # for its name alone; it would load much
    from intarsia.results.outcome import RoundInfo

_STEPS = 3  # so many rounds back, the shrinking of the movement is looked at
_TRIAL = "trial"  # rounds in which groupings are compared, and which end whether anything moved or not


class Left(NamedTuple):
    """Seconds until the rounds are over, or, outside of rounds, the step; more than that is never known.

    How many rounds there will be is known only as the most that it should be.
    """

    seconds: float
    of_step: bool = False
    at_most: bool = False


class Forecast:
    """Is told who is asked and who has answered, and expects what went before to go on.

    ``max_rounds`` and ``tol`` are the estimator's, if it has rounds at all.
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
        """These are asked now; ``step`` is the same for what takes about as long, ``last`` the round before."""
        if self._step:
            self._last_time[self._step] = self._now
        self._step, self._asked, self._now, self._in_rounds = step, tuple(names), {}, a_round
        if last is not None:
            self._rounds.append((last.kind, last.movement))
        self._started = self._heard = self._clock()

    def answered(self, name: str, seconds: float) -> None:
        """One has answered, and took so long."""
        self._now[name] = seconds
        self._heard = self._clock()

    @property
    def asked(self) -> tuple[str, ...]:
        """Everybody who was asked in this step."""
        return self._asked

    @property
    def waiting(self) -> tuple[str, ...]:
        """Who has still to answer; the first is being asked."""
        return tuple(name for name in self._asked if name not in self._now)

    def left(self) -> Left | None:
        """The time left, or None where it cannot be known or should be over already."""
        step = self._left_of_step()
        if step is None:
            return None
        further = self._further_rounds() if self._in_rounds else 0
        a_round = self._clock() - self._started + step
        seconds = step + further * a_round
        return Left(seconds, of_step=not self._in_rounds, at_most=further > 0) if seconds > 0 else None

    def _left_of_step(self) -> float | None:
        expected = [self._expected(name) for name in self.waiting]
        known = [seconds for seconds in expected if seconds is not None]
        if len(known) < len(expected):
            return None
        if not known:
            return 0.0
        return max(known[0] - (self._clock() - self._heard), 0.0) + sum(known[1:])

    def _expected(self, name: str) -> float | None:
        """As long as last time, slower or faster as the others were; or as long as the others just now."""
        before = self._last_time.get(self._step, {})
        if name in before:
            return before[name] * _pace(self._now, before)
        return sum(self._now.values()) / len(self._now) if self._now else None

    def _further_rounds(self) -> int:
        """How many rounds after this one, at most.

        The movement m shrinks by a factor q each round, so that m qⁿ ≤ tol after n = ⌈log(tol / m) / log q⌉ rounds. Most
        runs are over before that: once no row changes sides any more, nothing moves at all.
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
    """A forecast that knows when the estimator would stop."""
    return Forecast(getattr(estimator, "max_rounds", None), getattr(estimator, "tol", 0.0))


def _pace(now: Mapping[str, float], before: Mapping[str, float]) -> float:
    """How many times as long as last time those took who have answered."""
    both = [name for name in now if name in before]
    then = sum(before[name] for name in both)
    return sum(now[name] for name in both) / then if then > 0 else 1.0


def _same_kind(rounds: list[tuple[str, float]]) -> list[float]:
    """The movements of the latest rounds, as far back as they are of one kind: another kind begins anew."""
    found: list[float] = []
    for kind, movement in reversed(rounds):
        if kind != rounds[-1][0]:
            break
        found.insert(0, movement)
    return found


def _shrinking(movements: list[float]) -> float | None:
    """The geometric mean of the factors from one movement to the next, if there are any and they shrink."""
    if len(movements) < 2 or not 0 < movements[-1] < movements[0]:
        return None
    return float((movements[-1] / movements[0]) ** (1 / (len(movements) - 1)))
