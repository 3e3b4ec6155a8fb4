r"""k-means on the observed values of a table (the k-POD objective).

.. math:: \min_{c, \ell} \sum_x \sum_{m \text{ observed in } x} (x_m - c_{\ell(x), m})^2

Without missing values it is plain k-means. A centre without any observed value of a feature does not know it; distances to
it use the features that it knows, rescaled as in eq:d.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent, distances_to_centres, nearest
from intarsia.core.rows import ArrayRows, Nearest, Piece, Rows, Tally, means, small_type, squares_around
from intarsia.core.types import BoolArray, FloatArray, IntArray


class Fit(NamedTuple):
    """The labels of all rows in a small type, the centres and sizes of the clusters, and the number of iterations."""

    labels: IntArray
    centres: MaskedCentroids
    sizes: IntArray
    n_iter: int


_MOST_STEPS = 300_000  # iterations × centres × features for each row: about 20 s for 100,000 rows
_FEWEST_ITERATIONS, _MOST_ITERATIONS = 10, 300


def most_iterations(n_centres: int, n_features: int) -> int:
    """Return how many iterations are worth their time with so many centres, so that one question cannot take hours.

    >>> most_iterations(10, 20), most_iterations(1000, 20)
    (300, 15)
    """
    affordable = _MOST_STEPS // max(n_centres * n_features, 1)
    return min(max(affordable, _FEWEST_ITERATIONS), _MOST_ITERATIONS)


def fit_of(rows: Rows, labels: IntArray, n_clusters: int | None = None) -> Fit:
    """Return the centres and sizes of given clusters; negative labels belong to none."""
    tally = means(rows, labels, int(labels.max(initial=-1)) + 1 if n_clusters is None else n_clusters)
    return Fit(labels, tally.centroids(), tally.sizes, 0)


class KMeansFit(NamedTuple):
    """Labels, centres and the value of the objective."""

    labels: IntArray
    centres: MaskedCentroids
    loss: float


def observed_kmeans(
    values: FloatArray,
    observed: BoolArray,
    n_clusters: int,
    rng: np.random.Generator,
    n_init: int = 10,
    max_iter: int = 300,
) -> KMeansFit:
    """Return the best of ``n_init`` runs of :func:`lloyd` from k-means++ starts."""
    rows = ArrayRows(values, observed)
    fits = (lloyd(rows, plus_plus(values, observed, n_clusters, rows, rng), max_iter) for _ in range(n_init))
    results = (KMeansFit(fit.labels.astype(np.intp), fit.centres, loss(rows, fit)) for fit in fits)
    return min(results, key=lambda result: result.loss)


def loss(rows: Rows, fit: Fit) -> float:
    """Return the sum of squares of all observed values around the centres of their clusters."""
    return float(squares_around(rows, fit.centres, lambda piece: fit.labels[piece.at]).squares.sum())


def plus_plus(
    values: FloatArray, observed: BoolArray, n_clusters: int, rows: Rows, rng: np.random.Generator
) -> MaskedCentroids:
    """Draw rows one after the other, with chances proportional to the squared distance to the nearest drawn so far.

    Distances are over the features that both rows have, rescaled. A feature that a drawn row lacks is filled with the mean
    of all rows, so that every centre knows all features.
    """
    n = len(values)
    chosen = [int(rng.integers(n))]
    closest = np.full(n, np.inf)
    for _ in range(1, n_clusters):
        last = chosen[-1]
        distance = distances_to_centres(values, observed, values[[last]], observed[[last]], rows.extent, "euclidean")
        closest = np.fmin(closest, distance[:, 0])
        weight = np.where(np.isfinite(closest), np.square(closest), 0.0)
        weight[chosen] = 0.0
        if weight.sum() > 0:
            chosen.append(int(rng.choice(n, p=weight / weight.sum())))
        else:
            chosen.append(int(rng.choice(np.setdiff1d(np.arange(n), chosen))))
    start = np.where(observed[chosen], values[chosen], rows.mean)
    known = ~np.isnan(rows.extent.low)
    return MaskedCentroids.of(start, np.broadcast_to(known, start.shape).astype(np.float64))


def lloyd(
    rows: Rows, start: MaskedCentroids, max_iter: int = 300, tol: float = 0.0, extent: Extent | None = None
) -> Fit:
    """Alternate between nearest centre and mean of the observed values; each iteration reads all rows once.

    It ends when no label changes, after ``max_iter`` iterations, or when the squares of all moves of centres sum up to no
    more than ``tol`` (as scikit-learn's k-means). An emptied cluster takes the row that is farthest from its own centre.
    """
    extent = rows.extent if extent is None else extent
    centres, n_iter, tally = start, 0, Tally(len(start), rows.offset)
    labels = np.full(rows.n_rows, -1, dtype=small_type(len(start)))
    while n_iter < max_iter:
        near, tally, new = Nearest(rows, centres, extent), Tally(len(start), rows.offset), np.empty_like(labels)
        for piece in rows.pieces(len(start)):
            members = near.members(piece)
            new[piece.at] = near.numbers(members)
            tally.add(piece, members)
        if (tally.sizes == 0).any():
            _refill(rows, near, new, tally)
        n_iter += 1
        if np.array_equal(new, labels):
            break
        labels, before, centres = new, centres, tally.centroids()
        known_alike = bool((before.seen == centres.seen).all())
        if tol > 0 and known_alike and float(np.square(centres.values - before.values).sum()) <= tol:
            break
    return Fit(labels, centres, tally.sizes, n_iter)


class _FarRow(NamedTuple):
    """A row that is far from its centre."""

    at: int
    distance: float
    cells: FloatArray
    mask: FloatArray | None


def _refill(rows: Rows, near: Nearest, labels: IntArray, tally: Tally) -> None:
    """Move the row that is farthest from its centre into each empty cluster, unless it is the last of its own.

    Reads all rows once more, and changes labels and sums in place.
    """
    empty = np.flatnonzero(tally.sizes == 0)
    farthest: list[_FarRow] = []
    for piece in rows.pieces(len(tally.sizes)):
        distances = near.distances(piece)
        own = distances[np.arange(len(distances)), np.maximum(nearest(distances), 0)]
        # no more than one row of each cluster cannot be spared
        farthest = _farthest(farthest, piece, np.where(np.isnan(own), np.inf, own), len(empty) + len(tally.sizes))
    for k in empty:
        for row in farthest:
            old = int(labels[row.at])
            if tally.sizes[old] > 1:
                tally.move(row.cells, row.mask, old, int(k))
                labels[row.at] = k
                break


def _farthest(rows: list[_FarRow], piece: Piece, distance: FloatArray, most: int) -> list[_FarRow]:
    """Return the farthest of these rows and those of a piece, the farthest first, the first of equals first."""
    order = np.argsort(-distance, kind="stable")[:most]
    if len(rows) == most:
        order = order[distance[order] > rows[-1].distance]
    more = [
        _FarRow(
            piece.at.start + int(k),
            float(distance[k]),
            piece.cells[:, k].copy(),
            None if piece.mask is None else piece.mask[:, k].copy(),
        )
        for k in order
    ]
    return sorted([*rows, *more], key=lambda row: (-row.distance, row.at))[:most]
