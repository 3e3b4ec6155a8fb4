"""Candidates that a group of Method A measures after a merge, bounds for all others, and what rescales distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.types import BoolArray, FloatArray, IntArray

CLOSE = 1e-10  # relative: distances that differ by less are compared as the printed loop computes them
SLACK = 1e-11  # relative: what rounding may do to a bound


@dataclass(frozen=True)
class WindowSizes:
    """How many candidates are measured when. They change the time that Method A takes, never its result."""

    core: int = 128  # centroids that are measured after every merge of a group
    window: int = 768  # centroids that are measured when the core does not suffice, at least
    widest: int = 32  # a window holds at most one in so many centroids, if that is more than ``window``
    short: int = 16  # merges; a window that lasts shorter is followed by a larger one
    long: int = 256  # merges; a window that lasts longer is followed by a smaller one
    pool: int = 8  # windows among whose centroids a new window is chosen
    block: int = 1 << 18  # numbers in one temporary array: 2 MiB


DEFAULT_WINDOWS = WindowSizes()


class CompactCentroids:
    """Centroids by the features that they have: row z has ``values[z]`` at ``features[z]``, padded with feature d."""

    def __init__(self, centroids: MaskedCentroids, varies: BoolArray) -> None:
        seen = centroids.seen & varies
        n_seen = seen.sum(axis=1)
        width = max(1, int(n_seen.max(initial=1)))
        rows, columns = np.nonzero(seen)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(n_seen) - n_seen, n_seen)
        self.features = np.full((len(seen), width), seen.shape[1], dtype=np.intp)
        self.features[rows, place] = columns
        self.values = np.zeros((len(seen), width))
        self.values[rows, place] = centroids.values[rows, columns]
        self.counts = np.zeros((len(seen), width))
        self.counts[rows, place] = centroids.counts[rows, columns]


class Candidates(NamedTuple):
    """Centroids with what their distances to a group need: shared features, values there, and 1 / reach of these."""

    members: IntArray
    features: IntArray
    values: FloatArray
    inverse_reach: FloatArray

    def take(self, index: IntArray) -> Candidates:
        """Return the candidates at these places."""
        rows = (self.features.take(index, axis=0), self.values.take(index, axis=0))
        return Candidates(self.members.take(index), *rows, self.inverse_reach.take(index))


class Window:
    """The free centroids with the lowest bounds of one group.

    The *core* are the closest of them when the window was last measured. ``limit`` is a lower bound, from then, for all
    distances outside the core. ``beyond`` was one for all outside the window when the window was made; ``drift`` is how far
    the group's centre moved from then until the window was last measured.
    """

    def __init__(self, candidates: Candidates, beyond: float, core_size: int) -> None:
        self.candidates, self.beyond, self.drift, self.lasted = candidates, beyond, 0.0, 0
        self._core_size = core_size

    def measured(self, distances: FloatArray, slack: float) -> None:
        """Choose the core by the current distances of all candidates."""
        outside, size = self.beyond - self.drift, self._core_size
        if len(distances) > size:
            order = np.argpartition(distances, size)
            chosen, next_one = order[:size], float(distances[order[size]])
            if distances[chosen].min() * (1.0 + CLOSE) >= next_one * (1.0 - SLACK):  # they are all as close
                chosen, next_one = order, np.inf
            outside = min(outside, next_one)
        else:
            chosen = np.arange(len(distances))
        self.core, self.distances = self.candidates.take(chosen), distances[chosen]
        self.place = np.full(len(distances), -1, dtype=np.intp)
        self.place[chosen] = np.arange(len(chosen))
        self.limit = outside if np.isinf(outside) else outside - SLACK * (abs(outside) + slack)

    def closest(self) -> float:
        """Return the smallest distance in the core."""
        distances = self.distances
        return float(distances[distances.argmin()]) if len(distances) else np.inf

    def closest_but(self, first: int) -> float:
        """Return the smallest distance in the core without one candidate."""
        distances = self.distances
        least = distances[first]
        distances[first] = np.inf
        second = float(distances[distances.argmin()])
        distances[first] = least
        return second

    def drop(self, places: list[int]) -> None:
        """Remove candidates: their distance is infinite from now on, also when measured again."""
        for place in places:
            self.candidates.values[place, 0] = np.inf
            in_core = self.place[place]
            if in_core >= 0:
                self.core.values[in_core, 0] = np.inf
                self.distances[in_core] = np.inf


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
