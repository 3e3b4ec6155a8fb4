"""Silhouettes of a sample of a participant's rows, with or without missing values."""

from __future__ import annotations

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances, nan_euclidean_distances

from intarsia.core.grouping.n_clusters import silhouettes_of_complete_rows, silhouettes_of_rows
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.participant.samples import Sample

SILHOUETTE_ROWS = 1000  # a silhouette costs the square of the rows; a sample of this size is close enough to choose K


def drawn(n: int, rng: np.random.Generator, most: int = SILHOUETTE_ROWS) -> IntArray:
    """Return the positions of at most so many of n rows, in order."""
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def distances_between(rows: FloatArray, observed: BoolArray) -> FloatArray:
    """Return all distances between rows; with missing values over the features that both have, rescaled."""
    if observed.all():
        return np.asarray(euclidean_distances(rows))
    distances = nan_euclidean_distances(np.where(observed, rows, np.nan))
    comparable = ~np.isnan(distances)
    distances = np.where(comparable, distances, distances[comparable].mean() if comparable.any() else 0.0)
    np.fill_diagonal(distances, 0.0)
    return np.asarray(distances)


def _have_silhouettes(labels: IntArray) -> bool:
    """Whether there are at least two clusters, and not all of single rows."""
    return 2 <= len(np.unique(labels)) < len(labels)


def of_rows(distances: FloatArray, labels: IntArray) -> FloatArray:
    """Return the silhouette of each row; −1 without at least two clusters."""
    return silhouettes_of_rows(distances, labels) if _have_silhouettes(labels) else np.full(len(labels), -1.0)


def of_clusters(silhouettes: FloatArray, labels: IntArray) -> FloatArray:
    """Return the mean silhouette of each cluster, so that a cluster of one outlier is not taken for structure."""
    return np.array([silhouettes[labels == name].mean() for name in np.unique(labels)])


def of_sample(rows: Sample, labels: IntArray, rng: np.random.Generator, most: int = SILHOUETTE_ROWS) -> FloatArray:
    """Return the mean silhouette of each cluster; of a sample if there are many rows."""
    sample = drawn(rows.n_rows, rng, most)
    values, observed, labels = rows.values_of(sample), rows.observed[sample], labels[sample]
    if observed.all() and _have_silhouettes(labels):
        return of_clusters(silhouettes_of_complete_rows(values, labels), labels)
    return of_clusters(of_rows(distances_between(values, observed), labels), labels)
