"""Fits for tests: the density of all rows of a small table."""

from __future__ import annotations

import numpy as np

from intarsia.core.densities.base import Clustered, fit_densities

GAUSSIANS = ("gaussian", "gaussian_full", "gaussian_low_rank", "gaussian_diagonal")


def fit(rows, kind="gaussian", observed=None, **settings):
    """The density of one cluster; NaN is a missing value."""
    observed = ~np.isnan(rows) if observed is None else observed
    return fit_densities(Clustered.of_arrays(rows, observed, **settings), kind)[0]


def correlated(rng, n, d):
    return rng.normal(size=(n, d)) + rng.normal(size=(n, 1)) * rng.uniform(0, 2, size=d)
