"""How far out a participant pulls: refined centroids that lie outside what everybody else's centroids reach.

Nobody can check what a participant says of its rows. But means follow whoever is far away, so who was far away is kept.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from intarsia.coordinator.base import Study
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.types import BoolArray, FloatArray
from intarsia.protocol import Refined


def stretched(
    before: Mapping[str, float], study: Study, refined: Mapping[str, Refined], local: MaskedCentroids
) -> dict[str, float]:
    """By participant, the farthest outside so far, in multiples of the reach; 0 for whoever stayed inside.

    The reach of a feature is that of all local centroids and of what the others refined in the same round; where it is
    none, its size.
    """
    names = list(refined)
    if not names:
        return dict(before)
    wide = [_wide(study, name, refined[name]) for name in names]
    # the lowest and the highest of everybody, without whoever is looked at
    low = _without_each(np.array([np.where(seen, values, np.inf).min(axis=0) for values, seen in wide]), np.inf)
    high = -_without_each(-np.array([np.where(seen, values, -np.inf).max(axis=0) for values, seen in wide]), np.inf)
    low = np.minimum(low, np.where(local.seen, local.values, np.inf).min(axis=0))
    high = np.maximum(high, np.where(local.seen, local.values, -np.inf).max(axis=0))
    known = low <= high
    low, high = np.where(known, low, 0.0), np.where(known, high, 0.0)
    size = np.maximum(np.maximum(np.abs(low), np.abs(high)), 1.0)
    reach = np.where(high > low, high - low, size)
    found = {}
    for i, (name, (values, seen)) in enumerate(zip(names, wide, strict=True)):
        outside = np.maximum(low[i] - values, values - high[i]) / reach[i]
        farthest = np.where(seen & known[i], np.maximum(outside, 0.0), 0.0).max(initial=0.0)
        found[name] = max(before.get(name, 0.0), float(farthest))
    return dict(before) | found


def _without_each(values: FloatArray, nothing: float) -> FloatArray:
    """For every row and column the smallest entry of the other rows.

    >>> _without_each(np.array([[1.0], [3.0], [2.0]]), np.inf).ravel()
    array([2., 1., 1.])
    """
    first = values.argmin(axis=0)
    columns = np.arange(values.shape[1])
    rest = values.copy()
    rest[first, columns] = nothing
    result = np.broadcast_to(values[first, columns], values.shape).copy()
    result[first, columns] = rest.min(axis=0)
    return result


def _wide(study: Study, name: str, part: Refined) -> tuple[FloatArray, BoolArray]:
    """Over the union of features: values, and which of them are there."""
    index = study.index(name)
    values, counts = np.zeros((len(part.sizes), len(study.space))), np.zeros((len(part.sizes), len(study.space)))
    values[:, index], counts[:, index] = part.values, part.counts
    return np.where(counts > 0, values, 0.0), counts > 0
