"""How far a participant's refined centroids lie outside the range of all others' centroids.

The coordinator cannot check what a participant reports of its rows. But global centroids follow outliers, so it records
which participants sent outlying centroids.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from intarsia.coordinator.members import Members
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.types import BoolArray, FloatArray
from intarsia.protocol import Refined


def updated_outlyingness(
    before: Mapping[str, float], members: Members, refined: Mapping[str, Refined], local: MaskedCentroids
) -> dict[str, float]:
    """Return, by participant, how far outside its centroids were in any round so far, in multiples of the range.

    It is 0 for a participant whose centroids were always inside. The range of a feature is that of all local centroids and
    of what the others refined in the same round; if all of these are equal, it is their size.
    """
    if not refined:
        return dict(before)
    laid_out = [_lay_out(members, name, reply) for name, reply in refined.items()]
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


def _lay_out(members: Members, name: str, refined: Refined) -> tuple[FloatArray, BoolArray]:
    """Return a participant's centroids over the union of features: values, and which of them it has."""
    index, shape = members.index(name), (len(refined.sizes), len(members.space))
    values, counts = np.zeros(shape), np.zeros(shape)
    values[:, index], counts[:, index] = refined.values, refined.counts
    return np.where(counts > 0, values, 0.0), counts > 0
