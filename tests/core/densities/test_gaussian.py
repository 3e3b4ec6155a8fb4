from __future__ import annotations

import numpy as np
import pytest

from intarsia.core.densities.gaussian import Gaussian


def test_samples_have_the_moments_of_the_density():
    covariance = np.array([[2.0, 0.9], [0.9, 1.0]])
    points = Gaussian(np.array([1.0, -1.0]), covariance).sample(np.random.default_rng(1), 20000)
    np.testing.assert_allclose(points.mean(axis=0), [1, -1], atol=0.05)
    np.testing.assert_allclose(np.cov(points.T), covariance, atol=0.06)


def test_in_units_is_the_density_in_other_units():
    g = Gaussian(np.array([10.0, 4.0]), np.array([[4.0, 2.0], [2.0, 9.0]])).in_units(
        np.array([8.0, 1.0]), np.array([2.0, 3.0])
    )
    assert g.mean.tolist() == [1.0, 1.0]
    np.testing.assert_allclose(g.covariance, [[1.0, 1 / 3], [1 / 3, 1.0]])


@pytest.mark.parametrize("factors", [np.zeros((3, 0)), np.array([[1.0], [2.0], [0.0]])])
def test_a_low_rank_covariance_is_a_diagonal_plus_factors(factors):
    density = Gaussian(np.zeros(3), np.array([1.0, 2.0, 3.0]), factors)
    np.testing.assert_allclose(density.full_covariance, np.diag([1.0, 2.0, 3.0]) + factors @ factors.T)
    np.testing.assert_allclose(np.diagonal(density.full_covariance), density.variances)
    assert density.rank == factors.shape[1]
