from __future__ import annotations

import numpy as np
import pytest

from intarsia.core.densities.base import density_names, family_of, fit_densities
from intarsia.core.densities.dirichlet import Dirichlet
from intarsia.exceptions import SettingError
from tests.core.densities.fitting import GAUSSIANS, clustered, correlated, fit


def _any(rng, kind):
    if kind == "dirichlet":
        return Dirichlet(rng.uniform(0.5, 5, size=5), 100.0)
    if kind == "discrete":
        levels = rng.integers(4, size=300)
        rows = np.column_stack([rng.integers(3, size=(300, 2)), levels[:, None] == np.arange(3)])
        return fit(rows.astype(float), kind, categories={"sex": np.array([2, 3, 4])})
    return fit(correlated(rng, 62, 5), kind)


@pytest.mark.parametrize("kind", [*GAUSSIANS, "dirichlet", "discrete"])
def test_other_units_positions_and_samples_agree(kind):
    rng = np.random.default_rng(5)
    density, shift, scale = _any(rng, kind), rng.normal(size=5), rng.uniform(0.5, 2, size=5)
    at = np.array([4, 0, 1, 5, 3])
    part = density.in_units(shift, scale).placed(at, 6).in_units(np.ones(6), 2 * np.ones(6))
    expected = (np.insert(((density.sample(rng, 40000) - shift) / scale)[:, np.argsort(at)], 2, 0.0, axis=1) - 1) / 2
    points = part.sample(rng, 40000)
    unit = np.sqrt(part.variances.max())
    for moved in (expected, points):
        np.testing.assert_allclose(moved.mean(axis=0), part.mean, atol=0.03 * unit)
        np.testing.assert_allclose(moved.std(axis=0), np.sqrt(part.variances), atol=0.03 * unit)
    np.testing.assert_allclose(np.cov(points.T), np.cov(expected.T), atol=0.05 * unit**2)
    assert part.n_outcomes == density.n_outcomes


def test_marginals_of_gaussians_are_those_of_their_points():
    rng = np.random.default_rng(5)
    features = np.array([True, False, True, True, False])
    for kind in GAUSSIANS:
        density = _any(rng, kind)
        part = density.marginal(features)
        np.testing.assert_array_equal(part.mean, density.mean[features])
        np.testing.assert_allclose(part.full_covariance, density.full_covariance[np.ix_(features, features)])


def test_every_density_can_be_placed_among_more_features():
    rng = np.random.default_rng(0)
    shares, at = rng.dirichlet([4.0, 2.0, 1.0], size=80), np.array([3, 0, 2])
    for kind in ("gaussian_full", "gaussian_low_rank", "gaussian_diagonal", "dirichlet", "discrete"):
        own = fit(shares.round(1) if kind == "discrete" else shares, kind)
        wide = own.placed(at, 5)
        for part in (wide.mean, wide.variances):
            assert part[[1, 4]].tolist() == [0.0, 0.0]
        np.testing.assert_allclose(wide.mean[at], own.mean)
        np.testing.assert_allclose(wide.variances[at], own.variances)
        points = wide.sample(np.random.default_rng(1), 40)
        assert np.abs(points[:, [1, 4]]).max() < 1e-6
        assert points[:, at].std(axis=0).min() > 0


def test_an_unknown_density_is_refused():
    with pytest.raises(SettingError, match="density must be one of"):
        fit(np.zeros((2, 1)), "poisson")


def test_every_density_has_one_family():
    assert density_names() == (*GAUSSIANS, "dirichlet", "discrete")
    assert {family_of(name).name for name in density_names()} == {"gaussian", "dirichlet", "discrete"}


@pytest.mark.parametrize("kind", [*GAUSSIANS, "dirichlet", "discrete"])
def test_every_density_becomes_parts_and_a_density_again(kind):
    family, density = family_of(kind), _any(np.random.default_rng(7), kind)
    parts = family.to_parts(density)
    assert set(family.parts) - family.optional <= set(parts) <= set(family.parts)
    assert family.problem(parts, 5) is None
    assert family.problem(parts, 4) is not None
    again = family.from_parts(parts, density.mean)
    np.testing.assert_array_equal(again.mean, density.mean)
    np.testing.assert_array_equal(again.variances, density.variances)


@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_are_the_rows_of_each_cluster(order):
    rng = np.random.default_rng(8)
    rows, labels = np.asarray(rng.normal(size=(2000, 300)), order=order), rng.integers(-1, 3, size=2000)
    observed = rng.random(rows.shape) < 0.9
    observed[:200] = True
    clusters = clustered(rows, observed, labels)
    cells, counts, sizes = np.zeros((3, 300)), np.zeros((3, 300)), np.zeros(3)
    for part in clusters.parts():
        cells[part.cluster] += part.cells.sum(axis=1)
        counts[part.cluster] += part.cells.shape[1] if part.observed is None else part.observed.sum(axis=1)
        sizes[part.cluster] += part.cells.shape[1]
    np.testing.assert_array_equal(sizes, clusters.sizes)
    np.testing.assert_array_equal(counts, clusters.centroids.counts)
    np.testing.assert_allclose(cells / counts, clusters.centroids.values, atol=1e-12)


def test_clusters_without_rows_in_any_piece_are_fitted_to_nothing():
    rows = np.array([[1.0], [2.0]])
    assert fit_densities(clustered(rows, np.ones((2, 1), dtype=bool), np.array([-1, -1])), "gaussian") == []
