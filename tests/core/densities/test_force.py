from __future__ import annotations

import numpy as np
import pytest

from intarsia.core.densities.dirichlet import Dirichlet
from intarsia.core.densities.exact_force import exact_forces
from intarsia.core.densities.force import comparable_clusters, extent_of_densities
from intarsia.core.densities.gaussian import Gaussian
from intarsia.core.densities.sampled_force import sampled_forces
from intarsia.core.distances import Extent
from tests.core.densities.fitting import fit


def test_clusters_without_a_shared_feature_exert_no_force_at_all():
    seen = np.array([[True, False], [False, True]])
    densities = [Gaussian(np.array([0.0]), np.array([1.0])), Gaussian(np.array([1.0]), np.array([1.0]))]
    extent = extent_of_densities(densities, seen, 2.0)
    assert np.isnan(exact_forces(densities, seen, extent, 2.0, 0.01)).all()
    proxies = [np.zeros((3, 1)), np.ones((3, 1))]
    assert np.isnan(sampled_forces(proxies, seen, extent, 2.0, 0.01, "euclidean")).all()


def test_an_extent_reaches_two_deviations():
    densities = [Gaussian(np.array([0.0]), np.array([4.0])), Gaussian(np.array([10.0]), np.array([[1.0]]))]
    extent = extent_of_densities(densities, np.array([[True, False], [True, False]]), 2.0)
    assert extent.low[0] == -4.0
    assert extent.high[0] == 12.0
    assert np.isnan(extent.low[1])


def test_the_extent_of_any_family():
    codes, shares = fit(np.zeros((4, 2)), "discrete"), Dirichlet.of(np.ones(2))
    extent = extent_of_densities([codes, shares], np.ones((2, 2), dtype=bool), 2.0)
    assert extent.low[0] == pytest.approx(0.5 - 2 * np.sqrt(1 / 12))
    assert extent.high[0] == pytest.approx(0.5 + 2 * np.sqrt(1 / 12))


def test_clusters_are_compared_in_sets_with_the_same_features():
    seen = np.array([[True, True, False], [True, True, False], [False, True, True], [False, False, True]])
    extent = Extent(np.zeros(3), np.array([1.0, 1.0, 0.0]))  # the last feature does not vary
    pairs = [
        (left.tolist(), right.tolist(), shared.tolist()) for left, right, shared in comparable_clusters(seen, extent)
    ]
    assert sorted(pairs) == [
        ([0, 1], [0, 1], [True, True, False]),
        ([2], [0, 1], [False, True, False]),
        ([2], [2], [False, True, False]),
    ]
