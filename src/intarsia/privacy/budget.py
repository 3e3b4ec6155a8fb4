"""The account of one study at one table: what it may spend, where that is written, and where noise comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import ReleaseError
from intarsia.privacy.ledger import GRAIN, Ledger
from intarsia.privacy.noise import Integers, Noise, OpenDPNoise, rho_of

ROUND_SHARE = 0.1  # of the budget, for each noisy round
_ROUNDING = 64 * GRAIN  # what rounding up the debits of a study can take
SPENT = "the privacy budget of this participant's table does not allow it."


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
    def of(cls, privacy: DifferentialPrivacy, rounds: int) -> Account:
        """Return the account of a study over a table in memory, which no other study knows."""
        rho = rho_of(privacy.epsilon, privacy.delta)
        return cls(rho, rounds, rho)

    @property
    def for_sketch(self) -> float:
        """What the sketch may cost."""
        return (self.rho - _ROUNDING) * (1.0 - ROUND_SHARE * self.rounds)

    @property
    def for_round(self) -> float:
        """What one round may cost."""
        return (self.rho - _ROUNDING) * ROUND_SHARE

    def answered(self, digest: str, answer: Callable[[], bytes]) -> bytes:
        """Return the kept answer to a question, which costs nothing, or answer and keep it; one process at a time."""
        with self.ledger.locked():
            data = self.ledger.answer(digest)
            if data is None:
                data = answer()
                self.ledger.keep(digest, data)
        return data

    def noise_for(self, digest: str, words: str, size: int, norm: float, rho: float) -> Integers:
        """Pay for noise and draw it. The error does not say what other studies spent."""
        try:
            self.ledger.charge(self.study, self.run, digest, words, rho, self.limit, sensitivity=norm)
        except ReleaseError as error:
            raise ReleaseError(SPENT) from error
        return self.noise.draw(size, norm, rho)
