"""Which counts disclose too few rows, on their own or by subtraction, and which must be suppressed with them.

All functions are pure: they see counts, sizes and centroids, and return masks. Which limits apply is the decision of a
release policy (:mod:`intarsia.privacy`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.distances import Extent, rescaled_distances
from intarsia.core.rows import Rows, Tally, pair_counts, pair_keys, sizes_of
from intarsia.core.types import BoolArray, FloatArray, IntArray


class Crossing(NamedTuple):
    """Two clusterings of the same rows: the rows and values of each cluster, and of each pair of clusters that share rows.

    ``sizes`` and ``counts`` (clusters × features) belong to the later clustering, ``old_sizes`` and ``old_counts`` to the
    earlier one. ``pairs`` are the pairs (later cluster, earlier cluster), with their shared ``rows`` and ``values``.
    """

    sizes: IntArray
    counts: FloatArray
    old_sizes: IntArray
    old_counts: FloatArray
    pairs: IntArray
    rows: IntArray
    values: FloatArray


def hidden_sizes(sizes: IntArray, fewest: int, outside: int = 0) -> BoolArray:
    """Return which clusters are suppressed: those that are too small, and the next smallest if their total is too small.

    Whoever knows the number of all rows could otherwise subtract. The rows ``outside`` all clusters are suppressed too.

    >>> hidden_sizes(np.array([40, 3, 9, 0]), 5)
    array([False,  True,  True, False])
    >>> hidden_sizes(np.array([40, 9]), 5, outside=2)
    array([False,  True])
    """
    return hidden_entries(sizes[:, None], np.array([sizes.sum() + outside]), fewest)[:, 0]


def hidden_entries(
    counts: FloatArray | IntArray, totals: IntArray, fewest: int, hidden: BoolArray | None = None
) -> BoolArray:
    """Return which entries are suppressed, column by column: those with few values, and the next smallest, as for sizes.

    ``totals`` are the observed values of each column, including those of rows in no cluster; ``hidden`` marks entries that
    are suppressed for another reason.

    >>> hidden_entries(np.array([[40, 40], [9, 9], [3, 0]]), np.array([52, 49]), 5)
    array([[False, False],
           [ True, False],
           [ True, False]])
    """
    hidden = ((counts > 0) & (counts < fewest)) | (False if hidden is None else hidden)
    while True:
        released = ~hidden & (counts > 0)
        rest = totals - np.where(released, counts, 0).sum(axis=0)
        few = np.flatnonzero((rest > 0) & (rest < fewest) & released.any(axis=0))
        if not len(few):
            return hidden
        hidden[np.where(released, counts, np.inf)[:, few].argmin(axis=0), few] = True


def never_alone(counts: FloatArray | IntArray, hidden: BoolArray) -> BoolArray:
    """Return ``hidden``, with the next smallest entry of a column added where only one entry of the column is suppressed.

    A single suppressed entry follows from the total of the column and the others.
    """
    hidden, positive = hidden.copy(), counts > 0
    alone = np.flatnonzero(((hidden & positive).sum(axis=0) == 1) & (~hidden & positive).any(axis=0))
    rest = np.where(hidden | ~positive, np.inf, counts)[:, alone]
    hidden[rest.argmin(axis=0), alone] = True
    return hidden


def differ_by_few(
    crossing: Crossing, released_sizes: IntArray, released_counts: FloatArray, fewest: int
) -> tuple[IntArray, BoolArray]:
    """Return for each later cluster an earlier one that differs from it by too few rows, −1 if none; and such entries.

    ``released_sizes`` and ``released_counts`` are what was released of the earlier clusters; what was not cannot be
    subtracted.
    """
    similar = np.full(len(crossing.sizes), -1, dtype=np.intp)
    similar_entries = np.zeros(crossing.counts.shape, dtype=np.bool_)
    for (k, j), rows, values in zip(crossing.pairs, crossing.rows, crossing.values, strict=True):
        if released_sizes[j] > 0 and 0 < crossing.sizes[k] + crossing.old_sizes[j] - 2 * rows < fewest:
            similar[k] = j
        differ = crossing.counts[k] + crossing.old_counts[j] - 2 * values
        similar_entries[k] |= (differ > 0) & (differ < fewest) & (released_counts[j] > 0)
    return similar, similar_entries


def crossing(rows: Rows, labels: IntArray, old_labels: IntArray, n: int, n_old: int) -> Crossing:
    """Return how two labellings of the same rows, with n and n_old clusters, cross; negative labels belong to no cluster.

    Reads all rows once if values are missing.
    """
    keys, shared = pair_counts(labels, old_labels, n_old)
    pairs = np.column_stack([keys // n_old, keys % n_old])
    if rows.complete:
        sizes = [sizes_of(labels, n), sizes_of(old_labels, n_old), shared]
        counts = [np.repeat(each[:, None].astype(np.float64), len(rows.offset), axis=1) for each in sizes]
        return Crossing(sizes[0], counts[0], sizes[1], counts[1], pairs, shared, counts[2])
    new, old, both = (Tally(size, rows.offset) for size in (n, n_old, len(keys)))
    for piece in rows.pieces(max(n, n_old, len(keys))):
        key = pair_keys(labels[piece.at], old_labels[piece.at], n_old)
        new.add_labels(piece, labels[piece.at])
        old.add_labels(piece, old_labels[piece.at])
        both.add_labels(piece, np.where(key >= 0, np.searchsorted(keys, key), -1))
    return Crossing(new.sizes, new.counts, old.sizes, old.counts, pairs, shared, both.counts)


def merged_small(centroids: MaskedCentroids, sizes: IntArray, extent: Extent, fewest: int) -> IntArray:
    """Return the cluster that each cluster joins: the smallest joins the nearest, until none is too small.

    All are −1 if all rows together are too few.
    """
    joined = np.arange(len(sizes))
    while True:
        names, index = np.unique(joined, return_inverse=True)
        now = np.bincount(index, weights=sizes).astype(np.intp)
        if now.min() >= fewest or len(names) == 1:
            return joined if now.min() >= fewest else np.full(len(sizes), -1, dtype=np.intp)
        smallest = int(now.argmin())
        means = merge(centroids, index, len(names))
        distance = rescaled_distances(
            means.values[[smallest]], means.seen[[smallest]], means.values, means.seen, extent
        )[0]
        distance[smallest] = np.inf
        nearest = int(np.where(np.isnan(distance), np.finfo(np.float64).max, distance).argmin())
        joined[joined == names[smallest]] = names[nearest]
