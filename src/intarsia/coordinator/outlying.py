"""How far a participant's refined centroids are outside the range of all others', and how far they move merged centroids.

The coordinator cannot check what a participant reports of its rows. But global centroids follow outliers, so it records
which participants sent outlying centroids.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from intarsia.coordinator.members import Members
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.types import FloatArray
from intarsia.protocol import Refined

FEWEST_HOLDERS = 3  # of an entry, so that two can agree against one


def updated_outlyingness(
    before: Mapping[str, float], members: Members, refined: Mapping[str, Refined], local: MaskedCentroids
) -> dict[str, float]:
    """Return, by participant, how far outside its centroids were in any round so far, in multiples of the range.

    It is 0 for a participant whose centroids were always inside. The range of a feature is that of all local centroids and
    of what the others refined in the same round; if all of these are equal, it is their size.
    """
    if not refined:
        return dict(before)
    laid_out = [(values, counts > 0) for values, counts in (_lay_out(members, *entry) for entry in refined.items())]
    low = _least_of_others(np.array([np.where(seen, values, np.inf).min(axis=0) for values, seen in laid_out]))
    high = -_least_of_others(-np.array([np.where(seen, values, -np.inf).max(axis=0) for values, seen in laid_out]))
    low = np.minimum(low, np.where(local.seen, local.values, np.inf).min(axis=0))
    high = np.maximum(high, np.where(local.seen, local.values, -np.inf).max(axis=0))
    known = low <= high
    low, high = np.where(known, low, 0.0), np.where(known, high, 0.0)
    size = np.maximum(np.maximum(np.abs(low), np.abs(high)), 1.0)
    width = np.where(high > low, high - low, size)
    result = dict(before)
    for i, (name, (values, seen)) in enumerate(zip(refined, laid_out, strict=True)):
        outside = np.maximum(low[i] - values, values - high[i]) / width[i]
        farthest = np.where(seen & known[i], np.maximum(outside, 0.0), 0.0).max(initial=0.0)
        result[name] = max(before.get(name, 0.0), float(farthest))
    return result


def influence(members: Members, refined: Mapping[str, Refined], deviations: FloatArray) -> dict[str, float]:
    """Return how far merged centroids would move without each participant, in multiples of the others' range.

    The range of a feature is at least one of its typical ``deviations``. Only entries that at least two others know count:
    of two participants that differ, either may be wrong.
    """
    if not refined:
        return {}
    laid_out = [_lay_out(members, name, reply) for name, reply in refined.items()]
    values, counts = (np.array(parts) for parts in zip(*laid_out, strict=True))
    seen, total, sums = counts > 0, counts.sum(axis=0), (counts * values).sum(axis=0)
    low = _least_of_others(np.where(seen, values, np.inf).min(axis=1))
    high = -_least_of_others(-np.where(seen, values, -np.inf).max(axis=1))
    result = {}
    for i, name in enumerate(refined):
        width = np.maximum(np.where(np.isfinite(low[i]), high[i] - low[i], 0.0), deviations)
        judged = seen[i] & (seen.sum(axis=0) >= FEWEST_HOLDERS) & (width > 0)
        others = np.where(judged, total - counts[i], 1.0)
        move = np.abs(values[i] - (sums - counts[i] * values[i]) / others) * counts[i] / np.where(judged, total, 1.0)
        result[name] = float((np.where(judged, move, 0.0) / np.where(width > 0, width, 1.0)).max(initial=0.0))
    return result


def _least_of_others(values: FloatArray) -> FloatArray:
    """Return for every row and column the smallest entry of the other rows.

    >>> _least_of_others(np.array([[1.0], [3.0], [2.0]])).ravel()
    array([2., 1., 1.])
    """
    first = values.argmin(axis=0)
    columns = np.arange(values.shape[1])
    rest = values.copy()
    rest[first, columns] = np.inf
    result = np.broadcast_to(values[first, columns], values.shape).copy()
    result[first, columns] = rest.min(axis=0)
    return result


def _lay_out(members: Members, name: str, refined: Refined) -> tuple[FloatArray, FloatArray]:
    """Return a participant's centroids over the union of features: values, and the counts behind them."""
    index, shape = members.index(name), (len(refined.sizes), len(members.space))
    values, counts = np.zeros(shape), np.zeros(shape)
    values[:, index], counts[:, index] = refined.values, refined.counts
    return np.where(counts > 0, values, 0.0), counts
