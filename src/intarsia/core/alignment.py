"""The steps of one federated round: start, matching, moving and comparing centroids (Algorithm 1, federated phase)."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent, Metric, rescaled_distances
from intarsia.core.types import BoolArray, FloatArray, IntArray


def local_start(centres: MaskedCentroids, own_means: MaskedCentroids, overall: FloatArray) -> FloatArray:
    """Return where refinement starts: the global centroid, and where it is hidden the mean of the rows that chose it.

    ``overall`` (the mean of all rows) fills entries that both lack.
    """
    return np.where(centres.seen, centres.values, np.where(own_means.seen, own_means.values, overall))


def match(local: MaskedCentroids, centres: MaskedCentroids, extent: Extent, metric: Metric = "euclidean") -> IntArray:
    """Return for every global centroid the local one that it is matched with, −1 for none (sortHungarian).

    The total rescaled distance is as small as one-to-one matching allows; an incomparable pair costs more than any
    comparable one, and is not a match.
    """
    distance = rescaled_distances(local.values, local.seen, centres.values, centres.seen, extent, metric)
    incomparable = np.isnan(distance)
    cost = np.where(incomparable, 1.0 + np.nan_to_num(distance).sum(), distance)
    rows, columns = linear_sum_assignment(cost)
    index = np.full(len(centres), -1, dtype=np.intp)
    keep = ~incomparable[rows, columns]
    index[columns[keep]] = rows[keep]
    return index


def blend(old: MaskedCentroids, new: MaskedCentroids, step_size: float) -> MaskedCentroids:
    """Return (1 − α) · old + α · new, entry by entry.

    An entry without a report keeps its old value; one that is known for the first time takes the new value.

    >>> old = MaskedCentroids.of(np.array([[1.0, 5.0, 0.0]]), np.array([[4.0, 4.0, 0.0]]))
    >>> new = MaskedCentroids.of(np.array([[2.0, 0.0, 7.0]]), np.array([[6.0, 0.0, 6.0]]))
    >>> blend(old, new, 0.5)
    MaskedCentroids(values=array([[1.5, 5. , 7. ]]), counts=array([[6., 4., 6.]]))
    """
    moved = old.values + step_size * (new.values - old.values)
    values = np.where(new.seen, np.where(old.seen, moved, new.values), old.values)
    return MaskedCentroids.of(values, np.where(new.seen, new.counts, old.counts))


def without_own(merged: MaskedCentroids, own: MaskedCentroids, sent: MaskedCentroids) -> MaskedCentroids:
    r"""Return ``merged`` without a participant's own part, and ``sent`` for entries that only it knows.

    The reports of the others are used as they are, without the step α.

    A participant's rows fit a mean that includes them better than they should, which keeps them in their clusters. Where the
    others have at least as many rows behind an entry as the participant, only these count; where they have fewer, own rows
    make up the difference; where no other participant has any, ``sent`` stays. With counts :math:`n` (own) and :math:`m`
    (others) own rows weigh :math:`\max(0, 1 - m/n)`.

    >>> merged = MaskedCentroids.of(np.array([[2.0, 2.0, 2.0]]), np.array([[8.0, 8.0, 8.0]]))
    >>> own = MaskedCentroids.of(np.array([[1.0, 1.0, 2.0]]), np.array([[4.0, 6.0, 8.0]]))
    >>> without_own(merged, own, merged).values.round(3)
    array([[3.   , 2.333, 2.   ]])
    """
    others = merged.counts - own.counts
    both = own.seen & (others > 0)
    weight = np.maximum(0.0, 1.0 - others / np.where(own.seen, own.counts, 1.0))
    # the mean without own rows, as a step away from the common one, so that large sums lose no digits
    gap = merged.values - own.values
    theirs = merged.values + gap * own.counts / np.where(both, others, 1.0)
    mine = weight * own.counts
    mixed = theirs + (own.values - theirs) * mine / np.where(both, others + mine, 1.0)
    return MaskedCentroids.of(np.where(both, mixed, sent.values), sent.counts)


def movement(old: MaskedCentroids, new: MaskedCentroids, extent: Extent) -> float:
    """Return the largest move of any centroid, as a fraction of the extent; 1 if one gained a feature."""
    if _gained(old.seen, new.seen):
        return 1.0
    useful = new.seen & extent.varies
    squared = np.square(np.where(useful, new.values - old.values, 0.0)).sum(axis=1)
    reach = (useful * np.square(extent.width)).sum(axis=1)
    return float(np.sqrt(np.divide(squared, reach, out=np.zeros_like(squared), where=reach > 0)).max(initial=0.0))


def _gained(before: BoolArray, after: BoolArray) -> bool:
    return bool((after & ~before).any())
