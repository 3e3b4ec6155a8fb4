from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core import blocks
from intarsia.core.blocks import by_columns, by_rows
from intarsia.core.centroids import MaskedCentroids, centroids_of_rows, squares_of_rows, variances_within
from intarsia.core.densities.base import Clustered, fit_densities
from intarsia.core.distances import distances_to_centres, extent_of, misfit
from intarsia.core.kmeans import lloyd
from intarsia.core.mixture import log_memberships, mixture_of
from intarsia.core.units import statistics_of


@given(n=st.integers(0, 10**7), d=st.integers(0, 3000))
def test_pieces_are_everything_once_and_in_order(n, d):
    rows, columns = by_rows(n, d), by_columns(n, d)
    for found, size in ((rows, n), (columns, d)):
        edges = [0, *(piece.stop for piece in found)]
        assert [piece.start for piece in found] == edges[:-1]
        assert edges[-1] == size
    assert len(columns) == 1 or min(piece.stop - piece.start for piece in columns) >= 8


def everything(rows, observed, centres):
    """Whatever goes by blocks."""
    labels = np.arange(len(rows)) % 4 - 1
    extent = extent_of(rows, observed)
    known = np.ones(centres.shape, dtype=bool)
    some = MaskedCentroids.of(centres, np.arange(centres.size).reshape(centres.shape) % 5.0)
    distances = distances_to_centres(rows, observed, centres, known, extent, "euclidean")
    fit = lloyd(rows, observed, MaskedCentroids.of(centres, known), max_iter=3)
    own = centroids_of_rows(rows, observed, labels, 3)
    mixture = mixture_of(own, np.ones(centres.shape), own.counts, np.ones(3))
    [density] = fit_densities(Clustered.of_arrays(rows, observed), "gaussian_full")
    units = [statistics_of(rows, observed, way) for way in ("standard", "minmax", "robust")]
    return [
        *extent,
        distances,
        misfit(distances, observed, extent, "euclidean"),
        fit.labels,
        fit.loss,
        own.values,
        own.counts,
        *squares_of_rows(rows, observed, labels, some),
        variances_within(rows, observed, labels, own),
        log_memberships(mixture, rows, observed),
        density.mean,
        density.covariance,
        *(part for said in units for part in vars(said).values() if part is not None),
    ]


@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_what_is_computed_by_pieces_is_what_is_computed_at_once(monkeypatch, gaps):
    rng = np.random.default_rng(0)
    rows, centres = rng.normal(size=(500, 37)), rng.normal(size=(3, 37))
    observed = rng.random(rows.shape) >= gaps
    rows[~observed] = np.nan
    whole = everything(rows, observed, centres)
    monkeypatch.setattr(blocks, "_ROWS", 0)
    monkeypatch.setattr(blocks, "_COLUMNS", 0)
    assert len(by_rows(*rows.shape)) == 8
    assert len(by_columns(*rows.shape)) == 4
    for one, other in zip(whole, everything(rows, observed, centres), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)
