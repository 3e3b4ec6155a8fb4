"""Numbers as whole numbers: sums are exact, whatever the order and whatever masks are added and removed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.fixed_point import GRAIN, digits, from_grains, grains, number_of

NUMBERS = st.floats(-1e60, 1e60)


@given(st.lists(NUMBERS, min_size=1, max_size=8), st.booleans(), st.integers(0, 2**63 - 1))
def test_digits_add_up_exactly_also_under_masks(numbers, squared, seed):
    rows = digits([Fraction(each) for each in numbers], squared=squared)
    masks = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, size=rows.shape, dtype=np.int64)
    with np.errstate(over="ignore"):
        total = (rows + masks).sum(axis=0) - masks.sum(axis=0)  # modulo 2^64
    kept = [Fraction(int(Fraction(each) * 2**240), 2**240) if not squared else Fraction(each) for each in numbers]
    assert abs(number_of(total) - sum(kept)) <= len(numbers) * Fraction(1, 2 ** (480 if squared else 240))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), st.floats(1e-9, 1e9))
def test_grains_are_within_half_a_grain_of_the_unit(values, unit):
    units = np.full(len(values), unit)
    values = np.array(values) * unit
    counted = grains(values, units, 10)
    assert counted.dtype == np.int64
    np.testing.assert_allclose(from_grains(counted, units), values, atol=0.51 * GRAIN * unit, rtol=1e-12)


def test_numbers_that_could_overflow_a_total_are_refused():
    with pytest.raises(OverflowError):
        grains(np.array([2.0**40]), np.ones(1), 1)
    with pytest.raises(OverflowError):
        grains(np.array([2.0**37]), np.ones(1), 4)  # four such could be too much
    with pytest.raises(OverflowError):
        grains(np.array([np.nan]), np.ones(1), 1)
    with pytest.raises(OverflowError):
        digits([Fraction(2) ** 300])


def test_a_case_worked_by_hand():
    assert number_of(digits([Fraction(3, 2)])[0]) == Fraction(3, 2)
    assert digits([Fraction(-1)])[0].tolist() == [0, 0, 0, 0, 0, -1, 0, 0, 0, 0]  # 2^240 is the sixth digit of 48 bits
