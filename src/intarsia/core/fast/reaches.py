"""The reach of S over the features that centroids share with groups, which rescales their distances."""

from __future__ import annotations

import numpy as np

from intarsia.core.fast.windows import SLACK
from intarsia.core.types import BoolArray, FloatArray, IntArray


class Reaches:
    """The reach over shared features, by group and centroid; it is the same for all centroids with the same features."""

    def __init__(self, seen: BoolArray, known: BoolArray, width: FloatArray, metric: str) -> None:
        packed = np.packbits(seen, axis=1)
        _, first, self._kind = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        self._kind = self._kind.reshape(-1)
        self._seen_by_kind = np.ascontiguousarray(seen[first].T)
        self._euclidean = metric == "euclidean"
        self._weights = np.square(width) if self._euclidean else width
        self._reach = (known * self._weights) @ self._seen_by_kind
        self.least = np.zeros(len(known))  # the smallest reach of any centroid that shares a feature with a group
        for g in range(len(known)):
            self._find_least(g)

    def _find_least(self, g: int) -> None:
        reach = self._reach[g]
        self.least[g] = reach.min(where=reach > 0, initial=np.inf) * (1.0 - SLACK)

    def inverse(self, g: int, members: IntArray) -> FloatArray:
        """Return 1 / reach of these centroids; infinite where they share nothing with the group."""
        reach = self._reach[g, self._kind[members]]
        root = np.sqrt(reach) if self._euclidean else reach
        return np.asarray(np.divide(1.0, root, out=np.full(len(root), np.inf), where=root > 0))

    def gain(self, g: int, features: IntArray) -> tuple[IntArray, FloatArray]:
        """Add features to a group; return the centroids with them, and the factors of their bounds (0: none before)."""
        before = self._reach[g].copy()
        self._reach[g] += self._weights[features] @ self._seen_by_kind[features]
        self._find_least(g)
        factor = np.divide(before, self._reach[g], out=np.ones_like(before), where=self._reach[g] > 0)
        affected = np.flatnonzero((factor < 1.0)[self._kind])
        factor = np.sqrt(factor) if self._euclidean else factor
        return affected, factor[self._kind[affected]]
