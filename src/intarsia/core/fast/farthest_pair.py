"""The two points that are farthest from each other, without a matrix of all pairs (Method B's first seeds).

Squares are expanded: Σ (x − y)² = Σ x² − 2 Σ x y + Σ y² over the features that both have. Of these only the middle term
belongs to a pair; the others belong to a point and the *mask* of the other, which is the same for all clusters of a
participant, and so does the reach of S. A matrix product, in single precision where numbers allow it, leaves few pairs
that could be the farthest; those are measured exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.core.distances import Extent, Metric, phi_of_pairs, rescaled_distances
from intarsia.core.types import BoolArray, FloatArray, IntArray

_FLAT = 1e-12  # widths that differ by more than this factor do not fit into single precision when squared

Floats = npt.NDArray[Any]  # of single or double precision


@dataclass(frozen=True)
class BlockSizes:
    """How many pairs are looked at together. They change the time, never the result."""

    rows: int = 256  # rows of a block of squared distances: its few arrays stay in the processor's cache
    columns: int = 1024  # columns of a block
    exact: int = 1 << 12  # pairs that are measured exactly at once


DEFAULT_BLOCKS = BlockSizes()


class Pair(NamedTuple):
    """Two points and their distance; −1 if no two points are comparable."""

    first: int
    second: int
    distance: float


def farthest_pair(
    values: FloatArray, seen: BoolArray, extent: Extent, metric: Metric, sizes: BlockSizes = DEFAULT_BLOCKS
) -> Pair:
    """Return the farthest pair, of equals the first in order of rows, then columns; (0, 1) if none is comparable."""
    best = Pair(0, 1, -1.0)
    products = _Products(values, seen & extent.varies, extent, sizes.columns) if metric == "euclidean" else None
    for top in range(0, len(values) - 1, sizes.rows):
        strip = slice(top, min(top + sizes.rows, len(values)))
        if products is None:
            best = _farthest_in(strip, values, seen, extent, metric, best)
            continue
        rows, columns = products.candidates(strip, best.distance)
        for block in (slice(k, k + sizes.exact) for k in range(0, len(rows), sizes.exact)):
            distance = _exact(values, seen, extent, rows[block], columns[block])
            at = int(distance.argmax())
            if distance[at] > best.distance:
                best = Pair(int(rows[block][at]), int(columns[block][at]), float(distance[at]))
            if best.distance == 1.0:
                return best  # no distance is larger, and all pairs that are left come later
    return best


def _farthest_in(strip: slice, values: FloatArray, seen: BoolArray, extent: Extent, metric: Metric, best: Pair) -> Pair:
    """Return the farthest pair of one of these rows and a later one, by all their distances; ``best`` if it is as far."""
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
    """Return rescaled distances of comparable pairs, equal to :func:`rescaled_distances` to the last digit."""
    shared = seen[rows] & seen[columns] & extent.varies
    distance = phi_of_pairs(values[rows], values[columns], shared, "euclidean")
    return distance / phi_of_pairs(extent.high, extent.low, shared, "euclidean")


class _Products:
    """Squared rescaled distances in blocks, each off by less than ``error``."""

    def __init__(self, values: FloatArray, varying: BoolArray, extent: Extent, block_columns: int) -> None:
        width = extent.width[extent.varies]
        largest = float(width.max(initial=0.0)) or 1.0
        single = len(width) == 0 or float(width.min()) > _FLAT * largest
        kind = np.float32 if single else np.float64
        self.error = (varying.shape[1] + 50) * 8 * float(np.finfo(kind).eps)
        self._block_columns = block_columns
        packed = np.packbits(varying, axis=1)
        _, first, self._mask_of = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        self._mask_of = self._mask_of.reshape(-1)
        middle = np.nan_to_num((extent.low + extent.high) / 2, nan=0.0)
        self._x: Floats = np.where(varying, (values - middle) / largest, 0.0).astype(kind)
        self._masks: Floats = varying[first].astype(kind)
        self._weights: Floats = np.square(np.where(extent.varies, extent.width, 0.0) / largest).astype(kind)

    def candidates(self, strip: slice, least: float) -> tuple[IntArray, IntArray]:
        """Return the pairs of one of these rows and a later one that may be the farthest and at least ``least``."""
        x = self._x[strip]
        masks, which = np.unique(self._mask_of[strip], return_inverse=True)
        reach = (self._masks[masks] * self._weights) @ self._masks.T
        per_reach = np.divide(1.0, reach, out=np.zeros_like(reach), where=reach > 0)
        squares = np.square(x) @ self._masks.T  # Σ x² over the features of each mask
        squares *= per_reach[which]
        x2 = -2.0 * x
        pairs: list[tuple[IntArray, IntArray]] = []
        most = max(least, 0.0) ** 2
        for left in range(strip.start, len(self._x), self._block_columns):
            block = slice(left, left + self._block_columns)
            y, at = self._x[block], self._mask_of[block]
            by_mask = per_reach[:, at]
            squared = x2 @ y.T
            factor = by_mask[which]
            squared *= factor
            squared += (self._masks[masks] @ np.square(y).T * by_mask)[which]
            squared += squares.take(at, axis=1)
            if left < strip.stop:
                earlier = np.arange(left, left + len(at))[None, :] <= np.arange(strip.start, strip.stop)[:, None]
                factor[earlier] = 0.0
                squared[earlier] = -1.0
            highest = float(squared.max())
            if highest >= most - self.error:
                most = max(most, highest)
                rows, columns = np.nonzero((squared >= most - 2 * self.error) & (factor > 0))
                pairs.append((rows + strip.start, columns + left))
        rows, columns = (np.concatenate([pair[k] for pair in pairs] or [np.zeros(0, dtype=np.intp)]) for k in (0, 1))
        order = np.lexsort((columns, rows))
        return rows[order], columns[order]
