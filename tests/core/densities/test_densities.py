from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.densities.fidelity import fidelity
from intarsia.core.densities.gaussian import (
    Dirichlet,
    Discrete,
    Gaussian,
    LowRankGaussian,
    _leading,
    fit_density,
    sample_inside,
    shrinkage,
)
from intarsia.exceptions import DensityError, SettingError

SEEDS = st.integers(0, 2**32 - 1)
GAUSSIANS = ("gaussian", "gaussian_full", "gaussian_low_rank", "gaussian_diagonal")


def fit(rows, kind="gaussian", **settings):
    return fit_density(rows, np.ones(rows.shape, dtype=bool), kind, **settings)


def covariance_of(density):
    if isinstance(density, LowRankGaussian):
        return np.diag(density.diagonal) + density.factors @ density.factors.T
    return np.diag(density.covariance) if density.covariance.ndim == 1 else density.covariance


def correlated(rng, n, d):
    return rng.normal(size=(n, d)) + rng.normal(size=(n, 1)) * rng.uniform(0, 2, size=d)


def whole(rows):
    return np.ones(rows.shape, dtype=bool)


def test_variances_are_maximum_likelihood_and_few_points_keep_few_correlations():
    rows = np.array([[0.0, 0.0], [2.0, 4.0], [2.0, 0.0], [0.0, 4.0]])
    g = fit_density(rows, whole(rows), "gaussian_full")
    assert g.mean.tolist() == [1.0, 2.0]
    assert np.diagonal(g.covariance).tolist() == [1.0, 4.0]
    assert fit_density(rows, whole(rows), "gaussian_diagonal").covariance.tolist() == [1.0, 4.0]


def test_full_covariance_only_where_points_suffice():
    rng = np.random.default_rng(0)
    d = 3  # 3 + 6 = 9 parameters need 9 / 0.33 = 27.3 points, and no low rank has fewer
    few, many = rng.normal(size=(27, d)), rng.normal(size=(28, d))
    assert fit_density(few, whole(few)).covariance.ndim == 1
    assert fit_density(many, whole(many)).covariance.ndim == 2


def test_gaps_leave_the_diagonal_of_what_is_observed():
    rows = np.array([[0.0, np.nan], [2.0, 5.0], [4.0, 7.0]])
    g = fit_density(rows, ~np.isnan(rows), "gaussian_full")
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
        fit_density(np.zeros((2, 1)), np.ones((2, 1), dtype=bool), "poisson")


# Gaussians


def test_shrinkage_by_hand():
    # equal columns: z² is 1 everywhere, nothing goes; r = 0: there is nothing to keep
    x = np.array([1.0, -1.0, 1.0, -1.0])
    assert shrinkage(np.column_stack([x, x])) == 0.0
    assert shrinkage(np.column_stack([x, [1.0, -1.0, -1.0, 1.0]])) == 1.0
    a = np.repeat([1.0, -1.0], 6)
    b = a.copy()
    b[[0, 6]] *= -1
    # r = (10 − 2)/12 = 2/3; Var = (10·(1/3)² + 2·(5/3)²) / (12·11) = (60/9)/132; λ = Var / (4/9) = 60/528
    assert shrinkage(np.column_stack([a, b])) == pytest.approx(60 / 528)


def test_shrinkage_is_less_the_more_rows_there_are():
    rng = np.random.default_rng(0)
    few, many = (shrinkage(r - r.mean(axis=0)) for r in (correlated(rng, 10, 6), correlated(rng, 2000, 6)))
    assert 0 < many < 0.02 < few < 1


@given(SEEDS, st.sampled_from(GAUSSIANS), st.integers(1, 60), st.integers(1, 8), st.booleans())
def test_a_column_in_another_unit_gives_the_density_in_that_unit(seed, kind, n, d, shrunk):
    rng = np.random.default_rng(seed)
    rows = correlated(rng, n, d)
    if d > 2:
        rows[:, 1] = 0.1  # constant
    unit, shift = 10.0 ** rng.uniform(-4, 4, size=d), rng.normal(size=d)
    within = rng.random(d) if shrunk else None
    here = fit(rows, kind, within=within)
    there = fit(rows * unit + shift, kind, within=within * unit**2 if shrunk else None)
    assert type(here) is type(there)
    back = there.scaled(shift, unit)
    np.testing.assert_allclose(back.mean, here.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(covariance_of(back), covariance_of(here), rtol=1e-6, atol=1e-8)


@given(SEEDS, st.sampled_from(GAUSSIANS), st.integers(1, 60), st.integers(1, 8))
def test_variances_are_those_of_the_rows(seed, kind, n, d):
    rng = np.random.default_rng(seed)
    rows = correlated(rng, n, d)
    rows[:, 0] = 0.1
    density = fit(rows, kind)
    np.testing.assert_allclose(density.variances, rows.var(axis=0), atol=1e-12)
    assert density.variances[0] == 0.0
    assert (np.diag(covariance_of(density)) >= 0).all()
    assert np.linalg.eigvalsh(covariance_of(density)).min() >= -1e-10
    assert np.isfinite(density.sample(rng, 3)).all()
    assert (density.sample(rng, 3)[:, 0] == 0.1).all()


@given(SEEDS, st.integers(5, 400), st.integers(1, 12))
def test_the_ladder_never_has_more_parameters_than_a_third_of_the_points(seed, n, d):
    density = fit(correlated(np.random.default_rng(seed), n, d))
    diagonal = isinstance(density, Gaussian) and density.covariance.ndim == 1
    assert diagonal or density.n_parameters <= 0.33 * n
    # and it takes what it can
    one_shared = 2 * d + d
    assert not diagonal or min(d + d * (d + 1) // 2, one_shared) > 0.33 * n


def test_the_ladder_by_hand():
    # d = 10: 65 numbers for full, 20 + 10 for one direction, 20 + 19 for two
    rows = correlated(np.random.default_rng(0), 200, 10)
    assert fit(rows[:197]).covariance.shape == (10, 10)  # 65 <= 65.01
    assert fit(rows[:196]).n_parameters == 20 + 10 + 9 + 8 + 7 + 6
    assert fit(rows[:119]).factors.shape == (10, 2)
    assert fit(rows[:118]).factors.shape == (10, 1)
    assert fit(rows[:91]).factors.shape == (10, 1)
    assert fit(rows[:90]).covariance.shape == (10,)
    assert fit(rows[:20], "gaussian_low_rank").factors.shape == (10, 1)
    assert fit(rows[:20], "gaussian_full").covariance.shape == (10, 10)


@given(SEEDS, st.integers(2, 8))
def test_low_rank_of_full_rank_is_the_full_covariance(seed, d):
    rng = np.random.default_rng(seed)
    covariance = np.cov(correlated(rng, 30, d).T) * np.outer(*[10.0 ** rng.uniform(-3, 3, size=d)] * 2)
    for rank in (d, d - 1):  # the last direction is noise in either case
        diagonal, factors = _leading(covariance, rank)
        size = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
        np.testing.assert_allclose((np.diag(diagonal) + factors @ factors.T) / size, covariance / size, atol=1e-10)


def test_one_shared_direction_is_found_exactly():
    covariance = np.full((6, 6), 0.5) + 0.5 * np.eye(6)
    diagonal, factors = _leading(covariance, 1)
    np.testing.assert_allclose(np.diag(diagonal) + factors @ factors.T, covariance, atol=1e-12)


def test_variances_of_few_rows_are_drawn_to_those_within_all_clusters():
    rows = np.array([[0.0, 7.0], [2.0, 7.0]])
    # (2·1 + 5·8) / 7 and (2·0 + 5·1.4) / 7; the correlation of a constant is 0
    for kind in ("gaussian_full", "gaussian_diagonal", "gaussian_low_rank"):
        density = fit(rows, kind, within=np.array([8.0, 1.4]))
        np.testing.assert_allclose(covariance_of(density), np.diag([6.0, 1.0]), atol=1e-12)
    gaps = fit_density(
        np.array([[0.0, 7.0], [2.0, np.nan]]), np.array([[True, True], [True, False]]), within=np.array([8.0, 6.0])
    )
    np.testing.assert_allclose(gaps.covariance, [6.0, 5.0])


@pytest.mark.parametrize("kind", GAUSSIANS)
def test_empty_cells_leave_the_diagonal_of_any_gaussian(kind):
    rows = correlated(np.random.default_rng(1), 200, 3)
    rows[0, 0] = np.nan
    density = fit_density(rows, ~np.isnan(rows), kind)
    np.testing.assert_allclose(density.covariance, np.nanvar(rows, axis=0))


def test_low_rank_parameters_are_counted():
    assert LowRankGaussian(np.zeros(5), np.ones(5), np.zeros((5, 2))).n_parameters == 5 + 5 + 10 - 1


# any density


def _any(rng, kind):
    if kind == "dirichlet":
        return Dirichlet.of(rng.uniform(0.5, 5, size=5), 100.0)
    if kind == "discrete":
        levels = rng.integers(4, size=300)
        rows = np.column_stack([rng.integers(3, size=(300, 2)), levels[:, None] == np.arange(3)])
        return fit(rows.astype(float), kind, groups=[np.array([2, 3, 4])])
    return fit(correlated(rng, 62, 5), kind)


@pytest.mark.parametrize("kind", [*GAUSSIANS, "dirichlet", "discrete"])
def test_marginals_other_units_and_samples_agree(kind):
    rng = np.random.default_rng(5)
    density = _any(rng, kind)
    some, shift, scale = np.array([True, False, True, True, False]), rng.normal(size=3), rng.uniform(0.5, 2, size=3)
    part = density.on(some).scaled(shift, scale).scaled(np.ones(3), 2 * np.ones(3))
    whole = (((density.sample(rng, 40000)[:, some] - shift) / scale) - 1) / 2
    points = part.sample(rng, 40000)
    unit = np.sqrt(part.variances)
    np.testing.assert_allclose(whole.mean(axis=0), part.mean, atol=0.03 * unit.max())
    np.testing.assert_allclose(points.mean(axis=0), part.mean, atol=0.03 * unit.max())
    np.testing.assert_allclose(whole.std(axis=0) / unit, 1.0, atol=0.03)
    np.testing.assert_allclose(points.std(axis=0) / unit, 1.0, atol=0.03)
    np.testing.assert_allclose(np.corrcoef(points.T), np.corrcoef(whole.T), atol=0.03)


@pytest.mark.parametrize("kind", ["dirichlet", "discrete", "gaussian_low_rank"])
def test_any_density_stays_in_its_box(kind):
    rng = np.random.default_rng(6)
    density = _any(rng, kind)
    low, high = density.mean - np.sqrt(density.variances), density.mean + np.sqrt(density.variances)
    points = sample_inside(density, rng, 50, low, high)
    assert ((points >= low) & (points <= high)).all()


def test_unknown_kind_is_refused():
    with pytest.raises(SettingError, match="density must be one of"):
        fit(np.zeros((2, 1)), "poisson")


# Dirichlet


@pytest.mark.parametrize("alpha", [[1.0, 2.0, 5.0], [0.3, 0.3, 0.3, 4.0], [50.0, 100.0, 20.0, 10.0, 7.0]])
@pytest.mark.parametrize("total", [1.0, 100.0])
def test_dirichlet_is_recovered(alpha, total):
    rows = Dirichlet.of(np.array(alpha), total).sample(np.random.default_rng(7), 5000)
    density = fit(rows, "dirichlet")
    np.testing.assert_allclose(density.alpha, alpha, rtol=0.1)
    assert density.total == pytest.approx(total)
    assert density.n_parameters == len(alpha) + 1
    np.testing.assert_allclose(density.mean, rows.mean(axis=0), rtol=0.05)


def test_dirichlet_moments_by_hand():
    # α = (1, 2, 1), total 8: means 2, 4, 2; variances 64 · m(1 − m)/5
    density = Dirichlet.of(np.array([1.0, 2.0, 1.0]), 8.0)
    np.testing.assert_allclose(density.mean, [2, 4, 2])
    np.testing.assert_allclose(density.variances, [64 * 3 / 16 / 5, 64 / 4 / 5, 64 * 3 / 16 / 5])
    scaled = density.scaled(np.array([2.0, 2.0, 2.0]), np.array([1.0, 2.0, 4.0])).on(np.array([False, True, True]))
    np.testing.assert_allclose(scaled.mean, [1, 0])
    np.testing.assert_allclose(scaled.variances, [0.8, 64 * 3 / 16 / 5 / 16])
    np.testing.assert_allclose(density.sample(np.random.default_rng(0), 5).sum(axis=1), 8)


@given(SEEDS, st.integers(1, 20), st.integers(1, 6), st.floats(0, 0.9))
def test_dirichlet_takes_zeros_and_few_rows(seed, n, d, empty):
    rng = np.random.default_rng(seed)
    rows = rng.random((n, d)) * (rng.random((n, d)) > empty)
    rows[np.arange(n), rng.integers(d, size=n)] += 0.1
    rows /= rows.sum(axis=1, keepdims=True)
    density = fit(rows, "dirichlet")
    assert np.isfinite(density.alpha).all()
    assert ((density.alpha > 0) == (rows > 0).any(axis=0)).all()
    points = density.sample(rng, 20)
    np.testing.assert_allclose(points.sum(axis=1), 1.0)
    assert (points[:, density.alpha == 0] == 0).all()


def test_equal_compositions_end_in_a_narrow_density():
    density = fit(np.tile([20.0, 30.0, 50.0], (8, 1)), "dirichlet")
    np.testing.assert_allclose(density.mean, [20, 30, 50])
    assert (np.sqrt(density.variances) < 0.06).all()


def test_rounded_percentages_are_a_composition():
    rows = np.round(Dirichlet.of(np.array([8.0, 9.0, 10.0]), 100.0).sample(np.random.default_rng(8), 400))
    assert (rows.sum(axis=1) != 100).any()
    assert fit(rows, "dirichlet").total == 100.0


def test_what_is_no_composition_is_told_by_counts():
    rows = Dirichlet.of(np.ones(3)).sample(np.random.default_rng(9), 20)
    bad = rows.copy()
    bad[:4, 1] = -0.777
    with pytest.raises(DensityError, match=r"4 of 20 rows have a cell below 0 \(in 1 of 3 columns: '1'\)") as told:
        fit(bad, "dirichlet")
    assert "777" not in str(told.value)
    bad = rows.copy()
    bad[5] *= 3
    with pytest.raises(DensityError, match="1 of 20 rows do not add up.*Try density='gaussian'"):
        fit(bad, "dirichlet")
    bad[5, 2] = np.nan
    with pytest.raises(DensityError, match="1 of 20 rows have an empty cell .*'2'"):
        fit_density(bad, ~np.isnan(bad), "dirichlet")
    with pytest.raises(DensityError, match="20 of 20 rows"):
        fit(np.zeros((20, 3)), "dirichlet")


# Discrete


def test_discrete_by_hand():
    # a code 1, 1, 4, 4 and a group whose rows are level a, level b, none, none
    rows = np.array([[1.0, 1, 0], [1, 0, 1], [4, 0, 0], [4, 0, 0]])
    density = fit(rows, "discrete", groups=[np.array([1, 2])])
    np.testing.assert_allclose(density.mean, rows.mean(axis=0))
    np.testing.assert_allclose(density.variances, rows.var(axis=0))
    assert density.n_parameters == 3 + 2  # two codes and one probability; one probability per level
    assert density.n_outcomes == 2 * 3
    points = density.sample(np.random.default_rng(10), 20000)
    assert set(points[:, 0]) == {1.0, 4.0}
    assert points[:, 1:].sum(axis=1).max() == 1
    np.testing.assert_allclose(points.mean(axis=0), [2.5, 0.25, 0.25], atol=0.03)
    # without level b, a row is level a or none
    part = density.on(np.array([False, True, False]))
    assert part.blocks[0].outcomes.tolist() == [[0.0], [1.0]]
    assert part.blocks[0].probabilities.tolist() == [0.75, 0.25]


def test_discrete_leaves_empty_cells_out():
    rows = np.array([[1.0, 1, 0], [2, np.nan, 1], [np.nan, 0, 1], [2, 0, 1]])
    density = fit_density(rows, ~np.isnan(rows), "discrete", groups=[np.array([1, 2])])
    np.testing.assert_allclose(density.mean, [5 / 3, 1 / 3, 2 / 3])


@given(SEEDS, st.integers(1, 40), st.integers(1, 5))
def test_discrete_keeps_the_frequencies_of_every_column(seed, n, d):
    rng = np.random.default_rng(seed)
    rows = rng.integers(4, size=(n, d)).astype(float)
    density = fit(rows, "discrete")
    np.testing.assert_allclose(density.mean, rows.mean(axis=0))
    np.testing.assert_allclose(density.variances, rows.var(axis=0), atol=1e-12)
    points = density.sample(rng, 50)
    assert all(set(points[:, k]) <= set(rows[:, k]) for k in range(d))


def test_what_is_no_code_is_told_by_counts():
    rows = np.column_stack([np.arange(60.0) + 0.25, np.arange(60.0) % 50])
    with pytest.raises(DensityError, match="1 of 2 columns have up to 60: '0'.*Try density='gaussian'") as told:
        fit(rows, "discrete")
    assert "0.25" not in str(told.value)
    with pytest.raises(DensityError, match="group 0 is not one-hot.*1 of its 1 columns have other values .'1'"):
        fit(rows[:50], "discrete", groups=[np.array([1])])


def test_groups_that_are_not_one_hot_are_refused():
    rows = np.array([[1.0, 1.0], [0.0, 1.0]])
    with pytest.raises(DensityError, match="1 of 2 rows have more than one 1"):
        fit(rows, "discrete", groups=[np.array([0, 1])])
    with pytest.raises(DensityError, match="no row has all 2 columns filled"):
        fit_density(rows, np.eye(2, dtype=bool), "discrete", groups=[np.array([0, 1])])
    for groups in ([np.array([0, 2])], [np.array([0]), np.array([0, 1])]):
        with pytest.raises(SettingError, match="groups must be lists of column numbers from 0 to 1"):
            fit(rows, "discrete", groups=groups)


# fidelity


def _fidelity(rows, density, seed=0, **settings):
    return fidelity(rows, np.ones(rows.shape, dtype=bool), density, np.random.default_rng(seed), **settings)


def test_fidelity_is_chance_where_the_model_is_right_and_worse_where_it_is_not():
    rng = np.random.default_rng(11)
    rows = rng.normal(size=(400, 2)) * [1.0, 50.0]
    right = _fidelity(rows, fit(rows))
    assert right.wasserstein < 1.4 * right.chance
    assert np.isnan(right.total_variation)
    assert np.isnan(right.bound)
    lumps = rows * 0.05 + rng.choice([-1.0, 1.0], size=(400, 1)) * [1.0, 50.0]
    wrong = _fidelity(lumps, fit(lumps))
    assert wrong.wasserstein > 2.5 * wrong.chance


def test_fidelity_is_free_of_units():
    rows = np.random.default_rng(12).normal(size=(50, 3))
    unit = np.array([1e-3, 1.0, 1e5])
    here = _fidelity(rows, fit(rows, "gaussian_diagonal"))
    there = _fidelity(rows * unit, fit(rows * unit, "gaussian_diagonal"))
    np.testing.assert_allclose(here[:2], there[:2])


def test_wasserstein_by_hand():
    # rows 0 and 2 (deviation 1, mean 1), proxies all at 1: everybody moves by 1
    got = _fidelity(np.array([[0.0], [2.0]]), Gaussian(np.ones(1), np.zeros(1)))
    assert got.wasserstein == pytest.approx(1.0)
    assert np.isnan(got.chance)


def test_total_variation_is_within_the_bound_where_columns_are_independent():
    rng = np.random.default_rng(13)
    rows = rng.integers(2, size=(2000, 3)).astype(float)
    right = _fidelity(rows, fit(rows, "discrete"), n_proxies=1000)
    b, n, m = 8, 2000, 1000
    assert right.bound == pytest.approx(np.sqrt(b / n) / 2 + np.sqrt((b - 1) / n) + np.sqrt(b / m) / 2)
    assert right.total_variation < right.bound < 0.2
    equal = np.repeat(
        rows[:, :1], 3, axis=1
    )  # dependent: rows are 000 or 111, six of eight kinds of proxies are neither
    assert _fidelity(equal, fit(equal, "discrete"), n_proxies=1000).total_variation == pytest.approx(0.75, abs=0.05)


def test_fidelity_uses_complete_rows_and_says_nothing_without_two():
    rows = np.array([[1.0, np.nan], [2.0, 3.0], [0.0, np.nan]])
    density = fit_density(rows, ~np.isnan(rows))
    assert np.isnan(fidelity(rows, ~np.isnan(rows), density, np.random.default_rng(0))).all()
    rows[2, 1] = 5.0
    got = fidelity(rows, ~np.isnan(rows), density, np.random.default_rng(0))
    assert np.isfinite(got.wasserstein)
    assert np.isnan(got.chance)


def test_fidelity_of_constant_rows():
    rows = np.full((6, 2), 3.0)
    assert _fidelity(rows, fit(rows))[:2] == (0.0, 0.0)
    discrete = _fidelity(rows, fit(rows, "discrete"))
    assert discrete.total_variation == 0.0
    assert isinstance(fit(rows, "discrete"), Discrete)


def test_a_box_without_width_along_one_axis_leaves_the_others_alone():
    low, high = np.array([3.0, -2.0]), np.array([3.0, 2.0])
    points = sample_inside(Gaussian(np.array([3.0, 0.0]), np.ones(2)), np.random.default_rng(0), 300, low, high)
    assert (points[:, 0] == 3.0).all()
    assert (np.abs(points[:, 1]) == 2.0).mean() < 0.01


def test_fidelity_leaves_out_what_is_constant_but_for_rounding():
    rows = np.column_stack([np.full(7, 0.1), np.arange(7.0)])
    close = fidelity(rows, np.ones(rows.shape, dtype=bool), fit(rows, "gaussian_diagonal"), np.random.default_rng(0))
    assert close.wasserstein < 3.0


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
