"""Noise for sums of integers, and what it costs, by OpenDP: the only module that imports it.

A release is ρ-zCDP if discrete Gaussian noise of scale Δ / √(2ρ) is added to integers of which one row changes the L2 norm
by at most Δ. The noise comes from the operating system, never from a seed. How long it takes to draw tells of its size, so
it is drawn before rows are read: :meth:`Noise.draw`, then the sums, then :func:`add_noise`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import metadata
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import optimize

from intarsia.exceptions import ReleaseError, SettingError, install

Integers = npt.NDArray[np.int64]
SUPPORTED = "0.16."
_HINT = install("private")
LARGEST_SCALE = 2.0**54  # noise beyond 128 scales, 2⁶¹, has a probability below exp(-8000)
_LARGEST = 1 << 62  # of a noisy sum
_LARGEST_EPSILON = 1000.0
_PRECISION = 2.0**-40  # of ρ, relative


class Noise(Protocol):
    """Where noise comes from."""

    def draw(self, n: int, sensitivity: float, rho: float) -> Integers:
        """Return n integers; added to n sums with this L2 sensitivity, they make the release ``rho``-zCDP."""


class OpenDPNoise:
    """Discrete Gaussian noise of OpenDP, whose own privacy map is asked whether it is enough."""

    def draw(self, n: int, sensitivity: float, rho: float) -> Integers:
        """Return n integers; added to n sums with this L2 sensitivity, they make the release ``rho``-zCDP."""
        if n < 0:
            raise SettingError(f"the number of sums must be at least 0. Got {n} instead.")
        measurement = _measurement(_scale(sensitivity, rho))
        if measurement.map(sensitivity) > rho:
            raise ReleaseError("OpenDP does not confirm the privacy of the noise, so nothing is released.")
        noise = np.asarray(measurement([0] * n), dtype=np.int64)
        if n and max(int(noise.max()), -int(noise.min())) >= _LARGEST // 2:
            raise ReleaseError("the noise does not fit into 64 bits, so nothing is released. Hint: use larger units.")
        return noise


def add_noise(sums: Integers, noise: Integers) -> Integers:
    """Return noisy sums, or raise a ReleaseError if they are too large for 64 bits.

    The decision depends on the noisy sums only: where a sum leaves the 64 bits, it wraps to the other end of them.
    """
    if sums.dtype != np.int64 or noise.dtype != np.int64 or sums.shape != noise.shape:
        raise TypeError(f"sums and noise must be int64 of one shape, not {sums.dtype} and {noise.dtype}.")
    noisy = sums + noise
    if noisy.size and (int(noisy.max()) >= _LARGEST or int(noisy.min()) <= -_LARGEST):
        raise ReleaseError("noisy sums do not fit into 64 bits, so nothing is released. Hint: use larger units.")
    return noisy


@lru_cache(maxsize=1024)
def epsilon_of(rho: float, delta: float) -> float:
    """Return the smallest ε that OpenDP proves for a ``rho``-zCDP release at this δ, rounded up.

    What several releases cost is the ε of the sum of their ρ, which is less than the sum of their ε.
    """
    _check_delta(delta)
    if not 0 <= rho < math.inf:
        raise SettingError(f"rho must be at least 0. Got {rho} instead.")
    if rho == 0:
        return 0.0
    measurement, distance = _measurement(1.0), math.sqrt(2 * rho)
    while measurement.map(distance) < rho:
        distance = math.nextafter(distance, math.inf)
    return float(_opendp().c.make_zCDP_to_approxDP(measurement).map(distance).epsilon(delta))


@lru_cache(maxsize=1024)
def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest ρ whose ε at this δ is at most ``epsilon``, rounded down."""
    _check_delta(delta)
    if not 0 < epsilon <= _LARGEST_EPSILON:
        raise SettingError(f"epsilon must be above 0 and at most {_LARGEST_EPSILON:g}. Got {epsilon} instead.")
    high = epsilon
    while epsilon_of(high, delta) <= epsilon:
        high *= 2
    rho = float(optimize.brentq(lambda rho: epsilon_of(rho, delta) - epsilon, 0.0, high, xtol=1e-18, rtol=_PRECISION))
    while epsilon_of(rho, delta) > epsilon:
        rho *= 1 - _PRECISION
    return rho


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise SettingError(f"delta must be between 0 and 1. Got {delta} instead. Hint: 1e-6.")


def _scale(sensitivity: float, rho: float) -> float:
    """Return the smallest scale, but for a few last bits, that OpenDP accepts for this sensitivity and ρ."""
    if not (0 < sensitivity < math.inf and 0 < rho < math.inf):
        raise SettingError(f"sensitivity and rho must be above 0 and finite. Got {sensitivity} and {rho} instead.")
    scale = math.nextafter(sensitivity / math.sqrt(2 * rho), math.inf)
    for _ in range(60):
        if not 0 < scale <= LARGEST_SCALE:
            raise SettingError(
                f"noise of scale {scale:.3g} does not fit into 64 bits. Hint: a larger rho or larger units."
            )
        if _measurement(scale).map(sensitivity) <= rho:
            break
        scale *= 1 + 2.0**-50
    return scale


def _measurement(scale: float) -> Any:
    dp = _opendp()
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float), scale=scale)


@lru_cache(maxsize=1)
def _opendp() -> Any:
    """Import OpenDP, which takes a second, or raise a SettingError that says how to install it."""
    try:
        import opendp.prelude as dp
    except ImportError:
        raise SettingError(f"differential privacy needs opendp, which is not installed. {_HINT}") from None
    installed = metadata.version("opendp")
    if not installed.startswith(SUPPORTED):
        raise SettingError(f"opendp {installed} is not supported: {SUPPORTED}x is needed. {_HINT}")
    dp.enable_features("contrib")
    return dp
