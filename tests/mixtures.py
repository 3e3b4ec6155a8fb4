"""Clusters as Gaussians, as a model makes them."""

from __future__ import annotations

from intarsia.core.mixture import RIDGE, mixture_from, spread_of


def mixture_of(centroids, variances, cells, sizes, ridge=RIDGE):
    """The clusters as Gaussians, from variances and the numbers of values behind them."""
    return mixture_from(centroids, spread_of(centroids, variances, cells), sizes, ridge)
