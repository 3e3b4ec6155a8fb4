"""What a private run spent, by participant and exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Spent:
    """What one participant spent in one exchange, as zCDP."""

    participant: str
    exchange: str
    rho: float


@dataclass(frozen=True)
class PrivacyAccount:
    """The differential privacy of a result.

    Attributes
    ----------
    epsilon, delta : float
        What was agreed: the most that each participant could spend.
    rows_per_person : int
        The number of rows that the promise holds for.
    spent : tuple of Spent
        What each participant spent in each exchange.
    """

    epsilon: float
    delta: float
    rows_per_person: int
    spent: tuple[Spent, ...]

    @property
    def rho(self) -> Mapping[str, float]:
        """What each participant spent in all, as zCDP."""
        totals: dict[str, float] = {}
        for each in self.spent:
            totals[each.participant] = totals.get(each.participant, 0.0) + each.rho
        return totals

    def __str__(self) -> str:
        rows = "one row" if self.rows_per_person == 1 else f"{self.rows_per_person} rows of one person"
        lines = [
            f"Each participant's replies are differentially private with epsilon {self.epsilon:g} and delta {self.delta:g}:",
            f"whoever sees all of them learns almost the same with and without {rows} of its table.",
        ]
        for name in self.rho:
            parts = ", ".join(
                f"{each.exchange} {each.rho / self.rho[name]:.0%}" for each in self.spent if each.participant == name
            )
            lines.append(f"  {name}: {parts} of the budget")
        return "\n".join(lines)
