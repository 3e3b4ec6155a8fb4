from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln

from intarsia.core.densities.force import (
    exact_forces,
    gaussian_extent,
    has_exact_force,
    inverse_power_moment,
    low_rank_moment,
    sampled_forces,
)
from intarsia.core.densities.gaussian import Dirichlet, Gaussian, LowRankGaussian, fit_density
from intarsia.core.distances import Extent, extent_of
from intarsia.exceptions import SettingError
from tests import naive
from tests.strategies import FEW


@FEW
@given(
    st.integers(1, 300),
    st.sampled_from([1.0, 2.0, 3.0, 6.0, 12.0]),
    st.sampled_from([0.3, 0.01, 0.001]),
    st.integers(0, 2**32 - 1),
)
def test_exact_moment_equals_adaptive_quadrature(d, w, s, seed):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-4, 0)
    variances = scale * rng.random(d) ** 3 * (rng.random(d) < 0.8)
    squares = scale * rng.normal(size=d) ** 2 * rng.choice([0.0, 1.0, 20.0])
    fast = inverse_power_moment(variances[None], squares[None], s, w)[0]
    assert fast == pytest.approx(naive.inverse_power_moment(variances, squares, s, w), rel=1e-4)


@FEW
@given(
    st.sampled_from([1, 2, 3, 10, 100]),
    st.sampled_from([0.2, 1.0, 2.0, 3.0, 12.0, 60.0]),
    st.sampled_from([3.0, 0.3, 0.01, 1e-4]),
    st.integers(0, 2**32 - 1),
)
def test_with_softening_the_error_is_below_a_millionth_for_any_pair(d, w, s, seed):
    """Many axes or one, all variance or none, means near or far: the bound does not depend on them."""
    rng = np.random.default_rng(seed)
    variances = 10.0 ** rng.uniform(-8, 0, size=d) * (rng.random(d) < rng.choice([0.0, 0.5, 1.0]))
    squares = 10.0 ** rng.uniform(-8, 1, size=d) * (rng.random(d) < rng.choice([0.0, 0.5, 1.0]))
    fast = inverse_power_moment(variances[None], squares[None], s, w)[0]
    assert fast == pytest.approx(naive.inverse_power_moment(variances, squares, s, w), rel=1e-6)


def test_sampled_forces_are_means_over_pairs_whatever_comes_together(monkeypatch):
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
        with monkeypatch.context() as patch:
            patch.setattr("intarsia.core.densities.force._CACHED", 100)
            np.testing.assert_allclose(sampled_forces(proxies, seen, extent, w, s, "euclidean"), slow, rtol=1e-9)


def test_without_softening_it_is_the_paper_s_force():
    # one point against one point at distance 5: 1/25
    assert inverse_power_moment(np.zeros((1, 2)), np.array([[9.0, 16.0]]), 0.0, 2.0)[0] == pytest.approx(
        1 / 25, rel=1e-6
    )
    # E[1/Q] of a chi-square with d degrees of freedom is 1/(d − 2)
    assert inverse_power_moment(np.ones((1, 12)), np.zeros((1, 12)), 0.0, 2.0)[0] == pytest.approx(1 / 10, rel=1e-5)
    assert inverse_power_moment(np.ones((1, 3)), np.zeros((1, 3)), 0.0, 2.0)[0] == pytest.approx(1.0, rel=1e-3)


def test_without_softening_it_is_infinite_where_the_paper_s_force_is():
    assert np.isinf(inverse_power_moment(np.ones((1, 2)), np.zeros((1, 2)), 0.0, 2.0)[0])
    assert np.isinf(inverse_power_moment(np.zeros((1, 2)), np.zeros((1, 2)), 0.0, 2.0)[0])


@pytest.mark.parametrize(
    ("d", "w"), [(3, 2.0), (3, 2.8), (3, 2.93), (3, 2.99), (4, 3.9), (13, 12.9), (5, 0.5), (40, 0.2), (300, 12.0)]
)
def test_without_softening_it_is_the_closed_form_however_near_w_is_to_the_dimension(d, w):
    # Q of d standard axes is chi-square: E[Q^(−w/2)] = 2^(−w/2) Γ((d − w)/2) / Γ(d/2)
    exact = np.exp(-w / 2 * np.log(2) + gammaln((d - w) / 2) - gammaln(d / 2))
    for scale in (1.0, 1e-8, 1e6):
        moment = inverse_power_moment(np.full((1, d), scale), np.zeros((1, d)), 0.0, w)[0]
        assert moment == pytest.approx(exact * scale ** (-w / 2), rel=1e-4)


@FEW
@given(st.integers(3, 60), st.sampled_from([0.3, 1.0, 2.0, 2.5]), st.integers(0, 2**32 - 1))
def test_without_softening_it_equals_adaptive_quadrature(d, w, seed):
    rng = np.random.default_rng(seed)
    variances, squares = rng.random(d) + 0.01, rng.normal(size=d) ** 2 * rng.choice([0.0, 1.0, 20.0])
    fast = inverse_power_moment(variances[None], squares[None], 0.0, w)[0]
    assert fast == pytest.approx(naive.inverse_power_moment(variances, squares, 0.0, w), rel=1e-4)


def test_rounding_in_a_covariance_of_low_rank_is_not_taken_for_an_axis():
    root = np.random.default_rng(0).normal(size=6)
    flat = Gaussian(np.zeros(6), np.outer(root, root))
    extent = Extent(np.zeros(6), np.ones(6))
    assert np.isinf(exact_forces([flat, flat], np.ones((2, 6), dtype=bool), extent, 2.0, 0.0)[0, 1])


def test_far_apart_the_moment_tends_to_the_distance_alone():
    variances, squares = np.full((1, 50), 1e-6), np.full((1, 50), 2.0)
    assert inverse_power_moment(variances, squares, 0.0, 2.0)[0] == pytest.approx(1 / 100, rel=1e-4)


def _some(rng, n_clusters, d, *, full):
    densities, seen = [], rng.random((n_clusters, d)) < 0.7
    seen[:, 0] = True
    for k in range(n_clusters):
        mean = rng.normal(size=d)[seen[k]]
        root = rng.normal(size=(seen[k].sum(), seen[k].sum())) * 0.3
        densities.append(Gaussian(mean, root @ root.T if full else np.square(np.diag(root))))
    return densities, seen


@pytest.mark.parametrize("full", [False, True], ids=["diagonal", "full"])
def test_exact_force_is_the_limit_of_the_sampled_one(full):
    rng = np.random.default_rng(2)
    densities, seen = _some(rng, 5, 6, full=full)
    extent = gaussian_extent(densities, seen, 2.0)
    exact = exact_forces(densities, seen, extent, 2.0, 0.1)
    proxies = [density.sample(rng, 1500) for density in densities]
    sampled = sampled_forces(proxies, seen, extent, 2.0, 0.1, "euclidean")
    off = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(exact[off], sampled[off], rtol=0.06)
    np.testing.assert_array_equal(exact, exact.T)
    assert np.isnan(np.diag(exact)).all()


def test_mixed_and_full_covariances_agree_where_the_full_one_is_diagonal():
    rng = np.random.default_rng(3)
    densities, seen = _some(rng, 4, 5, full=False)
    extent = gaussian_extent(densities, seen, 2.0)
    plain = exact_forces(densities, seen, extent, 2.0, 0.01)
    mixed = [Gaussian(g.mean, np.diag(g.covariance)) if k % 2 else g for k, g in enumerate(densities)]
    np.testing.assert_allclose(exact_forces(mixed, seen, extent, 2.0, 0.01), plain, rtol=1e-8)


def test_a_singular_covariance_is_no_problem():
    one = Gaussian(np.zeros(3), np.zeros((3, 3)))
    two = Gaussian(np.ones(3), np.outer([1.0, 1, 1], [1.0, 1, 1]))
    extent = Extent(np.zeros(3), np.ones(3))
    force = exact_forces([one, two], np.ones((2, 3), dtype=bool), extent, 2.0, 0.01)[0, 1]
    assert np.isfinite(force)
    assert force > 0


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


def test_clusters_without_a_shared_feature_exert_no_force_at_all():
    seen = np.array([[True, False], [False, True]])
    densities = [Gaussian(np.array([0.0]), np.array([1.0])), Gaussian(np.array([1.0]), np.array([1.0]))]
    extent = gaussian_extent(densities, seen, 2.0)
    assert np.isnan(exact_forces(densities, seen, extent, 2.0, 0.01)).all()
    proxies = [np.zeros((3, 1)), np.ones((3, 1))]
    assert np.isnan(sampled_forces(proxies, seen, extent, 2.0, 0.01, "euclidean")).all()


def test_gaussian_extent_reaches_two_deviations():
    densities = [Gaussian(np.array([0.0]), np.array([4.0])), Gaussian(np.array([10.0]), np.array([[1.0]]))]
    extent = gaussian_extent(densities, np.array([[True, False], [True, False]]), 2.0)
    assert extent.low[0] == -4.0
    assert extent.high[0] == 12.0
    assert np.isnan(extent.low[1])


def test_blocks_do_not_change_the_answer(monkeypatch):
    rng = np.random.default_rng(6)
    variances, squares = rng.random((40, 7)), rng.random((40, 7))
    whole = inverse_power_moment(variances, squares, 0.01, 2.0)
    monkeypatch.setattr("intarsia.core.densities.force._BLOCK", 700)
    np.testing.assert_allclose(inverse_power_moment(variances, squares, 0.01, 2.0), whole, rtol=1e-12)


def _low_rank(rng, d, r, hollow):
    diagonal = 10.0 ** rng.uniform(-2, 0) * rng.random(d) ** 2 * (rng.random(d) >= hollow)
    return LowRankGaussian(
        rng.normal(size=d) * rng.choice([0, 1.0]), diagonal, rng.normal(size=(d, r)) * rng.uniform(0, 1)
    )


def _written_out(g):
    if not isinstance(g, LowRankGaussian):
        return g
    return Gaussian(g.mean, np.diag(g.diagonal) + g.factors @ g.factors.T)


@given(
    st.integers(7, 60),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.5, 2.0, 3.0, 6.0]),
    st.sampled_from([0.3, 0.01, 0.001]),
    st.integers(0, 2**32 - 1),
)
def test_factors_give_what_the_covariance_written_out_gives(d, hollow, w, s, seed):
    rng = np.random.default_rng(seed)
    densities = [_low_rank(rng, d, int(rng.integers(0, 3)), hollow) for _ in range(3)]
    densities.append(Gaussian(rng.normal(size=d), rng.random(d)))
    seen = np.ones((4, d), dtype=bool)
    extent = gaussian_extent(densities, seen, 2.0)
    fast = exact_forces(densities, seen, extent, w, s)
    np.testing.assert_allclose(fast, exact_forces([_written_out(g) for g in densities], seen, extent, w, s), rtol=1e-6)
    np.testing.assert_array_equal(fast, fast.T)


@given(st.integers(7, 40), st.sampled_from([0.0, 0.5]), st.integers(0, 2**32 - 1))
def test_factors_give_the_paper_s_force_too(d, hollow, seed):
    rng = np.random.default_rng(seed)
    densities = [_low_rank(rng, d, 1, hollow) for _ in range(2)]
    seen, extent = np.ones((2, d), dtype=bool), Extent(-np.ones(d), np.ones(d))
    written = exact_forces([_written_out(g) for g in densities], seen, extent, 2.0, 0.0)
    np.testing.assert_allclose(exact_forces(densities, seen, extent, 2.0, 0.0), written, rtol=1e-4)


def test_without_variance_off_the_factors_the_paper_s_force_is_infinite_only_on_their_plane():
    factors = np.zeros((1, 9, 2))
    factors[0, 0, 0] = factors[0, 1, 1] = 1.0
    on, off = np.zeros((1, 9)), np.zeros((1, 9))
    on[0, 0], off[0, 5] = 1.0, 1.0
    assert np.isinf(low_rank_moment(np.zeros((1, 9)), factors, on, 0.0, 2.0)[0])
    exact = inverse_power_moment(np.array([[1.0, 1.0, 0.0]]), np.array([[0.0, 0.0, 1.0]]), 0.0, 2.0)[0]
    assert low_rank_moment(np.zeros((1, 9)), factors, off, 0.0, 2.0)[0] == pytest.approx(exact, rel=1e-6)


def test_parallel_factors_are_not_taken_for_singular():
    f = np.ones((1, 12, 1))
    twice = low_rank_moment(np.full((1, 12), 1e-14), np.concatenate([f, f], axis=2), np.ones((1, 12)), 0.0, 2.0)
    once = low_rank_moment(np.full((1, 12), 1e-14), np.sqrt(2) * f, np.ones((1, 12)), 0.0, 2.0)
    np.testing.assert_allclose(twice, once, rtol=1e-3)


def test_all_kinds_of_gaussians_mix(monkeypatch):
    rng = np.random.default_rng(7)
    seen = rng.random((9, 30)) < 0.8
    densities = []
    for k, row in enumerate(seen):
        g = _low_rank(rng, 30, 1 + k % 2, 0.0).on(row)
        densities.append((g, Gaussian(g.mean, g.diagonal), _written_out(g))[k % 3])
    extent = gaussian_extent(densities, seen, 2.0)
    mixed = exact_forces(densities, seen, extent, 2.0, 0.01)
    np.testing.assert_allclose(
        mixed, exact_forces([_written_out(g) for g in densities], seen, extent, 2.0, 0.01), rtol=1e-6
    )
    monkeypatch.setattr("intarsia.core.densities.force._BLOCK", 700)
    np.testing.assert_allclose(exact_forces(densities, seen, extent, 2.0, 0.01), mixed, rtol=1e-10)


def test_only_gaussians_have_exact_forces():
    codes = fit_density(np.zeros((4, 2)), np.ones((4, 2), dtype=bool), "discrete")
    shares = Dirichlet.of(np.ones(2))
    assert [has_exact_force(density) for density in (codes, shares)] == [False, False]
    assert has_exact_force(Gaussian(np.zeros(2), np.ones(2)))
    assert has_exact_force(LowRankGaussian(np.zeros(2), np.ones(2), np.zeros((2, 1))))
    seen = np.ones((2, 2), dtype=bool)
    extent = gaussian_extent([codes, shares], seen, 2.0)
    assert extent.low[0] == pytest.approx(0.5 - 2 * np.sqrt(1 / 12))
    assert extent.high[0] == pytest.approx(0.5 + 2 * np.sqrt(1 / 12))
    with pytest.raises(SettingError, match="2 of 2 densities are of other kinds"):
        exact_forces([codes, shares], seen, extent, 2.0, 0.01)
