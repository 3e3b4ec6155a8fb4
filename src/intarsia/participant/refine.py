"""One federated round at a participant: its rows are refined from each set of global centroids (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np

from intarsia.core.alignment import local_start, match
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.disclosure import Crossing, crossing
from intarsia.core.distances import Extent, Metric
from intarsia.core.kmeans import Fit, fit_of
from intarsia.core.rows import Found, Nearest, Rows, Tally, relabelled, small_type
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.privacy.suppression import Cells, Suppression
from intarsia.protocol import Centres, Refined


class CentroidSet(NamedTuple):
    """Global centroids, and the extent that distances to them are rescaled by."""

    centres: MaskedCentroids
    extent: Extent

    @classmethod
    def received(cls, sent: Centres, n_features: int, most: int) -> CentroidSet:
        """Check centroids from a request, of which there may be ``most``."""
        sent.check(n_features, most)
        return cls(MaskedCentroids.of(sent.values, sent.known.astype(np.float64)), Extent(sent.low, sent.high))


class Round(NamedTuple):
    """What a round needs beside the rows.

    ``used`` says which rows choose centroids (None: all); ``refine(start)`` runs the local clusterer from given centres;
    ``gather(fit)`` counts rows outside all clusters with their nearest cluster, where the release policy requires it.
    """

    metric: Metric
    min_points: int
    used: BoolArray | None
    refine: Callable[[FloatArray], Fit]
    gather: Callable[[Fit], Fit]


def refine_sets(
    rows: Rows, sets: list[CentroidSet], round_: Round, suppression: Suppression, cells: Cells
) -> tuple[Refined, ...]:
    """Return the answer about each set of centroids, such that no two of them disclose a few rows."""
    most = max(len(each.centres) for each in sets)
    near = [Nearest(rows, each.centres, each.extent, round_.metric) for each in sets]
    tallies = [Tally(len(each.centres), rows.offset) for each in sets]
    misfits = [_Misfit(len(each.centres)) for each in sets]
    for piece in rows.pieces(most):
        for look, tally, misfit in zip(near, tallies, misfits, strict=True):
            found = look.of(piece)
            misfit.add(found)
            labels = found.labels if round_.used is None else np.where(round_.used[piece.at], found.labels, -1)
            tally.add_labels(piece, labels)
    parts, chosen = [], []
    for each, tally, misfit in zip(sets, tallies, misfits, strict=True):
        part, labels = _refined(rows, each, tally, round_)
        total = _released_misfit(rows, each, round_.metric, misfit, suppression.fewest)
        parts.append(msgspec.structs.replace(part, misfit=total))
        chosen.append(labels)

    def crossed(later: int, earlier: int) -> Crossing:
        return crossing(rows, chosen[later], chosen[earlier], len(parts[later].sizes), len(parts[earlier].sizes))

    return suppression.apart(parts, crossed, cells)


def _refined(rows: Rows, centroids: CentroidSet, tally: Tally, round_: Round) -> tuple[Refined, IntArray]:
    """Return the local centroids that match a set of global ones, and for each row the global one, −1 for none."""
    centres, extent = centroids
    values, counts = np.zeros(centres.values.shape), np.zeros(centres.values.shape)
    sizes = np.zeros(len(centres), dtype=np.intp)
    compatible = np.flatnonzero(tally.sizes >= round_.min_points)
    if not len(compatible):
        nobody: IntArray = np.full(rows.n_rows, -1, dtype=small_type(1))
        return Refined(values=values, counts=counts, sizes=sizes, misfit=0.0), nobody
    start = local_start(centres, tally.centroids(), rows.mean[None])[compatible]
    fit = round_.gather(round_.refine(start))
    index = match(fit.centres, centres, extent, round_.metric)
    matched, local = index >= 0, index[index >= 0]
    values[matched], counts[matched] = fit.centres.values[local], fit.centres.counts[local]
    sizes[matched] = fit.sizes[local]
    place = np.full(len(fit.sizes), -1, dtype=np.intp)
    place[local] = np.flatnonzero(matched)
    return Refined(values=values, counts=counts, sizes=sizes, misfit=0.0), relabelled(fit.labels, place)


class _Misfit:
    """The number of comparable rows nearest to each centre, and the sum of all squared distances."""

    def __init__(self, n_centres: int) -> None:
        self.sizes, self.total = np.zeros(n_centres, dtype=np.intp), 0.0

    def add(self, found: Found) -> None:
        counted = found.labels[found.comparable & (found.labels >= 0)]
        self.sizes += np.bincount(counted, minlength=len(self.sizes))
        self.total += float(found.misfit.sum())


def _released_misfit(rows: Rows, centroids: CentroidSet, metric: Metric, misfit: _Misfit, fewest: int) -> float:
    """Return the sum of squared distances to centres that enough rows are nearest to; the other rows go to these centres.

    A sum in which a single row has a part of its own would disclose that row.
    """
    kept = np.arange(len(centroids.centres))
    while True:
        few = (misfit.sizes > 0) & (misfit.sizes < fewest)
        if not few.any() or len(kept) == 1:
            return misfit.total
        kept = kept[~few] if not few[misfit.sizes > 0].all() else kept[[int(misfit.sizes.argmax())]]
        near, misfit = Nearest(rows, centroids.centres.take(kept), centroids.extent, metric), _Misfit(len(kept))
        for piece in rows.pieces(len(kept)):
            misfit.add(near.of(piece))


def labelled_by_nearest(
    rows: Rows, labels: IntArray, chosen: BoolArray, centroids: MaskedCentroids, otherwise: int = -1
) -> IntArray:
    """Return the labels, with the nearest centroid for ``chosen`` rows; ``otherwise`` if none is comparable."""
    result, near = labels.copy(), Nearest(rows, centroids, rows.extent)
    for piece in rows.pieces(len(centroids)):
        if (mask := chosen[piece.at]).any():
            nearest = near.labels(piece)[mask]
            result[piece.at][mask] = np.where(nearest >= 0, nearest, otherwise)
    return result


def gathered(rows: Rows, fit: Fit) -> Fit:
    """Return the clusters with every row outside of them in the nearest one; in the largest if none is comparable."""
    labels = labelled_by_nearest(rows, fit.labels, fit.labels < 0, fit.centres, int(fit.sizes.argmax()))
    return fit_of(rows, labels, len(fit.sizes))
