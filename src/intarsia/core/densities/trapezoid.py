r"""Inverse powers of softened squares, by a trapezoid rule whose error is known in advance.

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
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import gammaincc, gammaln, loggamma

from intarsia.core.types import BoolArray, FloatArray

_ERROR = 3e-7  # relative, of each of the three
_FIRST = 0.03  # the largest first node
_FEWER = 0.6  # of the pairs: when at most this share is still active, the others are dropped from the arrays
SOFT_ENOUGH = 1e-12  # s² in units of E[Q] + s²; below it too many nodes would be needed


class Transform(Protocol):
    """log L(t) of many Q at once, in units in which E[Q] + s² = 1."""

    def log(self, t: float) -> FloatArray:
        """Return log L(t) of each Q."""

    def keep(self, which: BoolArray) -> None:
        """Drop the other Q."""


class _Rule(NamedTuple):
    step: float
    first: float


@lru_cache(maxsize=64)
def _rule(a: float) -> _Rule:
    """Return the largest step and the largest first node whose errors are at most ``_ERROR``."""
    small, large = 0.01, 3.0
    for _ in range(60):
        middle = (small + large) / 2
        error = 2.0 * np.exp(loggamma(a + 2j * np.pi / middle).real - gammaln(a))
        small, large = (middle, large) if error < _ERROR else (small, middle)
    # the fourth term of the series is no more than twice a power of t
    fourth = _ERROR * np.exp(gammaln(a)) * np.expm1((a + 3) * small) / (2 * small)
    return _Rule(small, min(_FIRST, float(fourth ** (1 / (a + 3)))))


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


class Axes:
    """Q = |z|² for Gaussian z with variances λ and squared means m² along its axes; one column per Q.

    log L(t) = −½ Σ log(1 + 2tλ) − Σ t m² / (1 + 2tλ). The logarithm is of the product: where that overflows, L is 0.
    """

    def __init__(self, variances: FloatArray, squares: FloatArray) -> None:
        self._twice, self._squares = variances, squares
        self._twice *= 2.0
        self._grown, self._drift = np.empty_like(variances), np.empty_like(variances)

    def kappa(self) -> FloatArray:
        """Return half the variance of Q: Σ λ² + 2 λ m²."""
        twice = self._twice
        return np.asarray(np.einsum("ij,ij->j", twice, twice) / 4 + np.einsum("ij,ij->j", twice, self._squares))

    def log(self, t: float) -> FloatArray:
        """Return log L(t) of each Q."""
        grown, drift = self._grown, self._drift
        np.multiply(self._twice, t, out=grown)
        grown += 1.0
        np.divide(self._squares, grown, out=drift)
        with np.errstate(over="ignore"):
            product = np.multiply.reduce(grown, axis=0)
        return np.asarray(-0.5 * np.log(product) - t * np.add.reduce(drift, axis=0))

    def keep(self, which: BoolArray) -> None:
        """Drop the other Q."""
        self._twice, self._squares = self._twice[:, which], self._squares[:, which]
        self._grown, self._drift = np.empty_like(self._twice), np.empty_like(self._twice)
