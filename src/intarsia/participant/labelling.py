"""The last request of a run: rows are labelled, and counted as the release rules allow."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia.core.atoms import Labelling, told_sums
from intarsia.core.distances import Metric
from intarsia.core.mixture import likeliest
from intarsia.core.rows import Labeller, Nearest, Rows, labels_of, sizes_of, squares_around
from intarsia.core.tails import fixed_marks, gaussian_marks
from intarsia.core.types import FloatArray, IntArray
from intarsia.participant.messages import mixture_of
from intarsia.participant.refine import CentroidSet, Tell
from intarsia.participant.tails import Distances
from intarsia.protocol import Centres, CountMoves, Gaussians, Label, Labelled, Moves
from intarsia.tables.in_memory import HeldRows


def label_rows(
    rows: Rows, centroids: CentroidSet, request: Label, metric: Metric, tell: Tell | None
) -> tuple[IntArray, Labelled]:
    """Return the label of each row, for its owner, and the reply. ``tell`` changes labels that sums are told over."""
    centres, extent = centroids
    near, n_clusters = Nearest(rows, centres, extent, metric), len(centres)
    label = _labeller(rows, centroids, request.gaussians, near)
    distances = Distances(near, rows.n_rows, n_clusters) if request.tails else None
    noting = label if distances is None else distances.noted_by(label)
    if tell is None:
        labels, sizes, counts, squares = squares_around(rows, centres, noting)
    else:
        labels = labels_of(rows, noting, n_clusters)
        convex = near.is_convex and request.gaussians is None
        told = tell(labels, Labelling(lambda atoms: atoms.labelled(label, n_clusters), convex=convex))
        if not request.spread and distances is None:
            return labels, Labelled(sizes=sizes_of(told.rows, n_clusters))
        sizes, means, squares = told_sums(rows, told, n_clusters, centres.values)
        counts = np.where(centres.seen, means.counts, 0.0)
        squares = np.where(counts > 0, squares, 0.0)
    variances = squares / np.maximum(counts, 1.0)
    tails = None if distances is None else _tails(distances, centroids, metric, variances, tell)
    if not request.spread:
        return labels, Labelled(sizes=sizes, tails=tails)
    return labels, Labelled(sizes=sizes, counts=counts, squares=squares, tails=tails)


def count_moves(rows: HeldRows, request: CountMoves, metric: Metric, most: int, tell: Tell | None) -> Moves:
    """Return how many rows have which label by the previous model and by the new one.

    The rows of a pair are whole atoms, because both labellings are told over whole atoms.
    """

    def labels(centres: Centres, gaussians: Gaussians | None) -> IntArray:
        centroids = CentroidSet.received(centres, len(rows.names), most)
        near, k = Nearest(rows, *centroids, metric), len(centroids.centres)
        label = _labeller(rows, centroids, gaussians, near)
        found = labels_of(rows, label, k)
        if tell is None:
            return found
        convex = near.is_convex and gaussians is None
        return tell(found, Labelling(lambda atoms: atoms.labelled(label, k), convex=convex)).rows

    before, now = labels(request.before, request.gaussians_before), labels(request.now, request.gaussians_now)
    shape, both = (len(request.before.values), len(request.now.values)), (before >= 0) & (now >= 0)
    cells = before[both].astype(np.intp) * shape[1] + now[both]
    return Moves(rows=np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape).astype(np.intp))


def _labeller(rows: Rows, centroids: CentroidSet, gaussians: Gaussians | None, near: Nearest) -> Labeller:
    if gaussians is None:
        return near.labels
    mixture, varies = mixture_of(gaussians, centroids.centres), centroids.extent.varies

    def label(piece: Any, /) -> IntArray:
        return likeliest(mixture, piece.cells.T + rows.offset, piece.observed, varies)

    return label


def _tails(
    distances: Distances, centroids: CentroidSet, metric: Metric, variances: FloatArray, tell: Tell | None
) -> IntArray | None:
    """Return how many rows are how far from their centroid; None if the release rules know no way to tell it.

    Marks follow from sums that may be told. In other metrics than the Euclidean they are fixed, and told without audit only.
    """
    if metric != "euclidean":
        return None if tell else distances.counts(fixed_marks(len(centroids.centres)))
    marks = gaussian_marks(centroids.centres, variances, centroids.extent)
    return distances.told(marks, lambda cells, whole: tell(cells, whole).rows) if tell else distances.counts(marks)
