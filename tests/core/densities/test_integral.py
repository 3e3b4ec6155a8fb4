from __future__ import annotations

import numpy as np
import pytest

from intarsia.core.densities.integral import integrate, integration_range


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
