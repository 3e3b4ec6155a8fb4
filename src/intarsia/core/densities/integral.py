"""The integral behind an exact force without softening: ∫ t^(w/2−1) L(t) dt / Γ(w/2), with t = e^u, by a trapezoid rule.

The integrand falls off exponentially on both sides. 48 coarse nodes find where it is large, 48 nodes integrate it there, and
the tails are added in closed form. With softening, :mod:`~intarsia.core.densities.trapezoid` needs fewer nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from intarsia.core.types import BoolArray, FloatArray, IntArray

N_NODES = 48
N_COARSE = 48
_FAR = 14.0  # e^-14: at this distance from its bend, the integrand is a pure power of t
_DROP = 18.0  # the integrand is followed down to e^-18 of its peak: 1.5e-8


class Range(NamedTuple):
    """For each integral: first and last u = log t, the decay beyond the last, and whether the integral is finite."""

    first: FloatArray
    last: FloatArray
    decay: FloatArray
    finite: BoolArray


def integration_range(
    total: FloatArray, distance: FloatArray, axes: IntArray, smallest: FloatArray, softening: float, exponent: float
) -> Range:
    """Return the range of integration for E[(|z|² + s²)^(−w/2)] of a Gaussian z.

    ``total`` is E|z|², ``distance`` the squared mean along axes without variance, ``axes`` the number of axes with variance,
    and ``smallest`` a lower bound of these variances.
    """
    s2 = softening**2
    with np.errstate(divide="ignore"):
        first = -np.log(total + s2) - _FAR
        by_softening = np.log(3 * _DROP) - np.log(s2)
        by_distance = np.log(3 * _DROP) - np.log(distance)
        # r axes with variance leave t^(w/2 − r/2) from some t on; the integral converges by them only if r > w
        by_spread = np.where(axes > exponent, _FAR - np.log(smallest), np.inf)
    last = np.minimum(np.minimum(by_softening, by_distance), by_spread)
    finite = np.isfinite(last) & np.isfinite(first)
    decay = np.where(last == by_spread, (axes - exponent) / 2, np.inf)
    first, last = np.where(finite, first, 0.0), np.where(finite, last, 1.0)
    return Range(first, np.maximum(last, first + 1.0), np.where(finite, decay, np.inf), finite)


def integrate(log_integrand: Callable[[FloatArray], FloatArray], over: Range, exponent: float) -> FloatArray:
    """Return ∫ exp(log_integrand(u)) du / Γ(w/2), one integral for each row of the argument u."""
    u = over.first[:, None] + (over.last - over.first)[:, None] * np.linspace(0.0, 1.0, N_COARSE)
    coarse = log_integrand(u)
    high = coarse >= coarse.max(axis=1, keepdims=True) - _DROP
    begin = np.maximum(high.argmax(axis=1) - 1, 0)
    end = np.minimum(N_COARSE - high[:, ::-1].argmax(axis=1), N_COARSE - 1)
    begin_u, end_u = np.take_along_axis(u, begin[:, None], 1), np.take_along_axis(u, end[:, None], 1)
    u = begin_u + (end_u - begin_u) * np.linspace(0.0, 1.0, N_NODES)
    log = log_integrand(u)
    peak = log.max(axis=1, keepdims=True)
    height = np.exp(log - peak)
    weights = np.ones(N_NODES)
    weights[[0, -1]] = 0.5
    step = (end_u - begin_u)[:, 0] / (N_NODES - 1)
    # outside, the integrand is e^(u w/2) on the left and, where only the product ends it, e^(−u (r − w)/2) on the right:
    # both tails and the first Euler-Maclaurin correction at the cuts are known
    left, right = exponent / 2, np.where(end == N_COARSE - 1, over.decay, np.inf)
    tails = height[:, 0] / left + height[:, -1] / right
    cuts = left * height[:, 0] + np.where(np.isfinite(right), right, 0.0) * height[:, -1]
    total = (height @ weights) * step + tails + cuts * np.square(step) / 12
    with np.errstate(over="ignore"):
        moment = total * np.exp(peak[:, 0] - gammaln(exponent / 2))
    return np.where(over.finite, moment, np.inf)
