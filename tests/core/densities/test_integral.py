from __future__ import annotations

import numpy as np
import pytest

from intarsia.core.densities.integral import SOFT_ENOUGH, integrate, integration_range, inverse_power
from intarsia.core.densities.moments import Axes


@pytest.mark.parametrize("exponent", [0.5, 2.0, 3.0])
def test_a_fixed_distance_has_the_power_of_that_distance(exponent):
    square = np.array([1e-6, 1.0, 1e6])
    over = integration_range(square, square, np.zeros(3, dtype=np.intp), np.full(3, np.inf), 0.0, exponent)
    value = integrate(lambda u: exponent / 2 * u - np.exp(u) * square[:, None], over, exponent)
    np.testing.assert_allclose(value, square ** (-exponent / 2), rtol=1e-5)


def test_an_integral_without_an_end_is_infinite():
    nothing = np.zeros(1)
    over = integration_range(np.ones(1), nothing, np.array([2]), np.ones(1), 0.0, 2.0)
    assert not over.finite.any()
    assert np.isinf(integrate(lambda u: u - np.log1p(2 * np.exp(u)), over, 2.0)).all()


@pytest.mark.parametrize("exponent", [0.5, 2.0, 3.0, 12.0])
def test_with_softening_a_fixed_distance_has_the_power_of_that_distance(exponent):
    softening = np.array([0.999, 0.5, 0.01, 1e-6, 2 * SOFT_ENOUGH])  # in units of Q + s², which is 1
    axes = Axes(np.zeros((1, 5)), (1.0 - softening)[None])
    np.testing.assert_array_equal(axes.kappa(), 0.0)
    np.testing.assert_allclose(inverse_power(axes, softening, axes.kappa(), exponent), 1.0, rtol=1e-6)


def test_kappa_is_half_the_variance_of_the_square():
    rng = np.random.default_rng(0)
    variances, means = rng.random((4, 3)), rng.normal(size=(4, 3))
    squares = np.square(rng.normal(size=(400_000, 4, 3)) * np.sqrt(variances) + means).sum(axis=1)
    np.testing.assert_allclose(Axes(variances, np.square(means)).kappa(), squares.var(axis=0) / 2, rtol=0.02)
