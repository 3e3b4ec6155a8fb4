from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.densities.base import fit_densities
from intarsia.core.densities.gaussian_fit import GaussianFamily, correlation_shrinkage, low_rank_covariance
from tests.core.densities.fitting import GAUSSIANS, clustered, correlated, fit

SEEDS = st.integers(0, 2**32 - 1)


def test_variances_are_maximum_likelihood_and_few_points_keep_few_correlations():
    rows = np.array([[0.0, 0.0], [2.0, 4.0], [2.0, 0.0], [0.0, 4.0]])
    g = fit(rows, "gaussian_full")
    assert g.mean.tolist() == [1.0, 2.0]
    assert np.diagonal(g.covariance).tolist() == [1.0, 4.0]
    assert fit(rows, "gaussian_diagonal").covariance.tolist() == [1.0, 4.0]


def test_full_covariance_only_where_points_suffice():
    rng = np.random.default_rng(0)
    d = 3  # 3 + 6 = 9 parameters need 9 / 0.33 = 27.3 points, and no low rank has fewer
    few, many = rng.normal(size=(27, d)), rng.normal(size=(28, d))
    assert fit(few).covariance.ndim == 1
    assert fit(many).covariance.ndim == 2


def test_missing_values_leave_the_diagonal_of_what_is_observed():
    rows = np.array([[0.0, np.nan], [2.0, 5.0], [4.0, 7.0]])
    g = fit(rows, "gaussian_full")
    assert g.mean.tolist() == [2.0, 6.0]
    assert g.covariance.tolist() == [pytest.approx(8 / 3), 1.0]


@given(SEEDS, st.sampled_from(GAUSSIANS), st.integers(1, 60), st.integers(1, 8), st.integers(1, 3))
def test_a_column_in_another_unit_gives_the_density_in_that_unit(seed, kind, n, d, n_clusters):
    rng = np.random.default_rng(seed)
    rows, labels = correlated(rng, n, d), np.arange(n) % n_clusters
    if d > 2:
        rows[:, 1] = 0.1  # constant
    unit, shift = 10.0 ** rng.uniform(-4, 4, size=d), rng.normal(size=d)
    observed = np.ones(rows.shape, dtype=bool)
    here = fit_densities(clustered(rows, observed, labels), kind)
    there = fit_densities(clustered(rows * unit + shift, observed, labels), kind)
    for one, other in zip(here, there, strict=True):
        assert type(one) is type(other)
        back = other.in_units(shift, unit)
        np.testing.assert_allclose(back.mean, one.mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(back.full_covariance, one.full_covariance, rtol=1e-6, atol=1e-8)


@given(SEEDS, st.sampled_from(GAUSSIANS), st.integers(1, 60), st.integers(1, 8))
def test_variances_are_those_of_the_rows(seed, kind, n, d):
    rng = np.random.default_rng(seed)
    rows = correlated(rng, n, d)
    rows[:, 0] = 0.1
    density = fit(rows, kind)
    np.testing.assert_allclose(density.variances, rows.var(axis=0), atol=1e-12)
    assert density.variances[0] == 0.0
    assert (np.diag(density.full_covariance) >= 0).all()
    assert np.linalg.eigvalsh(density.full_covariance).min() >= -1e-10
    assert np.isfinite(density.sample(rng, 3)).all()
    assert (density.sample(rng, 3)[:, 0] == 0.1).all()


def n_parameters(density):
    d, r = len(density.mean), density.rank
    return d + d * (d + 1) // 2 if density.covariance.ndim == 2 else 2 * d + d * r - r * (r - 1) // 2


@given(SEEDS, st.integers(5, 400), st.integers(1, 12))
def test_the_ladder_never_has_more_parameters_than_a_third_of_the_points(seed, n, d):
    density = fit(correlated(np.random.default_rng(seed), n, d))
    assert density.rank == 0 or n_parameters(density) <= 0.33 * n
    # and it takes what it can
    one_shared = 2 * d + d
    assert density.rank > 0 or d == 0 or min(d + d * (d + 1) // 2, one_shared) > 0.33 * n


def test_the_ladder_by_hand():
    # d = 10: 65 numbers for full, 20 + 10 for one direction, 20 + 19 for two
    rows = correlated(np.random.default_rng(0), 200, 10)
    assert fit(rows[:197]).covariance.shape == (10, 10)  # 65 <= 65.01
    assert n_parameters(fit(rows[:196])) == 20 + 10 + 9 + 8 + 7 + 6
    assert fit(rows[:119]).factors.shape == (10, 2)
    assert fit(rows[:118]).factors.shape == (10, 1)
    assert fit(rows[:91]).factors.shape == (10, 1)
    assert fit(rows[:90]).covariance.shape == (10,)
    assert fit(rows[:20], "gaussian_low_rank").factors.shape == (10, 1)
    assert fit(rows[:20], "gaussian_full").covariance.shape == (10, 10)


def test_variances_of_few_rows_are_shrunk_towards_those_within_all_clusters():
    # the other cluster makes the variances within (2·1 + 30) / 4 = 8 and (2·0 + 5.6) / 4 = 1.4
    a, b = np.sqrt(15.0), np.sqrt(2.8)
    rows, labels = np.array([[0.0, 7.0], [2.0, 7.0], [a, b], [-a, -b]]), np.array([0, 0, 1, 1])
    # (2·1 + 5·8) / 7 and (2·0 + 5·1.4) / 7; the correlation of a constant is 0
    for kind in ("gaussian_full", "gaussian_diagonal", "gaussian_low_rank"):
        density = fit(rows, kind, labels=labels)
        np.testing.assert_allclose(density.full_covariance, np.diag([6.0, 1.0]), atol=1e-12)
    rows = np.array([[0.0, 7.0], [2.0, np.nan], [a, 3.0], [-a, -3.0]])  # the second variance within is 18 / 3 = 6
    np.testing.assert_allclose(fit(rows, labels=labels).covariance, [6.0, 5.0])


@pytest.mark.parametrize("kind", GAUSSIANS)
def test_a_missing_value_leaves_the_diagonal_of_any_gaussian(kind):
    rows = correlated(np.random.default_rng(1), 200, 3)
    rows[0, 0] = np.nan
    density = fit(rows, kind)
    np.testing.assert_allclose(density.covariance, np.nanvar(rows, axis=0))


@pytest.mark.parametrize("size", [1e-95, 1e80])
def test_products_of_very_large_or_small_values_neither_overflow_nor_vanish(size):
    rows = correlated(np.random.default_rng(3), 300, 4)
    usual, extreme = fit(rows, "gaussian_full"), fit(rows * size, "gaussian_full")
    np.testing.assert_allclose(extreme.covariance / size / size, usual.covariance, rtol=1e-9)


def test_products_that_do_not_fit_into_memory_take_more_passes():
    rng = np.random.default_rng(4)
    rows, labels = correlated(rng, 400, 5), np.arange(400) % 4
    clusters = clustered(rows, np.ones(rows.shape, dtype=bool), labels)
    few = GaussianFamily(n_products=1).fit(clusters, "gaussian_full")
    for one, other in zip(GaussianFamily().fit(clusters, "gaussian_full"), few, strict=True):
        assert (one.covariance == other.covariance).all()


def test_pieces_do_not_change_the_density():
    rng = np.random.default_rng(5)
    rows = correlated(rng, 3000, 200)  # pieces of 1280 rows
    pieces = list(clustered(rows, np.ones(rows.shape, dtype=bool)).parts())
    assert len(pieces) > 1
    np.testing.assert_allclose(fit(rows, "gaussian_diagonal").covariance, rows.var(axis=0), rtol=1e-12)


def test_suppressed_features_are_not_in_the_density():
    rng = np.random.default_rng(6)
    rows, labels = correlated(rng, 300, 4), np.arange(300) % 2
    observed = np.ones(rows.shape, dtype=bool)
    clusters = clustered(rows, observed, labels)
    counts = clusters.centroids.counts.copy()
    counts[1, [0, 2]] = 0
    released = MaskedCentroids.of(clusters.centroids.values, counts)
    hidden = fit_densities(clustered(rows, observed, labels, released=released), "gaussian_diagonal")
    usual = fit_densities(clusters, "gaussian_diagonal")
    np.testing.assert_array_equal(hidden[0].covariance, usual[0].covariance)
    np.testing.assert_array_equal(hidden[1].covariance, usual[1].covariance[[1, 3]])


def shrinkage_of(centred):
    squares = np.square(centred)
    return correlation_shrinkage(centred.T @ centred / len(centred), squares.T @ squares / len(centred), len(centred))


def test_shrinkage_by_hand():
    # equal columns: z² is 1 everywhere, nothing goes; r = 0: there is nothing to keep
    x = np.array([1.0, -1.0, 1.0, -1.0])
    assert shrinkage_of(np.column_stack([x, x])) == 0.0
    assert shrinkage_of(np.column_stack([x, [1.0, -1.0, -1.0, 1.0]])) == 1.0
    a = np.repeat([1.0, -1.0], 6)
    b = a.copy()
    b[[0, 6]] *= -1
    # r = (10 − 2)/12 = 2/3; Var = (10·(1/3)² + 2·(5/3)²) / (12·11) = (60/9)/132; λ = Var / (4/9) = 60/528
    assert shrinkage_of(np.column_stack([a, b])) == pytest.approx(60 / 528)


def test_shrinkage_is_less_the_more_rows_there_are():
    rng = np.random.default_rng(0)
    few, many = (shrinkage_of(r - r.mean(axis=0)) for r in (correlated(rng, 10, 6), correlated(rng, 2000, 6)))
    assert 0 < many < 0.02 < few < 1


@given(SEEDS, st.integers(2, 8))
def test_low_rank_of_full_rank_is_the_full_covariance(seed, d):
    rng = np.random.default_rng(seed)
    covariance = np.cov(correlated(rng, 30, d).T) * np.outer(*[10.0 ** rng.uniform(-3, 3, size=d)] * 2)
    for rank in (d, d - 1):  # the last direction is noise in either case
        diagonal, factors = low_rank_covariance(covariance, rank)
        size = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
        np.testing.assert_allclose((np.diag(diagonal) + factors @ factors.T) / size, covariance / size, atol=1e-10)


def test_one_shared_direction_is_found_exactly():
    covariance = np.full((6, 6), 0.5) + 0.5 * np.eye(6)
    diagonal, factors = low_rank_covariance(covariance, 1)
    np.testing.assert_allclose(np.diag(diagonal) + factors @ factors.T, covariance, atol=1e-12)


@given(SEEDS, st.sampled_from(GAUSSIANS), st.integers(1, 40), st.integers(1, 6), st.integers(1, 3))
def test_without_shrinkage_each_cluster_has_the_covariance_of_its_own_rows(seed, kind, n, d, n_clusters):
    rng = np.random.default_rng(seed)
    rows, labels = correlated(rng, n, d), np.arange(n) % n_clusters
    clusters = clustered(rows, np.ones(rows.shape, dtype=bool), labels)
    for k, density in enumerate(fit_densities(clusters, kind, shrink=False)):
        expected = np.cov(rows[labels == k].T, bias=True).reshape(d, d)
        np.testing.assert_allclose(density.variances, np.diagonal(expected), rtol=1e-9, atol=1e-12)
        if kind == "gaussian_full":
            np.testing.assert_allclose(density.full_covariance, expected, rtol=1e-9, atol=1e-12)
