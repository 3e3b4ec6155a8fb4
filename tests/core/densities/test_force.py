from __future__ import annotations

import numpy as np
import pytest

from intarsia.core.densities.dirichlet import Dirichlet
from intarsia.core.densities.exact_force import exact_forces
from intarsia.core.densities.force import (
    BlockSizes,
    comparable_clusters,
    extent_of_densities,
    sample_inside,
    sampled_forces,
)
from intarsia.core.densities.gaussian import Gaussian
from intarsia.core.distances import Extent, extent_of
from tests import naive
from tests.core.densities.fitting import correlated, fit


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
    codes, shares = fit(np.zeros((4, 2)), "discrete"), Dirichlet(np.ones(2))
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


def test_a_box_without_width_along_one_axis_leaves_the_others_alone():
    low, high = np.array([3.0, -2.0]), np.array([3.0, 2.0])
    points = sample_inside(Gaussian(np.array([3.0, 0.0]), np.ones(2)), np.random.default_rng(0), 300, low, high)
    assert (points[:, 0] == 3.0).all()
    assert (np.abs(points[:, 1]) == 2.0).mean() < 0.01


@pytest.mark.parametrize("kind", ["dirichlet", "discrete", "gaussian_low_rank"])
def test_any_density_stays_in_its_box(kind):
    rng = np.random.default_rng(6)
    rows = {
        "dirichlet": rng.dirichlet(np.arange(1.0, 6.0), size=62),
        "discrete": rng.integers(3, size=(300, 5)).astype(float),
        "gaussian_low_rank": correlated(rng, 62, 5),
    }
    density = fit(rows[kind], kind)
    low, high = density.mean - np.sqrt(density.variances), density.mean + np.sqrt(density.variances)
    points = sample_inside(density, rng, 50, low, high)
    assert ((points >= low) & (points <= high)).all()


def test_sampled_forces_are_means_over_pairs_whatever_comes_together():
    rng = np.random.default_rng(8)
    seen = np.repeat(rng.random((4, 5)) < 0.7, 2, axis=0)
    seen[:, 0] = True
    proxies = [rng.normal(size=(rng.integers(2, 9), row.sum())) + 3 for row in seen]
    extent = Extent(np.full(5, -1.0), np.full(5, 6.0))
    for w, s in ((2.0, 0.01), (3.0, 0.01), (2.0, 0.0)):
        slow = np.full((8, 8), np.nan)
        for k in range(8):
            for m in range(8):
                shared = seen[k] & seen[m]
                if k != m:
                    x, y = proxies[k][:, shared[seen[k]]], proxies[m][:, shared[seen[m]]]
                    slow[k, m] = naive.sampled_force(x, y, [(-1.0, 6.0)] * int(shared.sum()), w, s)
        whole = sampled_forces(proxies, seen, extent, w, s, "euclidean")
        np.testing.assert_allclose(whole, slow, rtol=1e-9)
        split = sampled_forces(proxies, seen, extent, w, s, "euclidean", BlockSizes(cache=100))
        np.testing.assert_allclose(split, slow, rtol=1e-9)


def test_sampled_force_equals_the_formula():
    rng = np.random.default_rng(4)
    seen = np.array([[True, True, False], [True, False, True], [False, True, True]])
    proxies = [rng.normal(size=(7, 2)) for _ in range(3)]
    extent = Extent(np.full(3, -2.0), np.array([2.0, 3.0, 2.5]))
    forces = sampled_forces(proxies, seen, extent, 3.0, 0.05, "euclidean")
    # clusters 0 and 1 share the first feature, 0 and 2 the second
    assert forces[0, 1] == pytest.approx(
        naive.sampled_force(proxies[0][:, :1], proxies[1][:, :1], [(-2.0, 2.0)], 3.0, 0.05)
    )
    assert forces[0, 2] == pytest.approx(
        naive.sampled_force(proxies[0][:, 1:], proxies[2][:, :1], [(-2.0, 3.0)], 3.0, 0.05)
    )


@pytest.mark.parametrize("metric", ["manhattan", "cosine", lambda u, v: float(np.abs(u - v).max())])
def test_sampled_force_takes_any_metric(metric):
    rng = np.random.default_rng(5)
    proxies = [rng.normal(size=(5, 3)) + 2 for _ in range(2)]
    seen = np.ones((2, 3), dtype=bool)
    extent = extent_of(np.vstack(proxies), np.ones((10, 3), dtype=bool))
    forces = sampled_forces(proxies, seen, extent, 2.0, 0.01, metric)
    largest = naive.phi(extent.high, extent.low, metric)
    pairs = [(naive.phi(x, y, metric) / largest) ** 2 + 1e-4 for x in proxies[0] for y in proxies[1]]
    assert forces[0, 1] == pytest.approx(np.mean([1 / q for q in pairs]))
