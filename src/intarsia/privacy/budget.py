"""The account of one study at one table: what it may spend, where that is written, and where noise comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import ReleaseError
from intarsia.privacy.ledger import GRAIN, Ledger
from intarsia.privacy.noise import Integers, Noise, OpenDPNoise, rho_of

ROUND_SHARE = 0.1  # of the budget, for each noisy round
_ROUNDING = 64 * GRAIN  # what rounding up the debits of a study can take
_NO_LIMIT = 1e9  # ρ: of no use to anybody
SPENT = (
    "the privacy budget of this participant's table does not allow it. Hint for its owner: intarsia participant budget "
    "shows what was spent."
)


class Charged(NamedTuple):
    """Where the debits of a run are written: the ledger beside a table, and what all runs together may spend on it.

    ``total_epsilon`` is at the δ of the run; without it there is no limit but that of each run.
    """

    table: str
    study: str
    run: str
    total_epsilon: float | None = None


@dataclass
class Account:
    """What one study may spend on a table.

    ``rho`` is what it may spend itself, ``limit`` what all studies over the table may spend together (ρ of zCDP).
    """

    rho: float
    rounds: int
    limit: float
    ledger: Ledger = field(default_factory=Ledger.in_memory)
    noise: Noise = field(default_factory=OpenDPNoise)
    study: str = ""
    run: str = ""

    @classmethod
    def of(cls, privacy: DifferentialPrivacy, rounds: int, charged: Charged | None = None) -> Account:
        """Return the account of a study; without ``charged``, that of a table in memory, which no other study knows."""
        rho = rho_of(privacy.epsilon, privacy.delta)
        if charged is None:
            return cls(rho, rounds, rho)
        total = charged.total_epsilon
        limit = _NO_LIMIT if total is None else rho_of(total, privacy.delta)
        return cls(rho, rounds, limit, Ledger.beside(charged.table), study=charged.study, run=charged.run)

    @property
    def planned(self) -> dict[str, float]:
        """What each exchange of the study will cost, as ρ."""
        rounds = {f"round {n}": self.for_round for n in range(1, self.rounds + 1)}
        return {"sketch": self.for_sketch, **rounds}

    @property
    def for_sketch(self) -> float:
        """What the sketch may cost."""
        return (self.rho - _ROUNDING) * (1.0 - ROUND_SHARE * self.rounds)

    @property
    def for_round(self) -> float:
        """What one round may cost."""
        return (self.rho - _ROUNDING) * ROUND_SHARE

    def check_left(self) -> None:
        """Raise a ReleaseError, before anything is spent, unless the table has enough left for the whole study."""
        spent, cost = self.ledger.spent(), sum(self.planned.values())
        if spent + cost + _ROUNDING / 2 > self.limit:
            left = max(self.limit - spent, 0.0)
            raise ReleaseError(SPENT) from ReleaseError(
                f"It costs rho {cost:.4g}, and of rho {self.limit:.4g} for all studies {left:.4g} is left."
            )

    def answered(self, digest: str, answer: Callable[[], bytes]) -> bytes:
        """Return the kept answer to a question, which costs nothing, or answer and keep it; one process at a time."""
        with self.ledger.locked():
            data = self.ledger.answer(digest)
            if data is None:
                data = answer()
                self.ledger.keep(digest, data)
        return data

    def noise_for(self, digest: str, words: str, size: int, norm: float, rho: float, n_sharing: int = 1) -> Integers:
        """Pay for noise and draw it. The error does not say what other studies spent.

        With ``n_sharing``, it is a share: that of so many participants together costs ``rho``.
        """
        try:
            self.ledger.charge(self.study, self.run, digest, words, rho, self.limit, sensitivity=norm)
        except ReleaseError as error:
            raise ReleaseError(SPENT) from error
        return self.noise.draw(size, norm, rho * n_sharing)
