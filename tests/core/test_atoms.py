"""Atoms: what labellings tell together, and what they may divide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.core.atoms import Partition, Told, atom_means, split, told_sums
from intarsia.core.rows import ArrayRows, means, squares_around


def told_one_after_the_other(labellings, fewest, observed=None):
    partition, told = Partition.whole(np.ones(len(labellings[0]), bool) if observed is None else observed), []
    for labels in labellings:
        result = split(partition, np.asarray(labels), fewest)
        partition = result.partition
        told.append(result.labels)
    return partition, told


def solvable_rows(told, fewest):
    """The rank test: rows in groups below the minimum whose sum follows from all told sums."""
    history, group = np.unique(np.stack(told), axis=1, return_inverse=True)
    group = group.reshape(-1)
    sets = [history[t] == k for t in range(len(told)) for k in np.unique(history[t])]
    matrix = np.array([np.ones(history.shape[1]), *sets], dtype=float)
    sizes = np.bincount(group)
    rank = np.linalg.matrix_rank(matrix)
    solved = [g for g in range(len(sizes)) if np.linalg.matrix_rank(np.vstack([matrix, np.eye(len(sizes))[g]])) == rank]
    return sum(int(sizes[g]) for g in solved if sizes[g] < fewest)


LABELLINGS = st.integers(5, 60).flatmap(
    lambda n: st.lists(st.lists(st.integers(-1, 3), min_size=n, max_size=n), min_size=1, max_size=8)
)


@given(LABELLINGS, st.integers(1, 7))
@settings(deadline=None)
def test_no_atom_is_ever_smaller_than_the_minimum(labellings, fewest):
    n = len(labellings[0])
    partition, told = told_one_after_the_other(labellings, min(fewest, n))
    assert np.bincount(partition.atoms).min() >= min(fewest, n)
    for labels in told:  # every told labelling is constant on atoms
        for atom in np.unique(partition.atoms):
            assert len(np.unique(labels[partition.atoms == atom])) == 1
    assert solvable_rows(told, min(fewest, n)) == 0
    again = split(partition, np.asarray(labellings[-1]), min(fewest, n))
    assert (again.partition.atoms == partition.atoms).all()


@given(LABELLINGS)
@settings(deadline=None)
def test_a_minimum_of_one_row_changes_nothing(labellings):
    _, told = told_one_after_the_other(labellings, 1)
    assert all((np.asarray(labels) == each).all() for labels, each in zip(labellings, told, strict=True))


def test_cuts_that_no_two_of_which_differ_by_few_rows_do_not_isolate_a_row_together():
    """Cuts behind rows 10, 20, 30 and then 15, 21, 36: each two differ by five or more, yet row 21 would follow."""
    rows = np.arange(40)
    labellings = [np.digitize(rows, [10, 20, 30]), np.digitize(rows, [15, 21, 36])]
    assert solvable_rows(labellings, 5) > 0
    partition, told = told_one_after_the_other(labellings, 5)
    assert solvable_rows(told, 5) == 0
    assert told[1][20] == told[1][21]


@pytest.mark.parametrize("member", [False, True])
def test_whether_a_row_is_there_is_not_told_by_a_part_that_was_too_small_before(member):
    """A half-space that slowly grows, each time first without and then with the row in question."""
    rest = np.arange(1.0, 41.0)
    values = np.append(rest, 0.0) if member else rest
    partition, told = Partition.whole(np.ones(len(values), bool)), []
    for edge in np.arange(0.5, 12.0):
        for least in (0.25, -0.25):
            labels = ((values > least) & (values < edge)).astype(int)
            result = split(partition, labels, 5)
            partition = result.partition
            told.append(len(np.unique(result.labels)) > 1)
    assert not any(told)


def test_rows_that_were_pinned_do_not_help_another_part():
    labels = np.repeat([0, 1], [20, 4])
    partition, _ = told_one_after_the_other([labels], 5)
    assert np.flatnonzero(partition.pinned).tolist() == [20, 21, 22, 23]
    more = np.repeat([0, 1], [19, 5])
    assert (split(partition, more, 5).labels == 0).all()
    enough = np.repeat([0, 1], [15, 9])  # five others
    assert split(partition, enough, 5).labels.tolist() == [0] * 15 + [1] * 5 + [0] * 4


def test_missing_values_take_no_part():
    observed = np.array([True] * 6 + [False] * 3)
    told, partition, _ = split(Partition.whole(observed), np.array([0, 0, 0, 1, 1, 1, 0, 1, 1]), 3)
    assert told.tolist() == [0, 0, 0, 1, 1, 1, -1, -1, -1]
    assert partition.atoms.tolist() == [0, 0, 0, 1, 1, 1, -1, -1, -1]


def test_atoms_are_told_as_their_means():
    partition = Partition(np.repeat([0, 1], [6, 12]), np.zeros(18, bool))
    labels = np.repeat([0, 1, 0, 1], [4, 2, 6, 6])
    result = split(partition, labels, 5)
    assert result.partition.atoms.tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert result.divided.tolist() == [False] * 6 + [True] * 12
    by_mean = np.array([2, 0, 2])
    assert result.by_means(by_mean, convex=True).tolist() == [2] * 6 + [0] * 6 + [2] * 6
    assert result.by_means(by_mean, convex=False).tolist() == [2] * 6 + [0] * 6 + [1] * 6


def test_means_of_atoms():
    values = np.array([[1.0, 10.0], [3.0, np.nan], [5.0, 22.0], [7.0, 40.0], [9.0, np.nan], [11.0, 1.0]])
    rows = ArrayRows(values, ~np.isnan(values), centred=False)
    of_column = (np.array([1]), np.array([0, -1, 1, 1, -1, 0]))
    piece, counts, _ = atom_means(rows, Told(np.array([0, 0, 0, 1, 1, 2]), (of_column,)), 2)
    assert piece.cells[0].tolist() == [3.0, 8.0, 0.0]  # the third atom has one row only
    assert counts.tolist() == [[3.0, 2.0], [2.0, 0.0], [0.0, 0.0]]
    assert piece.cells[1, 0] == (11 / 2 + 62 / 2) / 2  # values of the first atom, as the means of their column's atoms
    assert piece.observed.tolist() == [[True, True], [True, False], [False, False]]


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_told_sums_of_plain_labels_are_those_of_the_clusters(missing):
    rng = np.random.default_rng(0)
    observed = rng.random((200, 4)) >= missing
    values = np.where(observed, 100 + rng.normal(size=(200, 4)), np.nan)
    rows, labels = ArrayRows(values, observed, piece_values=0), rng.integers(-1, 3, size=200)
    expected, centres = means(rows, labels, 3), means(rows, np.maximum(labels, 0), 3).centroids()
    squares = squares_around(rows, centres, lambda piece: labels[piece.at])
    sums = told_sums(rows, Told(labels), 3, centres.values)
    assert (sums.sizes == expected.sizes).all()
    assert np.allclose(sums.means.values, expected.centroids().values)
    assert (sums.means.counts == expected.counts).all()
    assert np.allclose(sums.squares, squares.squares)


def test_told_sums_by_column():
    values = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, np.nan], [4.0, 40.0]])
    rows = ArrayRows(values, ~np.isnan(values))
    told = Told(np.array([0, 0, 1, 1]), ((np.array([1]), np.array([0, 0, -1, 0])),))
    sums = told_sums(rows, told, 2, np.zeros((2, 2)))
    assert sums.sizes.tolist() == [2, 2]
    assert sums.means.values.tolist() == [[1.5, 70 / 3], [3.5, 0.0]]
    assert sums.means.counts.tolist() == [[2.0, 3.0], [2.0, 0.0]]
    assert sums.squares.tolist() == [[5.0, 2100.0], [25.0, 0.0]]
