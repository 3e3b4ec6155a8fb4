from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.blocks import by_columns, by_rows, cleared
from intarsia.core.centroids import centroids_of_rows
from intarsia.core.densities.base import fit_densities
from intarsia.core.distances import distances_to_centres, extent_of
from intarsia.core.mixture import log_memberships
from intarsia.core.units import QUANTILES, statistics_of
from tests.core.densities.fitting import clustered
from tests.mixtures import mixture_of


@given(n=st.integers(0, 10**7), d=st.integers(0, 3000), values=st.sampled_from([0, 1000, 1 << 18]))
def test_pieces_are_everything_once_and_in_order(n, d, values):
    rows, columns = by_rows(min(n, 10**5), d, values), by_columns(n, d)
    for pieces, size in ((rows, min(n, 10**5)), (columns, d)):
        edges = [0, *(piece.stop for piece in pieces)]
        assert [piece.start for piece in pieces] == edges[:-1]
        assert edges[-1] == size
    assert len(columns) == 1 or min(piece.stop - piece.start for piece in columns) >= 8


def test_missing_values_are_cleared_whatever_they_are():
    values = np.array([[1.0, np.nan, np.inf], [-2.0, 3.0, 0.0]])
    observed = np.array([[True, False, False], [True, True, False]])
    assert cleared(values, observed).tolist() == [[1.0, 0.0, 0.0], [-2.0, 3.0, 0.0]]


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_what_is_computed_in_pieces_is_what_the_formulas_say(missing):
    """The table is large enough for several pieces of rows and of columns."""
    rng = np.random.default_rng(0)
    rows, centres = rng.normal(size=(70_000, 20)), rng.normal(size=(3, 20))
    observed = rng.random(rows.shape) >= missing
    rows[~observed] = np.nan
    assert len(by_rows(*rows.shape)) > 5
    assert len(by_columns(*rows.shape)) > 1
    extent = extent_of(rows, observed)
    np.testing.assert_array_equal(extent.low, np.nanmin(rows, axis=0))
    np.testing.assert_array_equal(extent.high, np.nanmax(rows, axis=0))
    distances = distances_to_centres(rows, observed, centres, np.ones(centres.shape, dtype=bool), extent, "euclidean")
    reach = np.sqrt(observed @ np.square(extent.width))
    for k in range(3):
        expected = np.sqrt(np.nansum(np.square(rows - centres[k]), axis=1)) / reach
        np.testing.assert_allclose(distances[:, k], expected, rtol=1e-9)
    labels = np.arange(len(rows)) % 4 - 1
    centroids = centroids_of_rows(rows, observed, labels, 3)
    for k in range(3):
        np.testing.assert_allclose(centroids.values[k], np.nanmean(rows[labels == k], axis=0), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(centroids.counts[k], observed[labels == k].sum(axis=0))
    statistics = statistics_of(rows, observed, "robust")
    np.testing.assert_allclose(statistics.mean, np.nanmean(rows, axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(statistics.m2, np.nanvar(rows, axis=0) * observed.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(statistics.quantiles, np.nanquantile(rows, QUANTILES, axis=0))
    mixture = mixture_of(centroids, np.ones(centres.shape), centroids.counts, np.ones(3))
    last = slice(len(rows) - 10, None)
    np.testing.assert_allclose(
        log_memberships(mixture, rows, observed)[last], log_memberships(mixture, rows[last], observed[last]), rtol=1e-9
    )


def test_a_density_of_rows_in_several_pieces_has_their_covariance():
    rows = np.random.default_rng(1).normal(size=(70_000, 20)) @ np.diag(np.arange(1.0, 21.0))
    [density] = fit_densities(clustered(rows, np.ones(rows.shape, dtype=bool)), "gaussian_full")
    np.testing.assert_allclose(density.mean, rows.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(
        density.variances, rows.var(axis=0), rtol=1e-3
    )  # drawn towards those within all clusters
