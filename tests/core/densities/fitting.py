"""Fits for tests: the density of all rows of a small table."""

from __future__ import annotations

import numpy as np

from intarsia.core.centroids import centroids_of_rows
from intarsia.core.densities.base import Clustered, fit_densities
from intarsia.core.rows import ArrayRows

GAUSSIANS = ("gaussian", "gaussian_full", "gaussian_low_rank", "gaussian_diagonal")


def clustered(rows, observed, labels=None, **given):
    """The clusters of a table in memory (rows × features); without labels, all rows form one cluster."""
    labels = np.zeros(len(rows), dtype=np.intp) if labels is None else labels
    centroids = centroids_of_rows(rows, observed, labels, int(labels.max(initial=-1)) + 1)
    sizes = np.bincount(labels[labels >= 0], minlength=len(centroids))
    usual = {"released": centroids, "names": [str(k) for k in range(rows.shape[1])]}
    return Clustered(ArrayRows(rows, observed, centred=False), labels, sizes, centroids, **(usual | given))


def fit(rows, kind="gaussian", observed=None, **settings):
    """The density of one cluster; NaN is a missing value."""
    observed = ~np.isnan(rows) if observed is None else observed
    return fit_densities(clustered(rows, observed, **settings), kind)[0]


def correlated(rng, n, d):
    return rng.normal(size=(n, d)) + rng.normal(size=(n, 1)) * rng.uniform(0, 2, size=d)
