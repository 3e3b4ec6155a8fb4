from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import extent_of, nearest_centre
from intarsia.core.rows import (
    ArrayRows,
    Nearest,
    Tally,
    means,
    relabelled,
    sizes_of,
    small_type,
    squares_around,
)


def table(seed=0, n=200, d=4, missing=0.0, far=0.0, piece_values=0):
    """A table in pieces of 64 rows, its values and its mask."""
    rng = np.random.default_rng(seed)
    values = far + rng.normal(size=(n, d))
    observed = rng.random(values.shape) >= missing
    observed[:, 0] |= ~observed.any(axis=1)
    values[~observed] = np.nan
    return ArrayRows(values, observed, piece_values=piece_values), values, observed


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("far", [0.0, 1e6])
@pytest.mark.parametrize("piece_values", [0, 1 << 18])
def test_pieces_are_all_rows_less_the_offset(missing, far, piece_values):
    rows, values, observed = table(missing=missing, far=far, piece_values=piece_values)
    assert (rows.offset == 0).all() == (far == 0)
    for _ in range(2):  # rows can be read again
        pieces = [(piece.at, piece.cells.T + rows.offset, piece.observed) for piece in rows]
        assert len(pieces) == (4 if piece_values == 0 else 1)
        for at, cells, mask in pieces:
            np.testing.assert_array_equal(mask, observed[at])
            np.testing.assert_allclose(cells[mask], values[at][mask], rtol=1e-15)
    assert rows.complete == (missing == 0)
    np.testing.assert_allclose(rows.mean, np.nanmean(values, axis=0), rtol=1e-12)


def test_many_centres_make_small_pieces():
    values = np.zeros((5000, 2))
    rows = ArrayRows(values, np.ones(values.shape, dtype=bool), piece_values=1 << 13)
    assert max(piece.cells.shape[1] for piece in rows.pieces(1)) == 1024
    assert max(piece.cells.shape[1] for piece in rows.pieces(100)) == 64


def test_the_mean_of_equal_values_is_that_value_to_the_last_digit():
    values = np.column_stack([np.full(3, 0.1), [0.0, 1.0, 2.0]])
    tally = means(ArrayRows(values, np.ones(values.shape, dtype=bool)), np.array([0, 0, 0]), 1)
    assert tally.centroids().values.tolist() == [[0.1, 1.0]]


def test_a_tally_adds_up_observed_values_only():
    values = np.array([[1.0, 10.0], [3.0, np.nan], [7.0, 5.0], [100.0, 100.0]])
    rows = ArrayRows(values, ~np.isnan(values))
    tally = means(rows, np.array([0, 0, 1, -1]), 3)
    assert tally.sizes.tolist() == [2, 1, 0]
    assert tally.counts.tolist() == [[2, 1], [1, 1], [0, 0]]
    assert tally.centroids().values.tolist() == [[2.0, 10.0], [7.0, 5.0], [0.0, 0.0]]


def test_moving_a_row_equals_adding_it_elsewhere():
    rows, _, _ = table(missing=0.3, piece_values=1 << 18)
    [piece] = rows
    labels = np.arange(200) % 3
    moved, expected = means(rows, labels, 3), Tally(3, rows.offset)
    moved.move(piece.cells[:, 7], piece.mask[:, 7], int(labels[7]), 2)
    labels[7] = 2
    expected.add_labels(piece, labels)
    assert moved.sizes.tolist() == expected.sizes.tolist()
    np.testing.assert_allclose(moved.centroids().values, expected.centroids().values)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("known", ["all", "the same", "different"])
@given(seed=st.integers(0, 2**32 - 1), far=st.sampled_from([0.0, 1e3]))
def test_the_nearest_centre_is_that_of_the_formula(metric, missing, known, seed, far):
    rows, values, observed = table(seed, missing=missing, far=far)
    rng = np.random.default_rng(seed)
    counts = np.ones((5, 4))
    if known != "all":
        counts[:, 1] = 0
    if known == "different":
        counts[rng.integers(5), 2] = 0
    centres = MaskedCentroids.of(far + rng.normal(size=(5, 4)), counts)
    extent = extent_of(values, observed)
    filled = np.where(observed, values, 0.0)
    expected = nearest_centre(filled, observed, centres.values, centres.seen, extent, metric)
    near = Nearest(rows, centres, extent, metric)
    assert (np.concatenate([near.labels(piece) for piece in rows]) == expected).all()
    found = [near.of(piece) for piece in rows]
    assert (np.concatenate([each.labels for each in found]) == expected).all()
    members = np.concatenate([near.numbers(near.members(piece)) for piece in rows])
    assert (members == np.maximum(expected, 0)).all()


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("known", [1.0, 0.0])
def test_the_misfit_is_the_squared_distance_rescaled_to_all_features_of_the_row(missing, known):
    rows, values, observed = table(missing=missing)
    counts = np.ones((3, 4))
    counts[0, 1] = known
    centres = MaskedCentroids.of(np.random.default_rng(1).normal(size=(3, 4)), counts)
    extent = extent_of(values, observed)
    width = np.square(extent.width)
    squares = np.where(observed, np.square(values[:, None] - centres.values).transpose(1, 0, 2), 0.0)
    shared = observed & centres.seen[:, None]
    distance = (squares * shared).sum(axis=2) / np.maximum((shared * width).sum(axis=2), 1e-300)
    distance[~shared.any(axis=2)] = np.inf
    expected = np.where(np.isinf(distance.min(axis=0)), 1.0, distance.min(axis=0)) * (observed * width).sum(axis=1)
    near = Nearest(rows, centres, extent)
    np.testing.assert_allclose(np.concatenate([near.of(piece).misfit for piece in rows]), expected, rtol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_squares_around_centres_are_of_observed_values_that_the_centre_knows(missing):
    rows, values, observed = table(missing=missing)
    centres = MaskedCentroids.of(np.ones((3, 4)), np.array([[1.0, 1, 0, 1], [1, 1, 1, 1], [1, 0, 0, 1]]))
    labels = np.arange(200) % 4 - 1
    found = squares_around(rows, centres, lambda piece: labels[piece.at])
    for k in range(3):
        seen = centres.seen[k]
        squares = np.where(observed, np.square(values - 1.0), 0.0)[labels == k].sum(axis=0)
        np.testing.assert_allclose(found.squares[k], np.where(seen, squares, 0.0))
        np.testing.assert_array_equal(found.counts[k], np.where(seen, observed[labels == k].sum(axis=0), 0))
    assert found.sizes.tolist() == [50, 50, 50]
    assert (found.labels == labels).all()


def test_labels_are_renamed_and_counted_in_small_types():
    labels = np.array([0, 2, -1, -2, 1], dtype=np.int16)
    assert relabelled(labels, np.array([5, 6, -1])).tolist() == [5, -1, -1, -2, 6]
    assert relabelled(np.array([-1, -2]), np.zeros(0, dtype=np.intp)).tolist() == [-1, -2]
    assert sizes_of(labels, 4).tolist() == [1, 1, 1, 0]
    assert (small_type(100), small_type(40_000)) == (np.int16, np.int32)
