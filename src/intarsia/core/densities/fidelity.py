"""How close proxies are to the rows they represent: the distances whose expectation the paper bounds, measured.

Both distances need the rows, so a participant measures them and sends the numbers only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from intarsia.core.densities.base import Density
from intarsia.core.densities.force import Box, sample_inside
from intarsia.core.distances import ROUNDING
from intarsia.core.types import BoolArray, FloatArray

_MOST_POINTS = 200  # in a matching
_REPEATS = 5


class Fidelity(NamedTuple):
    """The result of :func:`fidelity`; NaN where a number does not apply.

    Attributes
    ----------
    wasserstein
        W₁ between rows and proxies: the mean distance of the best matching, in standard deviations per feature.
    chance
        The same between rows and other rows, equally many: what a perfect density would show.
    total_variation
        Of a discrete density: half the L¹ distance between the frequencies of complete rows and those of proxies.
    bound
        The paper's bound of its expectation: ½√(b/N) + √((b−1)/N) + ½√(b/M), for N rows and M proxies of b possible
        outcomes, if columns (and categories) are independent. A bound above 1 has no meaning.
    """

    wasserstein: float
    chance: float
    total_variation: float
    bound: float


def fidelity(
    rows: FloatArray,
    observed: BoolArray,
    density: Density,
    rng: np.random.Generator,
    n_proxies: int = 100,
    box: Box = (None, None),
) -> Fidelity:
    """Measure how close points drawn from a density, inside the bounding box if there is one, are to the rows behind it.

    Only rows without missing values are used. A matching takes half of them, at most 200 and at most ``n_proxies``, and is
    repeated five times. Columns are divided by the standard deviation of the rows, or of the density if that is 0; columns
    where both are 0 are ignored.
    """
    rows = rows[observed.all(axis=1)]
    n, nan = len(rows), float("nan")
    if n < 2:
        return Fidelity(nan, nan, nan, nan)
    deviation = rows.std(axis=0)
    constant = deviation <= ROUNDING * np.abs(rows).max(axis=0)
    unit = np.where(constant, np.sqrt(density.variances), deviation)
    varies = unit > ROUNDING * np.abs(rows).max(axis=0)
    size = min(n // 2 if n >= 4 else n, _MOST_POINTS, n_proxies)
    near, chance = [], []
    for _ in range(_REPEATS):
        order = rng.permutation(n)
        drawn, others = rows[order[:size]], rows[order[size : 2 * size]]
        near.append(_wasserstein(drawn[:, varies], sample_inside(density, rng, size, *box)[:, varies], unit[varies]))
        chance.append(_wasserstein(drawn[:, varies], others[:, varies], unit[varies]) if n >= 4 else nan)
    variation, bound = nan, nan
    b = density.n_outcomes
    if b is not None:
        variation = _total_variation(rows, sample_inside(density, rng, n_proxies, *box))
        bound = float(np.sqrt(b / n) / 2 + np.sqrt((b - 1) / n) + np.sqrt(b / n_proxies) / 2)
    return Fidelity(float(np.mean(near)), float(np.mean(chance)), variation, bound)


def _wasserstein(x: FloatArray, y: FloatArray, unit: FloatArray) -> float:
    """Return W₁ between two sets of equally many points; 0 without columns."""
    if not len(unit):
        return 0.0
    distances = cdist(x / unit, y / unit) / np.sqrt(len(unit))
    return float(distances[linear_sum_assignment(distances)].mean())


def _total_variation(x: FloatArray, y: FloatArray) -> float:
    _, which = np.unique(np.concatenate([x, y]), axis=0, return_inverse=True)
    which = which.reshape(-1)
    k = int(which.max()) + 1
    frequencies = [np.bincount(w, minlength=k) / len(w) for w in (which[: len(x)], which[len(x) :])]
    return float(np.abs(frequencies[0] - frequencies[1]).sum() / 2)
