from __future__ import annotations

import numpy as np
import pytest

from intarsia.core.densities.trapezoid import SOFT_ENOUGH, Axes, inverse_power


@pytest.mark.parametrize("exponent", [0.5, 2.0, 3.0, 12.0])
def test_a_fixed_distance_has_the_power_of_that_distance(exponent):
    softening = np.array([0.999, 0.5, 0.01, 1e-6, 2 * SOFT_ENOUGH])  # in units of Q + s², which is 1
    axes = Axes(np.zeros((1, 5)), (1.0 - softening)[None])
    np.testing.assert_array_equal(axes.kappa(), 0.0)
    np.testing.assert_allclose(inverse_power(axes, softening, axes.kappa(), exponent), 1.0, rtol=1e-6)


def test_kappa_is_half_the_variance_of_the_square():
    rng = np.random.default_rng(0)
    variances, means = rng.random((4, 3)), rng.normal(size=(4, 3))
    squares = np.square(rng.normal(size=(400_000, 4, 3)) * np.sqrt(variances) + means).sum(axis=1)
    np.testing.assert_allclose(Axes(variances, np.square(means)).kappa(), squares.var(axis=0) / 2, rtol=0.02)
