"""What was spent of a table's privacy budget, by study, run and release: for people to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from intarsia.privacy.ledger import DEBIT, GRAIN, RESET, grains_within
from intarsia.privacy.noise import epsilon_of, rho_of


@dataclass(frozen=True)
class Spent:
    """What one kind of release in one run of a study cost: ρ, in a number of debits."""

    study: str
    run: str
    what: str
    rho: float
    debits: int


@dataclass(frozen=True)
class Spending:
    """All that was spent since the last reset, and the reason of that reset."""

    parts: tuple[Spent, ...]
    reset: str | None = None

    @classmethod
    def of(cls, entries: Iterable[Mapping[str, Any]]) -> Spending:
        """Return the spending in the entries of a ledger, in the order of the first debits."""
        grains: dict[tuple[str, str, str], list[int]] = {}
        reset = None
        for entry in entries:
            if entry["event"] == DEBIT:
                grains.setdefault((entry["study"], entry["run"], entry["what"]), []).append(entry["rho"])
            elif entry["event"] == RESET:
                reset = entry["reason"]
        parts = (Spent(*names, sum(each) * GRAIN, len(each)) for names, each in grains.items())
        return cls(tuple(parts), reset)

    @property
    def rho(self) -> float:
        """The ρ that was spent in all, which is exact: it is a whole number of grains."""
        return sum(part.rho for part in self.parts)

    def by_study(self) -> dict[str, float]:
        """Return the ρ that each study spent."""
        names = dict.fromkeys(part.study for part in self.parts)
        return {name: sum(part.rho for part in self.parts if part.study == name) for name in names}

    def epsilon(self, delta: float) -> float:
        """Return the ε of all releases together; it is less than the sum of the ε of each."""
        return epsilon_of(self.rho, delta)

    def left(self, epsilon: float, delta: float) -> float:
        """Return the ρ that is left of a budget; 0 if more was spent."""
        return max(grains_within(rho_of(epsilon, delta)) * GRAIN - self.rho, 0.0)

    def as_dict(self, delta: float) -> dict[str, Any]:
        """Return all figures as JSON has them."""
        parts = [
            {
                "study": part.study,
                "run": part.run,
                "what": part.what,
                "debits": part.debits,
                "rho": part.rho,
                "epsilon": epsilon_of(part.rho, delta),
            }
            for part in self.parts
        ]
        figures = {"delta": delta, "rho": self.rho, "epsilon": self.epsilon(delta)}
        return {"spent": parts, **figures, "last_reset": self.reset}
