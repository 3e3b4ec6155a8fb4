from __future__ import annotations

import numpy as np
import pytest

from intarsia.core.densities import Gaussian, fit_gaussian, sample_inside
from intarsia.exceptions import SettingError


def test_fit_is_maximum_likelihood():
    rows = np.array([[0.0, 0.0], [2.0, 4.0]])
    g = fit_gaussian(rows, np.ones(rows.shape, dtype=bool), "gaussian_full")
    assert g.mean.tolist() == [1.0, 2.0]
    assert g.covariance.tolist() == [[1.0, 2.0], [2.0, 4.0]]
    assert fit_gaussian(rows, np.ones(rows.shape, dtype=bool), "gaussian_diagonal").covariance.tolist() == [1.0, 4.0]


def test_full_covariance_only_where_points_suffice():
    rng = np.random.default_rng(0)
    d = 3  # 3 + 6 = 9 parameters need 9 / 0.33 = 27.3 points
    few, many = rng.normal(size=(27, d)), rng.normal(size=(28, d))
    assert fit_gaussian(few, np.ones(few.shape, dtype=bool)).covariance.ndim == 1
    assert fit_gaussian(many, np.ones(many.shape, dtype=bool)).covariance.ndim == 2


def test_gaps_leave_the_diagonal_of_what_is_observed():
    rows = np.array([[0.0, np.nan], [2.0, 5.0], [4.0, 7.0]])
    g = fit_gaussian(rows, ~np.isnan(rows), "gaussian_full")
    assert g.mean.tolist() == [2.0, 6.0]
    assert g.covariance.tolist() == [pytest.approx(8 / 3), 1.0]


def test_samples_have_the_moments_of_the_density():
    covariance = np.array([[2.0, 0.9], [0.9, 1.0]])
    points = Gaussian(np.array([1.0, -1.0]), covariance).sample(np.random.default_rng(1), 20000)
    np.testing.assert_allclose(points.mean(axis=0), [1, -1], atol=0.05)
    np.testing.assert_allclose(np.cov(points.T), covariance, atol=0.06)


@pytest.mark.parametrize("covariance", [np.array([1.0, 1.0]), np.eye(2)])
def test_proxies_stay_inside_their_box(covariance):
    low, high = np.array([-0.5, 0.2]), np.array([0.1, 1.0])
    points = sample_inside(Gaussian(np.zeros(2), covariance), np.random.default_rng(2), 200, low, high)
    assert points.shape == (200, 2)
    assert ((points >= low) & (points <= high)).all()


def test_a_box_that_is_never_hit_ends_by_clipping():
    box = np.array([50.0])
    points = sample_inside(Gaussian(np.zeros(1), np.ones(1)), np.random.default_rng(3), 5, box, box)
    assert points.tolist() == [[50.0]] * 5


def test_scaled_is_the_density_in_other_units():
    g = Gaussian(np.array([10.0, 4.0]), np.array([[4.0, 2.0], [2.0, 9.0]])).scaled(
        np.array([8.0, 1.0]), np.array([2.0, 3.0])
    )
    assert g.mean.tolist() == [1.0, 1.0]
    np.testing.assert_allclose(g.covariance, [[1.0, 1 / 3], [1 / 3, 1.0]])


def test_parameters_are_counted():
    assert Gaussian(np.zeros(3), np.zeros((3, 3))).n_parameters == 9
    assert Gaussian(np.zeros(3), np.zeros(3)).n_parameters == 6


def test_unknown_density_is_refused():
    with pytest.raises(SettingError, match="density must be one of"):
        fit_gaussian(np.zeros((2, 1)), np.ones((2, 1), dtype=bool), "poisson")
