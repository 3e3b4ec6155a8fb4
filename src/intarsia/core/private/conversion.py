"""What zCDP means as (ε, δ), for people to read; what may be spent is decided by OpenDP (:mod:`intarsia.privacy.noise`)."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

_LARGEST_LOG_ORDER = 60.0


def epsilon_of_rho(rho: float, delta: float) -> float:
    r"""Return the ε of a ρ-zCDP release at this δ (Canonne, Kamath and Steinke 2020, Proposition 7).

    .. math:: ε = \inf_{α > 1} αρ + \frac{\ln(1 / (αδ))}{α - 1} + \ln(1 - 1/α)

    >>> round(epsilon_of_rho(0.0244, 1e-6), 2)
    1.0
    """
    if rho <= 0:
        return 0.0

    def at(log_order: float) -> float:
        """The bound with α = 1 + exp(log_order)."""
        above = np.exp(log_order)
        order = 1.0 + above
        return float(order * rho - np.log(order * delta) / above + log_order - np.log1p(above))

    found = minimize_scalar(at, bounds=(-20.0, _LARGEST_LOG_ORDER), method="bounded", options={"xatol": 1e-9})
    return max(at(float(found.x)), 0.0)


def surest_guess(epsilon: float) -> float:
    """Return how sure one can be at most that a person is in a table, after having thought it as likely as not.

    By Bayes' theorem this is e^ε / (1 + e^ε), but for a chance of δ.

    >>> round(surest_guess(1.0), 2), surest_guess(0.0)
    (0.73, 0.5)
    """
    return float(1.0 / (1.0 + np.exp(-epsilon)))
