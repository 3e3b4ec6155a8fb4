"""What a private run spent, by participant and exchange, what that means for a row, and the error of the centroids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

import numpy as np

from intarsia.core.private.conversion import epsilon_of_rho, surest_guess
from intarsia.core.types import FloatArray


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
    if_all_collude : float or None
        With secure sums, where participants share the noise of rounds: the ε if all other participants and the coordinator
        put together what they know. ``most`` holds while more than two thirds of the participants are honest.
    errors : tuple of tuples
        Clusters × features of the model: the standard deviation that the noise of the last round gives each centroid, in
        original units. None where it is not known: no round, or a centroid that did not move.
    """

    epsilon: float
    delta: float
    rows_per_person: int
    spent: tuple[Spent, ...]
    errors: tuple[tuple[float | None, ...], ...] = ()
    if_all_collude: float | None = None

    @property
    def rho(self) -> Mapping[str, float]:
        """What each participant spent in all, as zCDP."""
        totals: dict[str, float] = {}
        for each in self.spent:
            totals[each.participant] = totals.get(each.participant, 0.0) + each.rho
        return totals

    @property
    def epsilons(self) -> Mapping[str, float]:
        """What each participant spent in all, as ε at the agreed δ. It is less than the sum of the ε of its exchanges."""
        return {name: epsilon_of_rho(rho, self.delta) for name, rho in self.rho.items()}

    @property
    def most(self) -> float:
        """The largest ε that a participant spent."""
        return max(self.epsilons.values(), default=0.0)

    @property
    def rows(self) -> str:
        """The rows that the promise holds for, in words."""
        return "one row" if self.rows_per_person == 1 else f"the up to {self.rows_per_person} rows of one person"

    @property
    def meaning(self) -> str:
        """What the largest ε that was spent means, in one sentence."""
        sure = f"{100 * surest_guess(self.most):.0f} %"
        return (
            f"Adding or removing {self.rows} of a table changes the probability of whatever is concluded from its "
            f"participant's replies by at most a factor of {exp(self.most):.3g}: somebody who would bet 50:50 that a person "
            f"is in the table can be at most {sure} sure afterwards (but for a chance of {self.delta:g}).{self.condition}"
        )

    @property
    def condition(self) -> str:
        """Under which condition that holds, in one sentence; empty if it always holds."""
        if self.if_all_collude is None:
            return ""
        return (
            " With secure sums this holds while more than two thirds of the participants are honest; if all others collude "
            f"with the coordinator, epsilon is {self.if_all_collude:.3g}."
        )

    def error_matrix(self, n_clusters: int, n_features: int) -> FloatArray:
        """Return ``errors`` as an array; NaN where they are not known."""
        if not self.errors:
            return np.full((n_clusters, n_features), np.nan)
        return np.array(self.errors, dtype=np.float64).reshape(n_clusters, n_features)

    def __str__(self) -> str:
        lines = [f"Agreed: epsilon {self.epsilon:g}, delta {self.delta:g}. {self.meaning}"]
        for name, total in self.epsilons.items():
            parts = ", ".join(
                f"{each.exchange} {epsilon_of_rho(each.rho, self.delta):.3g} (rho {each.rho:.3g})"
                for each in self.spent
                if each.participant == name
            )
            lines.append(f"  {name}: epsilon {total:.3g} (rho {self.rho[name]:.3g}); alone: {parts}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        budget = f"epsilon {self.most:.3g} of {self.epsilon:g}, delta {self.delta:g}"
        return f"<PrivacyAccount: {budget}, {len(self.rho)} participants>"


def centroid_errors(account: PrivacyAccount | None, n_clusters: int, n_features: int) -> FloatArray:
    """Return the standard deviation of each centroid from noise, in original units; NaN where it is not known."""
    if account is None:
        return np.full((n_clusters, n_features), np.nan)
    return account.error_matrix(n_clusters, n_features)


def known(error: float) -> float | None:
    """Return an error, None instead of NaN."""
    return float(error) if np.isfinite(error) else None
