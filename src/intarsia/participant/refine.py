"""One federated round at a participant: its rows are refined from each set of global centroids (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from intarsia.core.alignment import local_start, match
from intarsia.core.atoms import Labelling, Told, ToldSums, told_sums
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent, Metric
from intarsia.core.kmeans import Fit
from intarsia.core.rows import Nearest, Rows, Tally, labels_of, relabelled, small_type
from intarsia.core.types import BoolArray, FloatArray, IntArray
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


Tell = Callable[[IntArray, Labelling], Told]
"""Returns and records the labels that sums are told over; atoms are labelled by their means."""


class Round(NamedTuple):
    """What a round needs beside the rows.

    ``used`` says which rows choose centroids (None: all); ``refine(start)`` runs the local clusterer from given centres, for
    ``max_iter`` iterations; ``tell`` changes the labels that sums are told over, where the release policy requires it.
    ``is_lloyd`` says that each iteration labels rows by the nearest centre, so that centres can move by told sums instead.
    """

    metric: Metric
    min_points: int
    used: BoolArray | None
    refine: Callable[[FloatArray], Fit]
    max_iter: int
    tell: Tell | None
    is_lloyd: bool = False


def refine_sets(rows: Rows, sets: list[CentroidSet], round_: Round) -> tuple[Refined, ...]:
    """Return the answer about each set of centroids."""
    most = max(len(each.centres) for each in sets)
    near = [Nearest(rows, each.centres, each.extent, round_.metric) for each in sets]
    tallies = [Tally(len(each.centres), rows.offset) for each in sets]
    nearest = [np.full(rows.n_rows, -1, dtype=small_type(most)) for _ in sets]
    misfits = np.zeros(len(sets))
    for piece in rows.pieces(most):
        for k, (look, tally) in enumerate(zip(near, tallies, strict=True)):
            found = look.of(piece)
            misfits[k] += float(found.misfit.sum())
            labels = found.labels if round_.used is None else np.where(round_.used[piece.at], found.labels, -1)
            nearest[k][piece.at] = labels
            if round_.tell is None:
                tally.add_labels(piece, labels)
    if round_.tell is None:
        return tuple(
            _answer(_refined(rows, each, tally.sizes, tally.centroids(), round_)[0], float(misfit))
            for each, tally, misfit in zip(sets, tallies, misfits, strict=True)
        )
    return tuple(_audited(rows, each, labels, round_, round_.tell) for each, labels in zip(sets, nearest, strict=True))


def _answer(sums: ToldSums, misfit: float) -> Refined:
    return Refined(values=sums.means.values, counts=sums.means.counts, sizes=sums.sizes, misfit=misfit)


def _audited(rows: Rows, centroids: CentroidSet, nearest: IntArray, round_: Round, tell: Tell) -> Refined:
    """Return the answer about one set of centroids, in which all depends on rows by sums that may be told.

    Which centroids have enough rows, and where the local clusterer starts from, follow from sums that are told: exact ones
    would answer whether a single row exists.
    """
    near = Nearest(rows, *centroids, round_.metric)
    sums = _told_nearest(rows, near, nearest, centroids.centres, round_, tell)
    misfit = _misfit(sums, centroids)
    if round_.is_lloyd:
        return _answer(_told_iterations(rows, centroids, sums, round_, tell), misfit)
    labels = _refined(rows, centroids, sums.sizes, sums.means, round_)[1]
    if np.array_equal(labels, nearest):
        return _answer(sums, misfit)
    n = len(centroids.centres)
    of_atoms = Labelling(lambda atoms: atoms.labelled(near.labels, n), convex=False)
    return _answer(told_sums(rows, tell(labels, of_atoms), n), misfit)


def _told_nearest(
    rows: Rows, near: Nearest, labels: IntArray, centres: MaskedCentroids, round_: Round, tell: Tell
) -> ToldSums:
    """Return the sums over the rows nearest to each centre, as they may be told; ``labels`` are the exact ones."""
    by_means = Labelling(lambda atoms: atoms.labelled(near.labels, len(centres)), convex=round_.used is None)
    # added up anew: exact sums less those of moved rows would differ from it in the last digit
    return told_sums(rows, tell(labels, by_means), len(centres), centres.values)


def _told_iterations(rows: Rows, centroids: CentroidSet, sums: ToldSums, round_: Round, tell: Tell) -> ToldSums:
    """Return the sums after Lloyd iterations in which centres move by told sums; ``sums`` are over the nearest rows.

    A cluster that loses all rows stays empty: the row farthest from its centre, from which
    :func:`~intarsia.core.kmeans.lloyd` starts it anew, would be known to exist.
    """
    centres, extent = centroids
    compatible = np.flatnonzero(sums.sizes >= round_.min_points)
    if not len(compatible):
        return _matched(np.zeros(0), centres.take(compatible), centroids, round_.metric)[0]
    start = local_start(centres, sums.means, rows.mean[None])[compatible]
    first = 0
    if len(compatible) == len(centres) and bool(centres.seen.all()):  # the first iteration is told already
        start, first = np.where(sums.means.seen, sums.means.values, start), 1
    for _ in range(first, round_.max_iter):
        at = MaskedCentroids.of(start, np.ones_like(start))
        near, before = Nearest(rows, at, extent, round_.metric), start
        labels = labels_of(rows, near.labels, len(at))
        labels = labels if round_.used is None else np.where(round_.used, labels, labels.dtype.type(-1))
        sums = _told_nearest(rows, near, labels, at, round_, tell)
        start = np.where(sums.means.seen, sums.means.values, start)
        if np.array_equal(start, before):
            break
    return _matched(sums.sizes, sums.means, centroids, round_.metric)[0]


def _misfit(sums: ToldSums, centroids: CentroidSet) -> float:
    """Return the sum of squares around the centres; features that a centre knows stand for the others, as in eq:d."""
    counts = np.where(centroids.extent.varies, sums.means.counts, 0.0)
    known = np.where(centroids.centres.seen, counts, 0.0)
    rescaled = counts.sum(axis=1) / np.maximum(known.sum(axis=1), 1.0)
    return float((rescaled * np.where(known > 0, sums.squares, 0.0).sum(axis=1)).sum())


def _refined(
    rows: Rows, centroids: CentroidSet, n_nearest: IntArray, means: MaskedCentroids, round_: Round
) -> tuple[ToldSums, IntArray]:
    """Return the local centroids that match a set of global ones, and for each row the global one, −1 for none.

    ``n_nearest`` rows are nearest to each global centroid, with these ``means``.
    """
    centres = centroids.centres
    compatible = np.flatnonzero(n_nearest >= round_.min_points)
    if not len(compatible):
        nobody: IntArray = np.full(rows.n_rows, -1, dtype=small_type(1))
        return _matched(np.zeros(0), centres.take(compatible), centroids, round_.metric)[0], nobody
    start = local_start(centres, means, rows.mean[None])[compatible]
    fit = round_.refine(start)
    sums, place = _matched(fit.sizes, fit.centres, centroids, round_.metric)
    return sums, relabelled(fit.labels, place)


def _matched(
    sizes: IntArray | FloatArray, local: MaskedCentroids, centroids: CentroidSet, metric: Metric
) -> tuple[ToldSums, IntArray]:
    """Return local centroids in the places of the global ones that they match, and the place of each, −1 for none."""
    centres, extent = centroids
    values, counts = np.zeros(centres.values.shape), np.zeros(centres.values.shape)
    placed, place = np.zeros(len(centres), dtype=np.intp), np.full(len(local), -1, dtype=np.intp)
    if len(local):
        index = match(local, centres, extent, metric)
        there, own = index >= 0, index[index >= 0]
        values[there], counts[there], placed[there] = local.values[own], local.counts[own], sizes[own]
        place[own] = np.flatnonzero(there)
    return ToldSums(placed, MaskedCentroids.of(values, counts), counts), place


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
