from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.private.questions import (
    GRAINS,
    GridCounts,
    Moments,
    NormCounts,
    Projection,
    RoundSums,
    TotalSums,
    nearest_centres,
)
from intarsia.core.rows import ArrayRows
from tests.core.private.questions import KINDS, question, rows_of


def wild_rows(rng, n, d):
    """Rows of all kinds: usual, at the bounds, far beyond them, with missing values, alone in one direction."""
    values = rng.normal(size=(n, d)) * rng.choice([0.1, 1.0, 1e3], size=(n, 1))
    values = np.where(rng.random((n, 1)) < 0.2, np.sign(values) * 2.0, values)
    values[rng.random((n, d)) < 0.1] = np.nan
    values[rng.random((n, d)) < 0.02] = np.inf
    return values


@pytest.mark.parametrize("n_tables", [20, pytest.param(100, marks=pytest.mark.attack)])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_row_adds_is_never_longer_than_the_norm_and_sometimes_as_long(kind, n_tables):
    rng, longest = np.random.default_rng(1), 0.0
    for k in range(n_tables):
        d = int(rng.integers(1, 9))
        asked, values = question(kind, d, seed=k), wild_rows(rng, 100, d)
        for row in values:
            added = asked.sums(rows_of(row))
            assert len(added) == asked.size
            square = sum(int(each) ** 2 for each in added)  # whole numbers: exact in Python
            assert square <= Fraction(asked.norm) ** 2
            longest = max(longest, float(np.sqrt(float(square))) / asked.norm)
    assert longest >= 0.99


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 40), n=st.integers(0, 200), cut=st.floats(0, 1))
def test_sums_are_additive_to_the_bit_in_any_pieces_and_any_order(kind, seed, d, n, cut):
    rng = np.random.default_rng(seed)
    asked, values = question(kind, d, seed), wild_rows(rng, n, d).reshape(n, d)
    at = int(cut * n)
    whole = asked.sums(rows_of(values))
    parts = asked.sums(rows_of(values[:at].reshape(-1, d))) + asked.sums(rows_of(values[at:].reshape(-1, d)))
    assert whole.dtype.kind == "i"
    np.testing.assert_array_equal(whole, parts)
    np.testing.assert_array_equal(whole, asked.sums(rows_of(values, piece_values=1)))
    np.testing.assert_array_equal(whole, asked.sums(rows_of(values[rng.permutation(n)].reshape(-1, d))))


@pytest.mark.parametrize("kind", KINDS)
def test_values_beyond_the_bounds_count_as_the_bounds_and_infinite_ones_as_missing(kind):
    asked, values = question(kind, 3), np.array([[2.0, -2.0, np.nan], [np.nan, 0.5, 2.0]])
    beyond = np.array([[1e300, -7.0, np.inf], [-np.inf, 0.5, 2.5]])
    np.testing.assert_array_equal(
        asked.sums(rows_of(values)), asked.sums(ArrayRows(beyond, beyond < np.inf, centred=False))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_add_0(kind):
    assert not question(kind, 3).sums(rows_of(np.zeros((0, 3)))).any()


def test_distances_by_hand():
    norms = NormCounts(np.array([0.5]))
    assert norms.radii[-1] == 4
    counts = norms.sums(rows_of([[-2.0], [2.4], [0.49], [np.nan]]))
    assert counts.tolist() == [2] + [0] * 11 + [1, 0, 0, 1, 0, 0]  # 0.01, 0, 1.5, 2.5


def test_totals_by_hand():
    totals = TotalSums(2)
    sizes, sums = totals.read(totals.sums(rows_of([[2.0, np.nan], [0.5, -1.0], [0.0, -9.0]])).astype(float))
    assert sizes.tolist() == [3]
    np.testing.assert_allclose(sums, [[2.5, -3.0]], atol=1e-3)


def test_moments_by_hand():
    moments = Moments(np.array([0.5, 0.0]), 2.0)
    rows, products = rows_of([[1.5, 1.0], [0.5, np.nan], [np.nan, -0.5]]), [[1.0, 1.0], [1.0, 1.25]]
    matrix = moments.read(moments.sums(rows).astype(float))
    np.testing.assert_allclose(matrix, [[*products[0], 1.0], [*products[1], 0.5], [1.0, 0.5, 3.0]], atol=1e-3)
    alone = Moments(np.array([0.5, 0.0]), 2.0, products_only=True)
    np.testing.assert_allclose(alone.read(alone.sums(rows).astype(float)), products, atol=1e-3)
    assert alone.norm < moments.norm


def test_grid_by_hand():
    grid = GridCounts(Projection(np.zeros(2), 4.0, np.eye(2)), np.array([1.0, 1.0]), 2)
    assert grid.points().tolist() == [[-0.5, -0.5], [-0.5, 0.5], [0.5, -0.5], [0.5, 0.5]]
    assert grid.sums(rows_of([[-2.0, -0.1], [0.9, -0.9], [0.9, 1.9], [0.1, 0.1]])).tolist() == [1, 0, 1, 2]


def test_a_round_by_hand_scales_decide_who_is_near_and_unknown_entries_get_0():
    centres, known = np.array([[0.0, 0.0], [1.0, 2.0]]), np.ones((2, 2), dtype=bool)
    rows = rows_of([[0.9, 0.5], [0.9, np.nan], [-1.0, 0.0]])
    wide = RoundSums(centres, known, np.array([1.0, 1.0]), 3.0)
    assert nearest_centres(rows, wide).tolist() == [0, 1, 0]
    assert nearest_centres(rows, RoundSums(centres, known, np.array([0.1, 1.0]), 3.0)).tolist() == [1, 1, 0]
    sizes, sums = wide.read(wide.sums(rows).astype(float))
    assert sizes.tolist() == [2, 1]
    np.testing.assert_allclose(sums, [[-0.1, 0.5], [-0.1, 0.0]], atol=1e-3)
    hidden = RoundSums(centres, np.array([[True, False], [True, True]]), np.ones(2), 3.0)
    assert nearest_centres(rows, hidden).tolist() == [1, 1, 0]  # by the first feature only
    assert hidden.read(hidden.sums(rows).astype(float))[1][0, 1] == 0


def test_a_long_row_is_clipped_to_the_radius():
    asked = RoundSums(np.zeros((1, 2)), np.ones((1, 2), dtype=bool), np.ones(2), 1.0)
    _, sums = asked.read(asked.sums(rows_of([[2.0, 2.0]])).astype(float))
    np.testing.assert_allclose(sums, [[np.sqrt(0.5)] * 2], atol=2 / GRAINS)


def test_rows_with_an_offset_are_refused():
    values = np.array([[2.0], [2.0]])
    with pytest.raises(ValueError, match="centred=False"):
        NormCounts(np.zeros(1)).sums(ArrayRows(values, values > 0))
