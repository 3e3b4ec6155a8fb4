"""How far out a participant pulls: refined centroids that lie outside what everybody else's centroids reach.

Nobody can check what a participant says of its rows. But means follow whoever is far away, so who was far away is kept.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from intarsia.algorithms.base import Study
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import extent_of
from intarsia.core.types import BoolArray, FloatArray
from intarsia.messages import Refined


def stretched(
    before: Mapping[str, float], study: Study, refined: Mapping[str, Refined], local: MaskedCentroids
) -> dict[str, float]:
    """By participant, the farthest outside so far, in multiples of the reach; 0 for whoever stayed inside.

    The reach of a feature is that of all local centroids and of what the others refined in the same round; where it is
    none, its size.
    """
    wide = {name: _wide(study, name, part) for name, part in refined.items()}
    found = {}
    for name, (values, seen) in wide.items():
        others = [part for other, part in wide.items() if other != name]
        everything = np.concatenate([local.values, *(v for v, _ in others)])
        extent = extent_of(everything, np.concatenate([local.seen, *(s for _, s in others)]))
        size = np.fmax(np.fmax(np.abs(extent.low), np.abs(extent.high)), 1.0)
        reach = np.where(extent.varies, extent.width, size)
        outside = np.fmax(extent.low - values, values - extent.high) / reach
        found[name] = max(before.get(name, 0.0), float(np.where(seen, np.fmax(outside, 0.0), 0.0).max(initial=0.0)))
    return dict(before) | found


def _wide(study: Study, name: str, part: Refined) -> tuple[FloatArray, BoolArray]:
    """Over the union of features: values, and which of them are there."""
    index = study.index(name)
    values, counts = np.zeros((len(part.sizes), len(study.space))), np.zeros((len(part.sizes), len(study.space)))
    values[:, index], counts[:, index] = part.values, part.counts
    return np.where(counts > 0, values, 0.0), counts > 0
