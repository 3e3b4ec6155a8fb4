from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from intarsia.core.grouping.tried_numbers import (
    MOST_COMPACT,
    TriedNumbers,
    clearest_number,
    compactness_of,
    peak_of_compactness,
    pooled,
    supported_numbers,
    tried_numbers,
)

FLAT = np.array([[0.20, 0.19, 0.19, 0.2], [0.20, 0.21, 0.21, 0.2]])  # mean 0.2, noise 0.01
YES = np.ones(4, dtype=bool)


def numbers(mean, least, references=FLAT, large=None):
    mean = np.array(mean)
    large = np.ones(len(mean), dtype=bool) if large is None else np.array(large)
    return tried_numbers(mean, np.array(least), references, np.full(len(mean), 0.8), large, np.zeros(len(mean)))


def test_the_number_of_one_participant():
    assert clearest_number(numbers([0.2, 0.23, 0.2, 0.2], [0.2] * 4)) == 1  # within chance
    curve = [0.4, 0.5, 0.48, 0.3]
    assert clearest_number(numbers(curve, [0.4, 0.4, 0.4, 0.1])) == 4  # 3 is higher, 4 as good, 5 no longer
    assert supported_numbers(numbers(curve, [0.4, 0.4, 0.4, 0.1])) == [3, 4]
    assert clearest_number(numbers(curve, [0.4, 0.4, 0.22, 0.1])) == 3  # with 4, one is a piece of another
    assert clearest_number(numbers(curve, [0.4, 0.4, 0.1, 0.1])) == 3  # … or as unclear as in a cloud
    assert clearest_number(numbers(curve, [0.4] * 4, large=[True, True, False, False])) == 3  # … or of a few outliers
    # six rows: references scatter so much that not even 1 is four deviations above them
    assert clearest_number(numbers([1.0, 0.7], [1.0, 0.5], np.array([[0.4, 0.3], [0.8, 0.7]]))) == 2


def test_where_no_number_stands_out_it_is_the_most_stable_of_those_that_are_no_chance():
    flat = numbers([0.3, 0.3, 0.3, 0.31], [0.25, 0.28, 0.2, 0.2])
    assert clearest_number(flat._replace(stability=np.array([0.5, 0.9, 0.5, 0.5]))) == 3


def test_many_small_participants_see_together_what_none_sees_alone():
    alone = numbers([0.23, 0.22, 0.21, 0.21], [0.2] * 4)._replace(deviation=np.full(4, 0.01))
    assert clearest_number(alone) == 1
    assert clearest_number(pooled([alone] * 9, [40] * 9)) == 2


def test_a_mean_of_tables_worked_by_hand():
    short = TriedNumbers(*np.array([[0.4], [0.2], [0.03], [0.9], [1.0], [1.0], [0.3]]))
    long = TriedNumbers(
        *np.array([[0.1, 0.3], [0.2, 0.1], [0.04, 0.02], [0.3, 0.5], [1.0, 0.0], [0.0, 0.0], [0.1, 0.7]])
    )
    mean = pooled([short, long], [100, 300])
    np.testing.assert_allclose(mean.silhouette, [0.175, 0.3])  # only the second tried 3
    np.testing.assert_allclose(mean.deviation, [np.hypot(0.03 / 4, 0.04 * 3 / 4), 0.02])
    np.testing.assert_allclose(mean.clear, [0.25, 0.0])
    np.testing.assert_allclose(mean.compactness, [0.15, 0.6])  # the first counts with 0.3 for both
    assert mean.noise == pytest.approx(np.sqrt((np.square(mean.deviation)).mean()))


def with_compactness(compactness, silhouette=None):
    """Seven numbers of clusters that are all clear, with this compactness."""
    compactness, yes = np.array(compactness), np.ones(7)
    mean = np.full(7, 0.5) if silhouette is None else np.array(silhouette)
    return TriedNumbers(mean, 0.2 * yes, 0.01 * yes, yes, yes, yes, compactness)


def test_the_number_at_the_peak_of_compactness():
    falls = [0.1, 0.2, 0.4, 0.35, 0.3, 0.3, 0.3]
    silhouettes = [0.6, 0.55, 0.4, 0.3, 0.3, 0.3, 0.3]
    assert supported_numbers(with_compactness(falls, silhouettes)) == [2, 3]
    assert clearest_number(with_compactness(falls, silhouettes)) == 4
    assert peak_of_compactness(with_compactness([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])) is None  # it grows on and on
    assert peak_of_compactness(with_compactness([0.1, 0.2, 0.4, 0.4, 0.39, 0.39, 0.39])) is None  # … or hardly falls
    assert (
        peak_of_compactness(with_compactness([-0.2, -0.1, -0.3, -0.3, -0.3, -0.3, -0.3])) is None
    )  # rows less clustered than a cloud
    assert (
        peak_of_compactness(with_compactness(falls, [0.9, 0.9, 0.4, 0.3, 0.3, 0.3, 0.3])) is None
    )  # clear silhouettes of others
    small = with_compactness(falls)._replace(large=np.array([1.0, 1, 0.4, 0.4, 0.4, 0.4, 0.4]))
    assert peak_of_compactness(small) is None  # most participants see tiny clusters
    assert peak_of_compactness(small._replace(large=np.full(7, 0.6))) == 4


def test_compactness_worked_by_hand():
    squares, references = np.array([20.0, 10.0, 5.0]), np.array([[40.0, 20.0, 20.0], [40.0, 20.0, 5.0]])
    np.testing.assert_allclose(compactness_of(squares, references, 100.0, 80), np.log([2, 2, 2]))
    np.testing.assert_allclose(
        compactness_of(squares, 2 * references, 100.0, 79)[2], np.log(4)
    )  # below 20 rows each: as with 3
    np.testing.assert_allclose(
        compactness_of(np.zeros(2), np.ones((2, 2)), 1.0, 80), np.log(1e6)
    )  # rows equal to their means
    np.testing.assert_allclose(compactness_of(np.zeros(2), np.zeros((2, 2)), 0.0, 80), 0)  # rows all equal


@given(
    squares=arrays(float, 4, elements=st.floats(0, 1e9)),
    references=arrays(float, (3, 4), elements=st.floats(0, 1e9)),
    total=st.floats(0, 1e9),
    n_rows=st.integers(1, 1000),
)
def test_compactness_is_within_the_limit_of_the_message(squares, references, total, n_rows):
    assert (np.abs(compactness_of(squares, references, total, n_rows)) <= MOST_COMPACT).all()


@given(arrays(float, (7, 9), elements=st.floats(0, 1)))
def test_no_number_is_chosen_against_clear_silhouettes(table):
    numbers = TriedNumbers(*table)
    chosen = clearest_number(numbers)
    if chosen > 1:
        clarity = 0.7 + 0.3 * numbers.clear
        score = np.where(numbers.large >= 0.5, numbers.excess * numbers.stability * numbers.large * clarity, 0)
        assert score[chosen - 2] > 0
        assert numbers.large[chosen - 2] >= 0.5
        if chosen not in supported_numbers(numbers):
            assert score[chosen - 2] >= 0.3 * score.max()
