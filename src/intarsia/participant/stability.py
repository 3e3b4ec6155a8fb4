"""How surely a participant's part of each cluster comes back in resamples of its own rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from intarsia.core.atoms import Labelling
from intarsia.core.distances import Metric
from intarsia.core.kmeans import most_iterations, observed_kmeans
from intarsia.core.randomness import stream
from intarsia.core.rows import Nearest, Rows, labels_of
from intarsia.core.stability import Part, stability
from intarsia.core.types import FloatArray, IntArray
from intarsia.participant.refine import CentroidSet
from intarsia.participant.samples import Sample

MOST_ROWS = 2_000  # of more, a sample is measured
MOST_VALUES = 400_000  # in that sample, but not fewer than FEWEST_ROWS rows
FEWEST_ROWS = 200
_STARTS = 3  # of each k-means
_DIGITS = 2

Tell = Callable[[IntArray, Labelling], IntArray]
"""Returns the labels that may be told."""


def told_nearest(rows: Rows, centroids: CentroidSet, metric: Metric, tell: Tell | None) -> IntArray:
    """Return the nearest centroid of each row, as it may be told."""
    near, n = Nearest(rows, *centroids, metric), len(centroids.centres)
    labels = labels_of(rows, near.labels, n)
    if tell is None:
        return labels
    return tell(labels, Labelling(lambda atoms: atoms.labelled(near.labels, n), convex=near.is_convex))


def local_stability(sample: Sample, labels: IntArray, sizes: IntArray, fewest: int, seed: int, name: str) -> FloatArray:
    """Return the stability of each cluster among the rows of the sample; NaN where fewer than ``fewest`` rows are told.

    ``labels`` are those of the sample's rows and ``sizes`` those of all rows, both as they may be told: scores of exact
    labels would say on which side of a border a known row is. Rows are clustered anew by k-means, with the number of
    clusters that have enough rows; if that is one, nothing is known. A cluster with too few rows in the sample has 0.
    """
    shown, in_sample = sizes >= fewest, np.bincount(labels[labels >= 0], minlength=len(sizes))
    if shown.sum() < 2:
        return np.full(len(shown), np.nan)
    scores, kept = np.zeros(len(shown)), np.flatnonzero(in_sample >= max(fewest, 2))
    if len(kept) > 1:
        scores[kept] = _scores(sample, labels, kept, seed, name).round(_DIGITS)
    return np.where(shown, scores, np.nan)


def _scores(sample: Sample, labels: IntArray, kept: IntArray, seed: int, name: str) -> FloatArray:
    """Return the stability of these clusters in their rows; of many rows, a sample is measured."""
    chosen = np.flatnonzero(np.isin(labels, kept) & sample.observed.any(axis=1))
    most = min(MOST_ROWS, max(MOST_VALUES // max(sample.cells.shape[1], 1), FEWEST_ROWS))
    if len(chosen) > most:
        chosen = np.sort(stream(seed, name, "stability", "rows").choice(chosen, most, replace=False))
    observed = sample.observed[chosen]
    values = np.where(observed, sample.values_of(chosen), 0.0)
    part = Part(values, observed, np.arange(values.shape[1]), np.searchsorted(kept, labels[chosen]))

    def recluster(parts: Sequence[Part], number: int) -> list[IntArray]:
        (rows,) = parts
        rng = stream(number, name, "stability", "k-means")
        n = min(len(kept), len(rows.labels))
        iterations = most_iterations(n, values.shape[1])
        return [observed_kmeans(rows.values, rows.observed, n, rng, n_init=_STARTS, max_iter=iterations).labels]

    return np.nan_to_num(stability([part], len(kept), recluster, seed).scores)
