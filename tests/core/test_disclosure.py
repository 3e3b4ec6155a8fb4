from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.disclosure import crossing, differ_by_few, hidden_entries, hidden_sizes, merged_small, never_alone
from intarsia.core.distances import Extent
from intarsia.core.rows import ArrayRows

SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=8).map(np.array)


def test_a_small_cluster_and_the_next_smallest_are_hidden():
    assert hidden_sizes(np.array([40, 3, 9]), 5).tolist() == [False, True, True]  # 52 − 40 − 9 would be 3
    assert hidden_sizes(np.array([40, 3, 9, 4]), 5).tolist() == [False, True, False, True]  # 7 rows are enough
    assert hidden_sizes(np.array([40, 9]), 1).tolist() == [False, False]


@given(SIZES, st.integers(1, 12), st.integers(0, 20))
def test_hidden_rows_cannot_be_computed_from_the_total(sizes, fewest, outside):
    hidden = hidden_sizes(sizes, fewest, outside)
    released = ~hidden & (sizes > 0)
    assert (sizes[released] >= fewest).all()
    rest = sizes.sum() + outside - sizes[released].sum()
    assert rest == 0 or rest >= fewest or not released.any()


def test_entries_are_hidden_column_by_column():
    counts = np.array([[40.0, 40.0], [9.0, 9.0], [3.0, 0.0]])
    assert hidden_entries(counts, np.array([52, 49]), 5).tolist() == [[False, False], [True, False], [True, False]]


def test_a_single_hidden_entry_takes_the_next_smallest_with_it():
    counts = np.array([[7.0, 5.0], [6.0, 0.0], [9.0, 8.0]])
    hidden = np.array([[True, False], [False, False], [False, False]])
    assert never_alone(counts, hidden).tolist() == [[True, False], [True, False], [False, False]]


@pytest.mark.parametrize("missing", [0.0, 0.4])
@given(seed=st.integers(0, 2**32 - 1))
def test_a_crossing_counts_rows_and_values_of_shared_clusters(missing, seed):
    rng = np.random.default_rng(seed)
    observed = rng.random((150, 3)) >= missing
    rows = ArrayRows(np.where(observed, 1.0, np.nan), observed, piece_values=0)
    labels, old = rng.integers(-1, 3, size=150), rng.integers(-1, 4, size=150)
    both = crossing(rows, labels, old, 3, 4)
    for (k, j), n, values in zip(both.pairs, both.rows, both.values, strict=True):
        shared = (labels == k) & (old == j)
        assert n == shared.sum() > 0
        assert values.tolist() == observed[shared].sum(axis=0).tolist()
    assert both.rows.sum() == ((labels >= 0) & (old >= 0)).sum()
    assert both.sizes.tolist() == [(labels == k).sum() for k in range(3)]
    assert both.old_counts.tolist() == [observed[old == j].sum(axis=0).tolist() for j in range(4)]


def test_clusters_that_differ_by_few_rows_are_named():
    old, labels = np.repeat([0, 1], [20, 10]), np.repeat([0, 1], [18, 12])  # two rows changed their cluster
    rows = ArrayRows(np.ones((30, 1)), np.ones((30, 1), dtype=bool))
    both = crossing(rows, labels, old, 2, 2)
    for fewest, expected in ((3, [0, 1]), (2, [-1, -1])):
        similar, entries = differ_by_few(both, np.array([20, 10]), np.array([[20.0], [10.0]]), fewest)
        assert similar.tolist() == expected
        assert entries[:, 0].tolist() == [fewest == 3] * 2
    similar, _ = differ_by_few(both, np.array([0, 10]), np.array([[0.0], [10.0]]), 3)
    assert similar.tolist() == [-1, 1]  # what was suppressed cannot be subtracted


def test_the_smallest_cluster_joins_the_nearest_until_all_are_large_enough():
    centroids = MaskedCentroids.of(np.array([[0.0], [1.0], [9.0], [10.0]]), np.array([[9.0], [2.0], [3.0], [1.0]]))
    extent = Extent(np.array([0.0]), np.array([10.0]))
    assert merged_small(centroids, np.array([9, 2, 3, 1]), extent, 4).tolist() == [0, 0, 2, 2]
    assert merged_small(centroids, np.array([9, 2, 3, 1]), extent, 16).tolist() == [-1] * 4
