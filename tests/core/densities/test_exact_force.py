from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.densities.dirichlet import Dirichlet
from intarsia.core.densities.exact_force import exact_forces
from intarsia.core.densities.force import BlockSizes, extent_of_densities, sampled_forces
from intarsia.core.densities.gaussian import Gaussian
from intarsia.core.distances import Extent
from intarsia.exceptions import SettingError
from tests.core.densities.fitting import fit


def _some(rng, n_clusters, d, *, full):
    densities, seen = [], rng.random((n_clusters, d)) < 0.7
    seen[:, 0] = True
    for k in range(n_clusters):
        mean = rng.normal(size=d)[seen[k]]
        root = rng.normal(size=(seen[k].sum(), seen[k].sum())) * 0.3
        densities.append(Gaussian(mean, root @ root.T if full else np.square(np.diag(root))))
    return densities, seen


def _low_rank(rng, d, r, hollow):
    diagonal = 10.0 ** rng.uniform(-2, 0) * rng.random(d) ** 2 * (rng.random(d) >= hollow)
    return Gaussian(rng.normal(size=d) * rng.choice([0, 1.0]), diagonal, rng.normal(size=(d, r)) * rng.uniform(0, 1))


def _written_out(g):
    return g if g.factors is None else Gaussian(g.mean, g.full_covariance)


def test_rounding_in_a_covariance_of_low_rank_is_not_taken_for_an_axis():
    root = np.random.default_rng(0).normal(size=6)
    flat = Gaussian(np.zeros(6), np.outer(root, root))
    extent = Extent(np.zeros(6), np.ones(6))
    assert np.isinf(exact_forces([flat, flat], np.ones((2, 6), dtype=bool), extent, 2.0, 0.0)[0, 1])


@pytest.mark.parametrize("full", [False, True], ids=["diagonal", "full"])
def test_exact_force_is_the_limit_of_the_sampled_one(full):
    rng = np.random.default_rng(2)
    densities, seen = _some(rng, 5, 6, full=full)
    extent = extent_of_densities(densities, seen, 2.0)
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
    extent = extent_of_densities(densities, seen, 2.0)
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
    extent = extent_of_densities(densities, seen, 2.0)
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


def test_all_kinds_of_gaussians_mix():
    rng = np.random.default_rng(7)
    seen = rng.random((9, 30)) < 0.8
    densities = []
    for k, row in enumerate(seen):
        g = _low_rank(rng, 30, 1 + k % 2, 0.0).marginal(row)
        densities.append((g, Gaussian(g.mean, g.covariance), _written_out(g))[k % 3])
    extent = extent_of_densities(densities, seen, 2.0)
    mixed = exact_forces(densities, seen, extent, 2.0, 0.01)
    np.testing.assert_allclose(
        mixed, exact_forces([_written_out(g) for g in densities], seen, extent, 2.0, 0.01), rtol=1e-6
    )
    small = exact_forces(densities, seen, extent, 2.0, 0.01, BlockSizes(memory=700, cache=100))
    np.testing.assert_allclose(small, mixed, rtol=1e-10)


def test_only_gaussians_have_exact_forces():
    codes, shares = fit(np.zeros((4, 2)), "discrete"), Dirichlet(np.ones(2))
    seen = np.ones((2, 2), dtype=bool)
    extent = extent_of_densities([codes, shares], seen, 2.0)
    with pytest.raises(SettingError, match="2 of 2 densities are of other families"):
        exact_forces([codes, shares], seen, extent, 2.0, 0.01)
