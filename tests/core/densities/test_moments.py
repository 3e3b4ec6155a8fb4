from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln

from intarsia.core.densities.force import BlockSizes
from intarsia.core.densities.moments import inverse_power_moment, low_rank_moment
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


def test_far_apart_the_moment_tends_to_the_distance_alone():
    variances, squares = np.full((1, 50), 1e-6), np.full((1, 50), 2.0)
    assert inverse_power_moment(variances, squares, 0.0, 2.0)[0] == pytest.approx(1 / 100, rel=1e-4)


def test_blocks_do_not_change_the_answer():
    rng = np.random.default_rng(6)
    variances, squares = rng.random((40, 7)), rng.random((40, 7))
    for softening in (0.01, 0.0):
        whole = inverse_power_moment(variances, squares, softening, 2.0)
        split = inverse_power_moment(variances, squares, softening, 2.0, BlockSizes(memory=700, cache=20))
        np.testing.assert_allclose(split, whole, rtol=1e-6 if softening else 1e-12)


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
