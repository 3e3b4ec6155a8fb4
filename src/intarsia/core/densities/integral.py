r"""The integrals behind exact forces, by trapezoid rules: with softening and without.

With Q ≥ 0, s > 0, a = w/2 and the Laplace transform :math:`L(t) = \mathbb{E}[e^{-tQ}]`,

.. math:: \mathbb{E} \bigl[ (Q + s^2)^{-a} \bigr] = \frac{1}{\Gamma(a)} \int_{-\infty}^\infty e^{au - s^2 e^u} L(e^u) \, du

In units in which E[Q] + s² = 1 this is at least 1 (Jensen), so absolute errors bound relative ones.

*Nodes.* The error of the rule with step h is the integrand's Fourier transform at multiples of 2π/h, which is
:math:`\Gamma(a + iy)\, \mathbb{E}[(Q + s^2)^{-a-iy}]`. A power of −iy has absolute value 1, so the relative error is at most
:math:`2 \sum_k |\Gamma(a + 2\pi i k / h)| / \Gamma(a)`, whatever Q is. It falls so fast that h = 0.56 is enough for w = 2.

*The left end.* For small t the integrand is a power of t times 1 − t + (½ + κ) t² and so on, κ half the variance of Q: the
part left of the first node is a sum of three geometric series.

*The right end.* L never grows, so beyond T the integral is at most L(T) times that of the power and the softening alone,
which is an incomplete Γ. All pairs use the same nodes, and each stops when that bound is negligible.

*Without softening*, 48 coarse nodes find where the integrand is large, 48 nodes integrate it there, and its tails, which are
powers of t, are added in closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import gammaincc, gammaln, loggamma

from intarsia.core.types import BoolArray, FloatArray, IntArray

_ERROR = 3e-7  # relative, of nodes, left end and right end
_FIRST = 0.03  # the largest first node
_FEWER = 0.6  # of the pairs: when at most this share is still active, the others are dropped from the arrays
SOFT_ENOUGH = 1e-12  # s² in units of E[Q] + s²; below it too many nodes would be needed
N_NODES = N_COARSE = 48  # without softening
_FAR = 14.0  # e^-14: at this distance from its bend, the integrand is a pure power of t
_DROP = 18.0  # the integrand is followed down to e^-18 of its peak: 1.5e-8


class Transform(Protocol):
    """log L(t) of many Q at once, in units in which E[Q] + s² = 1."""

    def log(self, t: float) -> FloatArray:
        """Return log L(t) of each Q."""

    def keep(self, which: BoolArray) -> None:
        """Drop the other Q."""


@lru_cache(maxsize=64)
def _rule(a: float) -> tuple[float, float]:
    """Return the largest step and the largest first node whose errors are at most ``_ERROR``."""
    small, large = 0.01, 3.0
    for _ in range(60):
        middle = (small + large) / 2
        error = 2.0 * np.exp(loggamma(a + 2j * np.pi / middle).real - gammaln(a))
        small, large = (middle, large) if error < _ERROR else (small, middle)
    # the fourth term of the series is no more than twice a power of t
    fourth = _ERROR * np.exp(gammaln(a)) * np.expm1((a + 3) * small) / (2 * small)
    return small, min(_FIRST, float(fourth ** (1 / (a + 3))))


def inverse_power(transform: Transform, softening: FloatArray, kappa: FloatArray, exponent: float) -> FloatArray:
    """Return E[(Q + s²)^(−w/2)] of each Q; ``softening`` is s² in units of E[Q] + s², and at least :data:`SOFT_ENOUGH`."""
    a = exponent / 2
    step, t = _rule(a)
    total = t**a * (
        1.0 / np.expm1(a * step) - t / np.expm1((a + 1) * step) + (0.5 + kappa) * t * t / np.expm1((a + 2) * step)
    )
    active = np.arange(len(total))
    negligible = np.log(_ERROR) + a * np.log(softening)
    while len(active):
        log = transform.log(t)
        total[active] += np.exp(a * np.log(t) - t * softening + log)
        beyond = t * softening
        if beyond.max() > 1.0:
            with np.errstate(divide="ignore"):
                log = log + np.log(gammaincc(a, beyond))
        left = log > negligible
        t *= np.exp(step)
        if np.count_nonzero(left) <= _FEWER * len(left):
            transform.keep(left)
            active, softening, negligible = active[left], softening[left], negligible[left]
    return np.asarray(total * (step / np.exp(gammaln(a))))


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
