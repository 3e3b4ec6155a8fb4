from __future__ import annotations

import numpy as np
import pytest

from intarsia.core.grouping.tried_numbers import TriedNumbers, clearest_number, pooled, supported_numbers, tried_numbers

FLAT = np.array([[0.20, 0.19, 0.19, 0.2], [0.20, 0.21, 0.21, 0.2]])  # mean 0.2, noise 0.01
YES = np.ones(4, dtype=bool)


def numbers(mean, least, references=FLAT, large=None):
    mean = np.array(mean)
    large = np.ones(len(mean), dtype=bool) if large is None else np.array(large)
    return tried_numbers(mean, np.array(least), references, np.full(len(mean), 0.8), large)


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
    short = TriedNumbers(*np.array([[0.4], [0.2], [0.03], [0.9], [1.0], [1.0]]))
    long = TriedNumbers(*np.array([[0.1, 0.3], [0.2, 0.1], [0.04, 0.02], [0.3, 0.5], [1.0, 0.0], [0.0, 0.0]]))
    mean = pooled([short, long], [100, 300])
    np.testing.assert_allclose(mean.silhouette, [0.175, 0.3])  # only the second tried 3
    np.testing.assert_allclose(mean.deviation, [np.hypot(0.03 / 4, 0.04 * 3 / 4), 0.02])
    np.testing.assert_allclose(mean.clear, [0.25, 0.0])
    assert mean.noise == pytest.approx(np.sqrt((np.square(mean.deviation)).mean()))
