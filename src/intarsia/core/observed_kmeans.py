r"""k-means on the observed entries of a table with gaps (the k-POD objective).

.. math:: \min_{c, \ell} \sum_x \sum_{m \text{ observed in } x} (x_m - c_{\ell(x), m})^2

Without gaps it is plain k-means. A centre with no observed entry for some feature does not know it; distances to it
use what it knows, rescaled as in eq:d.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from intarsia.core.centroids import MaskedCentroids, centroids_of_rows, refill, squared_residuals
from intarsia.core.distances import Extent, distances_to_centres, extent_of, nearest
from intarsia.core.pieces import by_rows
from intarsia.core.types import BoolArray, FloatArray, IntArray


class KMeansFit(NamedTuple):
    """Labels, centres and the value of the objective."""

    labels: IntArray
    centres: MaskedCentroids
    loss: float
    n_iter: int


def observed_kmeans(
    rows: FloatArray,
    observed: BoolArray,
    n_clusters: int,
    rng: np.random.Generator,
    n_init: int = 10,
    max_iter: int = 300,
) -> KMeansFit:
    """The best of ``n_init`` runs of :func:`lloyd` from k-means++ starts."""
    extent = extent_of(rows, observed)
    fits = (
        lloyd(rows, observed, plus_plus(rows, observed, n_clusters, extent, rng), max_iter, extent)
        for _ in range(n_init)
    )
    return min(fits, key=lambda fit: fit.loss)


def plus_plus(
    rows: FloatArray, observed: BoolArray, n_clusters: int, extent: Extent, rng: np.random.Generator
) -> MaskedCentroids:
    """Rows drawn one after the other, with chances proportional to the squared distance to the nearest drawn so far.

    Distances are over the features that both rows have, rescaled. The features that a drawn row lacks are filled with
    the mean of all, so that every centre starts out whole.
    """
    chosen = [int(rng.integers(len(rows)))]
    closest = np.full(len(rows), np.inf)
    for _ in range(1, n_clusters):
        last = chosen[-1]
        distance = distances_to_centres(rows, observed, rows[[last]], observed[[last]], extent, "euclidean")[:, 0]
        closest = np.minimum(closest, np.where(np.isnan(distance), np.inf, distance))
        weight = np.where(np.isfinite(closest), np.square(closest), 0.0)
        weight[chosen] = 0.0
        if weight.sum() > 0:
            chosen.append(int(rng.choice(len(rows), p=weight / weight.sum())))
        else:
            chosen.append(int(rng.choice(np.setdiff1d(np.arange(len(rows)), chosen))))
    everyone = centroids_of_rows(rows, observed, np.zeros(len(rows), dtype=np.intp), 1)
    values = np.where(observed[chosen], rows[chosen], everyone.values)
    return MaskedCentroids.of(values, np.broadcast_to(everyone.counts > 0, values.shape).astype(np.float64))


def lloyd(
    rows: FloatArray, observed: BoolArray, start: MaskedCentroids, max_iter: int = 300, extent: Extent | None = None
) -> KMeansFit:
    """Alternate nearest centre and mean of the observed entries, from given centres, until no label changes.

    An emptied cluster takes the row that fits its own centre worst.
    """
    extent = extent_of(rows, observed) if extent is None else extent
    centres, labels = start, np.full(len(rows), -1, dtype=np.intp)
    n_iter = 0
    for n_iter in range(1, max_iter + 1):  # noqa: B007
        proposal = refill(*_nearest(rows, observed, centres, extent), len(centres))
        if (proposal == labels).all():
            break
        labels = proposal
        centres = centroids_of_rows(rows, observed, labels, len(centres))
    return KMeansFit(labels, centres, _loss(rows, observed, labels, centres), n_iter)


def _nearest(
    rows: FloatArray, observed: BoolArray, centres: MaskedCentroids, extent: Extent
) -> tuple[IntArray, FloatArray]:
    """The nearest centre of every row, and how far it is."""
    labels, distance = np.empty(len(rows), dtype=np.intp), np.empty(len(rows))
    for some in by_rows(*rows.shape):
        each = distances_to_centres(rows[some], observed[some], centres.values, centres.seen, extent, "euclidean")
        labels[some] = np.maximum(nearest(each), 0)
        distance[some] = each[np.arange(len(each)), labels[some]]
    return labels, distance


def _loss(rows: FloatArray, observed: BoolArray, labels: IntArray, centres: MaskedCentroids) -> float:
    return float(
        sum(
            squared_residuals(rows[some], observed[some], labels[some], centres.values, centres.seen).sum()
            for some in by_rows(*rows.shape)
        )
    )
