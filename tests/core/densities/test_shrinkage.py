from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.densities.shrinkage import correlation_shrinkage, low_rank_covariance
from tests.core.densities.fitting import correlated

SEEDS = st.integers(0, 2**32 - 1)


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
