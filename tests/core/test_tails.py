"""Counts of rows beyond a few distances, and the quantiles that follow from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent
from intarsia.core.tails import (
    EDGES,
    LEVELS,
    N_BINS,
    bands_of,
    bins_of,
    counts_of,
    fixed_marks,
    gaussian_marks,
    gaussian_quantiles,
    is_none,
    limits_of_rows,
    quantiles_of,
    thresholds,
    uncounted_quantiles,
    widened,
    without_few,
)

ONE = MaskedCentroids.of(np.zeros((1, 3)), np.ones((1, 3)))
WIDE = Extent(-np.ones(3), np.ones(3))


def counted(distances, marks):
    """The counts of one participant whose rows, all of one cluster, are at these distances."""
    nearest, bins = np.zeros(len(distances), dtype=int), bins_of(distances)
    bands = bands_of(nearest, bins, marks)
    return counts_of(np.bincount(bands, minlength=marks.shape[1] + 1)[None], marks)


def test_a_bin_is_the_number_of_edges_below_a_distance():
    assert bins_of(np.array([0.0, 1.0, 1.01, 1e9, np.nan])).tolist() == [0, 80, 81, N_BINS - 1, -1]


def test_rows_are_counted_behind_the_last_mark_that_they_pass():
    marks = np.array([[80, 88]])  # distances 1 and 2
    counts = counted(np.array([0.1, 1.0, 1.5, 1.6, 2.0, 2.1, 700.0]), marks)
    assert {int(at): int(counts[0, at]) for at in np.flatnonzero(counts[0])} == {0: 2, 81: 3, 89: 2}


def test_marks_are_where_a_gaussian_has_so_many_rows_beyond():
    rng = np.random.default_rng(0)
    variances = np.array([[1.0, 4.0, 0.25]])
    rows = rng.normal(size=(200_000, 3)) * np.sqrt(variances)
    far = np.sqrt(np.square(rows).sum(axis=1) / 12.0)  # the extent is 2 wide in each of 3 features
    for level, expected in zip(LEVELS, gaussian_quantiles(ONE, variances, WIDE, LEVELS)[0], strict=True):
        assert (far > expected).mean() == pytest.approx(1 - level, rel=0.6)  # an approximation
    assert (EDGES[gaussian_marks(ONE, variances, WIDE)] >= gaussian_quantiles(ONE, variances, WIDE, LEVELS[:1])).all()


def test_quantiles_of_a_cluster_without_known_features_are_infinite():
    nothing = MaskedCentroids.of(np.zeros((1, 3)), np.zeros((1, 3)))
    assert np.isinf(gaussian_quantiles(nothing, np.ones((1, 3)), WIDE, LEVELS)).all()
    assert np.isinf(uncounted_quantiles(nothing, np.ones((1, 3)), WIDE, np.ones((2, 3), bool))).all()


def test_without_counts_the_participant_with_the_widest_columns_decides():
    variances = np.array([[1.0, 1.0, 9.0]])
    masks = np.array([[True, True, False], [False, True, True]])
    each = [uncounted_quantiles(ONE, variances, WIDE, mask[None]) for mask in masks]
    assert (uncounted_quantiles(ONE, variances, WIDE, masks) == each[1]).all()
    assert (each[1] > each[0]).all()


@given(st.integers(0, 10_000), st.integers(40, 2_000), st.integers(1, 4))
def test_the_share_of_rows_beyond_a_quantile_is_at_most_what_it_says(seed, n_rows, n_participants):
    """Of the rows that were counted; the farthest few may be estimated."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 30))
    parts = [np.sqrt(rng.chisquare(d, n_rows) / d) for _ in range(n_participants)]
    marks = gaussian_marks(MaskedCentroids.of(np.zeros((1, d)), np.ones((1, d))), np.ones((1, d)),
                           Extent(np.zeros(d), np.ones(d)))  # fmt: skip
    counts = [counted(part, marks) for part in parts]
    quantiles = quantiles_of(counts, np.full((1, len(LEVELS)), np.inf))[0]
    assert (np.diff(quantiles) >= 0).all()
    together = np.concatenate(parts)
    for level, far in zip(LEVELS[3:], quantiles[3:], strict=True):
        assert (together > far).sum() <= 1.5 * (1 - level) * len(together) + 3


def test_quantiles_do_not_depend_on_how_many_participants_hold_the_same_rows():
    marks = np.array([[80, 84, 88]])
    part = counted(np.repeat([0.5, 1.2, 1.6, 3.0], [50, 30, 15, 5]), marks)
    otherwise = np.full((1, len(LEVELS)), np.inf)
    one, three = quantiles_of([part], otherwise), quantiles_of([part] * 3, otherwise)
    assert (three <= one).all()  # more rows say more surely where they end
    assert three[0, 0] == pytest.approx(one[0, 0], rel=0.25)


def test_a_tail_that_few_rows_tell_of_is_at_most_a_little_longer_than_that_of_gaussians():
    part = counted(np.repeat([0.5, 1.2], [6, 6]), np.array([[80, 88]]))
    gaussian = np.linspace(1.0, 3.0, len(LEVELS))[None]
    assert (quantiles_of([part], np.full((1, len(LEVELS)), np.inf))[0, -1]) > 5
    assert (quantiles_of([part], gaussian) <= 1.2 * gaussian * (1 + 1 / 12)).all()


def test_a_cluster_without_counts_beyond_a_mark_has_the_quantiles_of_gaussians():
    nothing = np.zeros((2, N_BINS), dtype=int)
    nothing[0, 0] = 100
    otherwise = np.arange(2.0 * len(LEVELS)).reshape(2, -1)
    assert (quantiles_of([nothing], otherwise) == otherwise).all()
    assert (quantiles_of([], otherwise) == otherwise).all()


@given(st.lists(st.lists(st.integers(0, 40), min_size=4, max_size=4), min_size=1, max_size=4), st.integers(1, 9))
def test_no_band_with_few_rows_is_told_and_no_row_is_told_twice(cells, fewest):
    before = np.array(cells)
    after = without_few(before, fewest)
    assert ((after == 0) | (after >= fewest)).all()
    enough = before.sum(axis=1) >= fewest
    assert (after.sum(axis=1) == np.where(enough, before.sum(axis=1), 0)).all()


def test_a_row_is_none_of_these_if_it_is_beyond_the_limit_of_every_centroid():
    distances = np.array([[1.0, 5.0], [3.0, 5.0], [3.0, np.nan], [np.nan, np.nan]])
    assert is_none(distances, np.array([2.0, 6.0])).tolist() == [False, False, True, True]


def test_thresholds_between_levels_rise():
    quantiles = np.array([np.arange(8.0), [1.0] * 6 + [np.inf] * 2])
    found = [thresholds(quantiles, share) for share in (0.5, 0.6, 0.95, 0.97, 0.99, 0.999)]
    assert (np.diff(np.array(found)[:, 0]) > 0).all()
    assert found[0].tolist() == [0.0, 1.0]
    assert found[-1].tolist() == [7.0, np.inf]


def test_fixed_marks_are_the_same_for_all_clusters():
    marks = fixed_marks(3)
    assert len(marks) == 3
    assert (marks == marks[0]).all()
    assert marks.max() < len(EDGES)


def test_the_limit_of_a_row_is_the_quantile_of_gaussians_in_its_columns():
    variances = np.array([[1.0, 4.0, 0.25]])
    observed = np.array([[True, True, True], [True, False, True], [False, False, False]])
    limits = limits_of_rows(observed, ONE, variances, WIDE, 0.99)[:, 0]
    for has, limit in zip(observed[:2], limits[:2], strict=True):
        of_columns = MaskedCentroids.of(np.zeros((1, 3)), has[None].astype(float))
        assert limit == pytest.approx(gaussian_quantiles(of_columns, variances, WIDE, np.array([0.99]))[0, 0])
    assert limits[2] == 0


def test_limits_are_never_nearer_and_stay_for_rows_with_all_columns():
    limits, whole = np.array([2.0, 2.0, np.inf]), np.array([[1.5, 4.0, 3.0]])
    assert (widened(limits, whole, whole) == limits).all()
    assert widened(limits, 2 * whole, whole).tolist() == [[3.0, 4.0, np.inf]]
