from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.alignment import blend, local_start, match, movement, without_own
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent, extent_of


def of(values, counts=None):
    values = np.array(values, dtype=float)
    return MaskedCentroids.of(values, np.ones(values.shape) if counts is None else np.array(counts, dtype=float))


def test_hidden_features_start_from_the_rows_that_chose_the_centroid():
    centres = of([[5.0, 0.0, 0.0]], [[1, 0, 0]])
    own = of([[7.0, 8.0, 0.0]], [[3, 3, 0]])
    assert local_start(centres, own, np.array([[1.0, 1.0, 2.0]])).tolist() == [[5.0, 8.0, 2.0]]


def test_match_is_one_to_one_with_the_smallest_total():
    extent = Extent(np.array([0.0]), np.array([10.0]))
    assert match(of([[9.0], [0.0]]), of([[0.0], [10.0], [5.0]]), extent).tolist() == [1, 0, -1]


def test_incomparable_is_never_a_match():
    extent = Extent(np.zeros(2), np.ones(2))
    assert match(of([[0.5, 0.0]], [[1, 0]]), of([[0.0, 0.5]], [[0, 1]]), extent).tolist() == [-1]


def test_blend_worked_by_hand():
    new = blend(of([[1.0, 5.0, 0.0]], [[4, 4, 0]]), of([[2.0, 0.0, 7.0]], [[6, 0, 6]]), 0.5)
    assert new.values.tolist() == [[1.5, 5.0, 7.0]]
    assert new.counts.tolist() == [[6.0, 4.0, 6.0]]


@given(st.floats(0.01, 1.0), st.integers(0, 2**32 - 1))
def test_blending_with_itself_changes_nothing(alpha, seed):
    rng = np.random.default_rng(seed)
    c = MaskedCentroids.of(rng.normal(size=(3, 4)), rng.integers(0, 3, size=(3, 4)))
    np.testing.assert_allclose(blend(c, c, alpha).values, c.values)
    np.testing.assert_array_equal(blend(c, c, alpha).counts, c.counts)


def test_movement_is_a_share_of_the_extent_and_a_gained_feature_is_a_move():
    extent = extent_of(np.array([[0.0, 0.0], [3.0, 4.0]]), np.ones((2, 2), dtype=bool))
    assert movement(of([[0.0, 0.0]]), of([[0.0, 1.0]]), extent) == pytest.approx(0.2)
    assert movement(of([[0.0, 0.0]], [[1, 0]]), of([[0.0, 1.0]]), extent) == 1.0


def test_without_own_is_the_mean_of_the_others_filled_up_with_own_rows():
    own = of([[1.0, 1.0, 1.0, 0.0, 5.0]], [[2, 6, 3, 0, 4]])
    others = of([[4.0, 4.0, 0.0, 7.0, 5.0]], [[2, 3, 0, 8, 400]])
    counts = own.counts + others.counts
    merged = of((own.values * own.counts + others.values * others.counts) / counts, counts)
    sent = of([[9.0] * 5])
    found = without_own(merged, own, sent).values[0]
    # as many others: theirs; half as many: three own rows beside three of theirs; nobody else, or not mine: what was sent
    np.testing.assert_allclose(found, [4.0, 2.5, 9.0, 9.0, 5.0])


@given(st.integers(0, 50), st.integers(0, 50), st.floats(-10, 10), st.floats(-10, 10))
def test_without_own_lies_between_the_others_and_all(n, m, mine, theirs):
    own = of([[mine]], [[n]])
    merged = of([[(n * mine + m * theirs) / max(n + m, 1)]], [[n + m]])
    found = float(without_own(merged, own, merged).values[0, 0])
    low, high = sorted([float(merged.values[0, 0]), theirs]) if m else [float(merged.values[0, 0])] * 2
    assert low - 1e-9 <= found <= high + 1e-9
