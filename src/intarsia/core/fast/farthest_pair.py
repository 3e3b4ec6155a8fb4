"""The two points that are farthest from each other, without a matrix of all pairs (Method B's first seeds).

Squares are expanded: Σ (x − y)² = Σ x² − 2 Σ x y + Σ y² over the features that both see. Of these only the middle term
belongs to a pair; the others belong to a point and *what* the other sees, which is the same for all clusters of a
participant, and so does what S reaches. A matrix product, in single precision where numbers allow it, leaves few pairs
that could be the farthest; those are measured exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.core.distances import Extent, Metric, phi_of_pairs, rescaled_distances
from intarsia.core.types import BoolArray, FloatArray, IntArray

_HIGH, _WIDE = 256, 1024  # rows and columns of a block: its few arrays stay at hand
_FLAT = 1e-12  # widths that differ by more than this factor do not fit into single precision when squared
_EXACT = 1 << 12  # pairs that are measured at once

Floats = npt.NDArray[Any]  # of single or double precision


class Pair(NamedTuple):
    """Two points and how far they are from each other; −1 if no two can be compared."""

    first: int
    second: int
    distance: float


def farthest_pair(values: FloatArray, seen: BoolArray, extent: Extent, metric: Metric) -> Pair:
    """The farthest pair, of equals the first in order of rows, then columns; (0, 1) if no two can be compared."""
    best = Pair(0, 1, -1.0)
    products = _Products(values, seen & extent.varies, extent) if metric == "euclidean" else None
    for top in range(0, len(values) - 1, _HIGH):
        strip = slice(top, min(top + _HIGH, len(values)))
        if products is None:
            best = _farthest_in(strip, values, seen, extent, metric, best)
            continue
        rows, columns = products.candidates(strip, best.distance)
        for some in (slice(k, k + _EXACT) for k in range(0, len(rows), _EXACT)):
            distance = _exact(values, seen, extent, rows[some], columns[some])
            at = int(distance.argmax())
            if distance[at] > best.distance:
                best = Pair(int(rows[some][at]), int(columns[some][at]), float(distance[at]))
            if best.distance == 1.0:
                return best  # S reaches no farther, and all that are left come later
    return best


def _farthest_in(strip: slice, values: FloatArray, seen: BoolArray, extent: Extent, metric: Metric, best: Pair) -> Pair:
    """The same among pairs of one of these rows and a later one, by all their distances."""
    for row in range(strip.start, strip.stop):
        if row + 1 < len(values):
            later = slice(row + 1, None)
            distance = rescaled_distances(values[[row]], seen[[row]], values[later], seen[later], extent, metric)[0]
            distance = np.where(np.isnan(distance), -1.0, distance)
            at = int(distance.argmax())
            if distance[at] > best.distance:
                best = Pair(row, row + 1 + at, float(distance[at]))
    return best


def _exact(values: FloatArray, seen: BoolArray, extent: Extent, rows: IntArray, columns: IntArray) -> FloatArray:
    """Rescaled distances of pairs, as :func:`rescaled_distances` has them to the last digit; all can be compared."""
    shared = seen[rows] & seen[columns] & extent.varies
    distance = phi_of_pairs(values[rows], values[columns], shared, "euclidean")
    return distance / phi_of_pairs(extent.high, extent.low, shared, "euclidean")


class _Products:
    """Squared rescaled distances in blocks, each off by less than ``error``."""

    def __init__(self, values: FloatArray, useful: BoolArray, extent: Extent) -> None:
        width = extent.width[extent.varies]
        largest = float(width.max(initial=0.0)) or 1.0
        single = len(width) == 0 or float(width.min()) > _FLAT * largest
        kind = np.float32 if single else np.float64
        self.error = (useful.shape[1] + 50) * 8 * float(np.finfo(kind).eps)
        _, first, self._mask_of = np.unique(np.packbits(useful, axis=1), axis=0, return_index=True, return_inverse=True)
        self._mask_of = self._mask_of.reshape(-1)
        middle = np.nan_to_num((extent.low + extent.high) / 2, nan=0.0)
        # the columns of a block are looked at together: what belongs to one point and one mask is there by mask
        self._x: Floats = np.where(useful, (values - middle) / largest, 0.0).astype(kind)
        self._masks: Floats = useful[first].astype(kind)
        self._weights: Floats = np.square(np.where(extent.varies, extent.width, 0.0) / largest).astype(kind)

    def candidates(self, strip: slice, least: float) -> tuple[IntArray, IntArray]:
        """Pairs of one of these rows and a later one that may be as far as ``least`` and as all others, in order."""
        x = self._x[strip]
        own = np.square(x) @ self._masks.T  # Σ x² over what each mask sees
        few, which = np.unique(self._mask_of[strip], return_inverse=True)
        reach = (self._masks[few] * self._weights) @ self._masks.T
        per_reach = np.divide(1.0, reach, out=np.zeros_like(reach), where=reach > 0)
        own *= per_reach[which]
        x2 = -2.0 * x
        found: list[tuple[IntArray, IntArray]] = []
        most = max(least, 0.0) ** 2
        for left in range(strip.start, len(self._x), _WIDE):
            some = slice(left, left + _WIDE)
            y, at = self._x[some], self._mask_of[some]
            by_mask = per_reach[:, at]
            squared = x2 @ y.T
            factor = by_mask[which]
            squared *= factor
            squared += (self._masks[few] @ np.square(y).T * by_mask)[which]
            squared += own.take(at, axis=1)
            if left < strip.stop:
                earlier = np.arange(left, left + len(at))[None, :] <= np.arange(strip.start, strip.stop)[:, None]
                factor[earlier] = 0.0
                squared[earlier] = -1.0
            highest = float(squared.max())
            if highest >= most - self.error:
                most = max(most, highest)
                rows, columns = np.nonzero((squared >= most - 2 * self.error) & (factor > 0))
                found.append((rows + strip.start, columns + left))
        rows, columns = (np.concatenate([pair[k] for pair in found] or [np.zeros(0, dtype=np.intp)]) for k in (0, 1))
        order = np.lexsort((columns, rows))
        return rows[order], columns[order]
