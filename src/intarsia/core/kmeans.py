r"""k-means on the observed entries of a table with gaps (the k-POD objective).

.. math:: \min_{c, \ell} \sum_x \sum_{m \text{ observed in } x} (x_m - c_{\ell(x), m})^2

Without gaps it is plain k-means. A centre with no observed entry for some feature does not know it; distances to it
use what it knows, rescaled as in eq:d.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from intarsia.core.blocks import by_rows, cleared
from intarsia.core.centroids import (
    MaskedCentroids,
    centroids_of_rows,
    first_cells,
    membership,
    refill,
    squared_residuals,
)
from intarsia.core.distances import Extent, distances_to_centres, extent_of, nearest
from intarsia.core.types import BoolArray, FloatArray, IntArray

_NEAR = 8.0  # widths of a column: a table no farther from 0 loses a digit at most when squares are expanded there
_PASSES = 4  # arrays of the size of a piece that an iteration has at hand


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
    labels, n_iter = lloyd_labels(rows, observed, start, max_iter, extent)
    centres = centroids_of_rows(rows, observed, labels, len(start)) if n_iter else start
    loss = sum(
        float(squared_residuals(rows[some], observed[some], labels[some], centres.values, centres.seen).sum())
        for some in _pieces(rows)
    )
    return KMeansFit(labels, centres, loss, n_iter)


def lloyd_labels(
    rows: FloatArray, observed: BoolArray, start: MaskedCentroids, max_iter: int = 300, extent: Extent | None = None
) -> tuple[IntArray, int]:
    """The labels of :func:`lloyd`, and how many iterations it took, for whoever needs no more."""
    extent = extent_of(rows, observed) if extent is None else extent
    table = _Cells(rows, observed, extent, _origin(rows, observed, extent), _complete(observed, _pieces(rows)))
    centres, labels = start, np.full(len(rows), -1, dtype=np.intp)
    for n_iter in range(1, max_iter + 1):
        before, (proposal, centres) = centres, _iteration(table, centres, means=n_iter < max_iter)
        if not np.bincount(proposal, minlength=len(start)).all():
            proposal = refill(proposal, _misfit(table, proposal, before), len(start))
            centres = centroids_of_rows(rows, observed, proposal, len(start))
        if (proposal == labels).all():
            return labels, n_iter
        labels = proposal
    return labels, max_iter


class _Cells(NamedTuple):
    """A table, and what all iterations need to know of it."""

    rows: FloatArray
    observed: BoolArray
    extent: Extent
    origin: FloatArray | None  # around which squares are expanded and cells summed; None if around 0
    complete: dict[int, bool]  # whether the piece that begins there has no gaps

    def piece(self, some: slice) -> tuple[FloatArray, FloatArray | None]:
        """Cells around the origin, 0 where there are none, and the mask as numbers, None if there are no gaps."""
        if self.complete[some.start]:
            return (self.rows[some] if self.origin is None else self.rows[some] - self.origin), None
        x = self.rows[some].copy() if self.origin is None else self.rows[some] - self.origin
        return cleared(x, self.observed[some]), self.observed[some].astype(np.float64)


def _iteration(table: _Cells, centres: MaskedCentroids, *, means: bool) -> tuple[IntArray, MaskedCentroids]:
    """The nearest centre of every row and the means of those that share one, in one pass; without ``means`` only labels."""
    labels, numbers = np.empty(len(table.rows), dtype=np.intp), np.arange(float(len(centres)))
    sums, counts = np.zeros(centres.values.shape), np.zeros(centres.values.shape)
    rank = _ranking(centres, table.extent, table.origin)
    for some in _pieces(table.rows):
        x, gaps = table.piece(some)
        member = _compared(table, some, centres) if rank is None else rank.nearest(x, gaps)
        labels[some] = numbers @ member
        if means:
            sums += member @ x
            counts += member.sum(axis=1, keepdims=True) if gaps is None else member @ gaps
    values = sums / np.maximum(counts, 1.0)
    return labels, MaskedCentroids.of(values if table.origin is None else values + table.origin, counts)


def _compared(table: _Cells, some: slice, centres: MaskedCentroids) -> FloatArray:
    """1 where a centre is a row's, where what centres know differs and so does the rescaling."""
    each = distances_to_centres(
        table.rows[some], table.observed[some], centres.values, centres.seen, table.extent, "euclidean"
    )
    return membership(np.maximum(nearest(each), 0), len(centres))


class _Ranking(NamedTuple):
    r"""Which of several centres is nearest, where all of them know the same features: the rescaling is the same for all.

    .. math:: \arg\min_k \sum_m o_m (x_m - c_{km})^2 = \arg\max_k \; x \cdot c_k - \tfrac12 \, o \cdot c_k^2

    with o the mask of the row, and x zero where it is. The first of equals.
    """

    towards: FloatArray
    halves: FloatArray

    def nearest(self, x: FloatArray, gaps: FloatArray | None) -> FloatArray:
        """1 where a centre is a row's, centres by rows. ``gaps`` is the mask of the rows, None if they have none."""
        score = (x @ self.towards).T
        halves = self.halves.sum(axis=0)[:, None] if gaps is None else (gaps @ self.halves).T
        score = np.subtract(score, halves, order="C")
        best = score == score.max(axis=0)  # faster than to look for where the largest is
        ties = np.count_nonzero(best) > len(x)
        return membership(score.argmax(axis=0), len(score)) if ties else best.astype(np.float64)


def _ranking(centres: MaskedCentroids, extent: Extent, origin: FloatArray | None) -> _Ranking | None:
    known = centres.seen & extent.varies
    if not len(centres) or (known != known[0]).any():
        return None
    c = np.where(known, centres.values if origin is None else centres.values - origin, 0.0).T
    return _Ranking(np.ascontiguousarray(c), np.square(c) / 2)


def _origin(rows: FloatArray, observed: BoolArray, extent: Extent) -> FloatArray | None:
    """A cell of every column: far from it, digits are lost. None if the table is near 0, so that nothing need be shifted."""
    cell = first_cells(rows, observed)
    return cell if (np.abs(cell) > _NEAR * extent.width)[extent.varies].any() else None


def _pieces(rows: FloatArray) -> list[slice]:
    """Of rows that a core keeps next to it while they are ranked and summed."""
    return by_rows(len(rows), _PASSES * rows.shape[1])


def _complete(observed: BoolArray, pieces: list[slice]) -> dict[int, bool]:
    return {some.start: bool(observed[some].all()) for some in pieces}


def _misfit(table: _Cells, labels: IntArray, centres: MaskedCentroids) -> FloatArray:
    """How far every row is from its centre."""
    distance, known = np.empty(len(labels)), centres.seen
    for some in by_rows(*table.rows.shape):
        each = distances_to_centres(
            table.rows[some], table.observed[some], centres.values, known, table.extent, "euclidean"
        )
        distance[some] = each[np.arange(len(each)), labels[some]]
    return distance
