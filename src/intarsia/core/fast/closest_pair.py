r"""Always join the closest pair of a free centroid and a group, without computing all distances (Method A's loop).

A group's centre c moves a little with every merge. Where no feature is gained, the triangle inequality bounds what that
does to any rescaled distance, whatever features M a centroid shares with the group:

.. math:: |d(z, c) - d(z, c')| \le \varphi(M c, M c') \,/\, \varphi(M \max S, M \min S) \le \max_m |c_m - c'_m| \,/\, w_m

with the width w of S. So an old distance less the shifts since then is a lower bound. As M has at most as many features as a
centroid has, and S reaches at least ``least`` over them, the largest so many steps over that reach are another bound of a
shift. ``keys[g, z]`` is a distance plus the shifts of g up to when it was measured; less those up to now it is that bound,
and its order never changes by itself. After each of its merges a group measures only its *core* anew: the few that were
closest when it last measured its *window*, which are the few hundred with the lowest bounds when it last chose one.
It measures more when the closest of the core is no longer closer than all bounds outside.

Where a group gains features F, a sum of terms that are not negative grows at most by more such terms: with the reach R of
the features in M, the bound shrinks by (R / (R + R_F)) to the power 1/2 (Euclidean) or 1 (Manhattan), and for those who
have F only. Distances that could decide are compared as the printed loop computes them, to the last digit.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent, rescaled_distances
from intarsia.core.fast.bounds import (
    CLOSE,
    DEFAULT_WINDOWS,
    SLACK,
    Candidates,
    CompactCentroids,
    Reaches,
    Window,
    WindowSizes,
)
from intarsia.core.types import BoolArray, FloatArray, IntArray

METRICS = ("euclidean", "manhattan")  # norms, for which the bounds hold


class ClosestFirst:
    """Method A's loop as an object: free centroids, groups, and what is known of the distances between them.

    ``separate`` marks centroids whose participant may have only one in each group.
    """

    def __init__(
        self,
        centroids: MaskedCentroids,
        separate: BoolArray,
        owner: IntArray,
        extent: Extent,
        seeds: IntArray,
        metric: str,
        sizes: WindowSizes = DEFAULT_WINDOWS,
    ) -> None:
        self._centroids, self._extent, self._metric, self._sizes = centroids, extent, metric, sizes
        self._manhattan = metric == "manhattan"
        self._separate, self._owner = separate, owner
        self._members_of = np.split(np.argsort(owner, kind="stable"), np.cumsum(np.bincount(owner))[:-1])
        self._compact = CompactCentroids(centroids, extent.varies)
        self._place_centres(seeds)
        d = centroids.values.shape[1]
        # as many of all d + 1 features as a centroid cannot share with a group
        self._n_unshared = d + 1 - self._compact.features.shape[1]
        self._reaches = Reaches(centroids.seen & extent.varies, self._known[:, :d], extent.width, metric)
        self._prepare_bounds(len(owner), len(seeds))
        for g, seed in enumerate(seeds.tolist()):
            self._forbid(seed, g)
        for g in range(len(seeds)):
            self._measure_all(g)
            self._windows.append(self._new_window(g))

    def _place_centres(self, seeds: IntArray) -> None:
        """Make a group of each seed. One more feature, which no centroid has, has the value 0 everywhere."""
        (n, d), k, extent = self._centroids.values.shape, len(seeds), self._extent
        self.groups = np.full(n, -1, dtype=np.intp)
        self.groups[seeds] = np.arange(k)
        self._taken = self.groups >= 0
        self._values, self._counts = np.zeros((k, d + 1)), np.zeros((k, d + 1))
        self._values[:, :d], self._counts[:, :d] = self._centroids.values[seeds], self._centroids.counts[seeds]
        self._counts[:, d] = 1.0
        self._inverse_width = np.zeros(d + 1)
        self._inverse_width[:d] = np.divide(1.0, extent.width, out=np.zeros(d), where=extent.varies)
        self._known = (self._counts > 0) & (self._inverse_width > 0)
        self._complete = [not (self._inverse_width[:d] > 0)[~self._known[g, :d]].any() for g in range(k)]

    def _prepare_bounds(self, n: int, k: int) -> None:
        self._measured_at = self._values.copy()
        self._shift = np.zeros(k)
        self._path = np.zeros(k)  # at least the distance of a centre from where it was when its window was measured
        self._forbidden = np.zeros((k, n), dtype=np.bool_)
        self._keys = np.full((k, n), np.inf)
        self._place = np.full((k, n), -1, dtype=np.intp)  # the place of a centroid in a group's window
        self._pools: list[tuple[IntArray, float]] = [(np.zeros(0, dtype=np.intp), -np.inf)] * k
        self._windows: list[Window] = []
        self._window_size = np.full(k, self._sizes.window)
        self._closest = [np.inf] * k

    def run(self) -> IntArray:
        """Join until no centroid is free, and return the groups."""
        for _ in range(int((self.groups < 0).sum())):
            z, g = self._next()
            self._join(z, g)
        return self.groups

    def _next(self) -> tuple[int, int]:
        """Return the closest pair; of equals the first centroid, then the first group."""
        least = min(self._closest)
        if least == np.inf:
            # with one cluster of a participant per group, a participant with at most K clusters always has a free group
            free = int((self.groups < 0).argmax())
            return free, int((~self._forbidden[:, free]).argmax())
        most = least * (1.0 + CLOSE)
        near = [g for g, distance in enumerate(self._closest) if distance <= most]
        if len(near) == 1:
            window = self._windows[near[0]]
            first = int(window.distances.argmin())
            if window.closest_but(first) > most:
                return int(window.core.members[first]), near[0]
        return self._first_of_nearly_equal(near, most)

    def _first_of_nearly_equal(self, groups: list[int], most: float) -> tuple[int, int]:
        best = (np.inf, -1, -1)
        for g in groups:
            near = np.sort(self._windows[g].core.members[self._windows[g].distances <= most])
            centroids = self._centroids.take(near)
            centre = self._values[g, None, :-1], self._counts[g, None, :-1] > 0
            exact = rescaled_distances(centroids.values, centroids.seen, *centre, self._extent, self._metric)[:, 0]
            first = int(exact.argmin())
            best = min(best, (float(exact[first]), int(near[first]), g))
        return best[1:]

    def _join(self, z: int, g: int) -> None:
        self.groups[z] = g
        self._taken[z] = True
        self._move_centre(z, g)
        forbidden = self._forbid(z, g)
        self._drop(z, g)
        window = self._windows[g]
        places = [place for place in self._place[g].take(forbidden).tolist() if place >= 0]
        if places:
            window.drop(places)
        if self._gain_features(z, g):
            self._windows[g] = self._new_window(g)
        else:
            window.distances = self._measure(g, window.core)
            window.lasted += 1
            self._check_window(g)

    def _forbid(self, z: int, g: int) -> IntArray:
        """Forbid the group to a centroid, and to all of its participant where these are separate; return which."""
        members = self._members_of[self._owner[z]] if self._separate[z] else np.array([z])
        self._forbidden[g][members] = True
        self._keys[g][members] = np.inf
        return members

    def _drop(self, z: int, joined: int) -> None:
        """Remove a centroid that has joined a group from the windows of the others."""
        self._keys[:, z] = np.inf
        for g, place in enumerate(self._place[:, z].tolist()):
            if place >= 0 and g != joined:
                self._windows[g].drop([place])
                self._check_window(g)

    def _move_centre(self, z: int, g: int) -> None:
        """Add a centroid to the mean of its group, feature by feature (eq:merge_centroids_function)."""
        values, counts, features = self._values[g], self._counts[g], self._compact.features[z]
        weight, old = self._compact.counts[z], values.take(features)
        total = counts.take(features)
        total += weight
        counts[features] = total
        step = self._compact.values[z] - old
        step *= np.divide(weight, total, out=total)
        old += step
        values[features] = old
        least = self._reaches.least[g]
        self._path[g] += np.abs(step).sum() / least if self._manhattan else sqrt(step.dot(step) / least)

    def _gain_features(self, z: int, g: int) -> bool:
        """Lower the bounds of centroids with a feature that the group did not have, if there is one; return if so."""
        if self._complete[g]:
            return False
        features = self._compact.features[z]
        new = features[~self._known[g, features]]
        new = new[new < len(self._inverse_width) - 1]
        if not len(new):
            return False
        self._measured_at[g, new] = self._values[g, new]
        self._known[g, new] = True
        self._complete[g] = bool((self._known[g] | (self._inverse_width == 0)).all())
        affected, factor = self._reaches.gain(g, new)
        bound = np.maximum(self._keys[g, affected] - self._shift[g], 0.0)
        # centroids that could not be compared before have no bound but 0
        lowered = np.where(factor > 0, bound, 0.0) * factor + self._shift[g]
        free = ~(self._forbidden[g, affected] | self._taken[affected])
        self._keys[g, affected] = np.where(free, lowered, np.inf)
        self._pools[g] = (np.zeros(0, dtype=np.intp), -np.inf)
        return True

    def _moved_in_line(self, g: int) -> float:
        """Return a looser bound than :meth:`_moved` in less time: the straight distance over all features."""
        apart = self._values[g] - self._measured_at[g]
        most = (float(np.abs(apart).sum()) if self._manhattan else float(apart.dot(apart))) / self._reaches.least[g]
        self._path[g] = min(self._path[g], most if self._manhattan else sqrt(most))
        return float(self._path[g])

    def _moved(self, g: int) -> float:
        """Return a bound of how far the centre is from where it was when the window was measured."""
        apart = np.abs(self._values[g] - self._measured_at[g])
        farthest = float((apart * self._inverse_width).max())
        if not self._manhattan:
            apart *= apart
        apart.partition(self._n_unshared)
        most = float(apart[self._n_unshared :].sum()) / self._reaches.least[g]
        self._path[g] = min(farthest, most if self._manhattan else sqrt(most))
        return float(self._path[g])

    def _start_epoch(self, g: int) -> None:
        self._measured_at[g] = self._values[g]
        self._path[g] = 0.0

    def _check_window(self, g: int) -> None:
        """Make sure that the group's closest centroid is in the core: measure the window again, or choose a new one."""
        window = self._windows[g]
        least = self._closest[g] = window.closest()
        closer = window.limit - least * (1.0 + CLOSE)
        if closer > self._path[g] or closer > self._moved_in_line(g) or closer > (moved := self._moved(g)):
            return
        window.drift += moved
        self._start_epoch(g)
        window.measured(distances := self._measure(g, window.candidates), self._shift[g] + window.drift)
        least = self._closest[g] = window.closest()
        if window.limit < np.inf and least * (1.0 + CLOSE) >= window.limit:
            self._keys[g, window.candidates.members] = distances + (self._shift[g] + window.drift)
            self._windows[g] = self._new_window(g)

    def _new_window(self, g: int) -> Window:
        """Choose a new window: the candidates that are closer than all bounds of the others, the closest of them."""
        if len(self._windows) > g:
            self._close_window(g, self._windows[g])
        self._start_epoch(g)
        size = int(self._window_size[g])
        candidates, distances, beyond = self._closest_candidates(g, size)
        inside = np.flatnonzero(distances * (1.0 + CLOSE) < beyond)
        if len(inside) > size:
            order = inside[np.argpartition(distances[inside], size)]
            next_one = float(distances[order[size]])
            if distances[order[:size]].min() * (1.0 + CLOSE) >= next_one * (1.0 - SLACK):  # they are all as close
                inside = order
            else:
                inside, beyond = order[:size], next_one
        window = Window(candidates.take(inside), beyond, self._sizes.core)
        window.measured(distances[inside], self._shift[g])
        self._place[g][window.candidates.members] = np.arange(len(inside))
        self._closest[g] = window.closest()
        return window

    def _close_window(self, g: int, window: Window) -> None:
        """Adapt the size of the next window to how long this one lasted, and bring bounds up to date."""
        if window.lasted < self._sizes.short:
            widest = max(self._sizes.window, len(self.groups) // self._sizes.widest)
            self._window_size[g] = min(2 * self._window_size[g], widest)
        elif window.lasted > self._sizes.long:
            self._window_size[g] = max(self._window_size[g] // 2, self._sizes.window)
        self._shift[g] += window.drift + self._moved(g)
        self._place[g][window.candidates.members] = -1

    def _closest_candidates(self, g: int, size: int) -> tuple[Candidates, FloatArray, float]:
        """Measure those with the lowest bounds until one is closer than ``beyond``, the lowest bound of all others."""
        pool, outside = self._pools[g]
        n_measured, pool_size = size + size // 4, self._sizes.pool * size
        while True:
            keys, n = self._keys[g, pool], min(n_measured, len(pool))
            order = np.argpartition(keys, n) if n < len(pool) else np.arange(n)
            left = float(keys[order[n]]) if n < len(pool) else np.inf
            candidates = self._shared(g, pool[order[:n]][keys[order[:n]] < np.inf])
            distances = self._measure(g, candidates)
            self._keys[g, candidates.members] = distances + self._shift[g]
            beyond = self._bound(min(left, outside), g)
            if beyond == np.inf or (distances * (1.0 + CLOSE) < beyond).any():
                return candidates, distances, beyond
            if outside <= left:
                pool, outside = self._pools[g] = self._new_pool(g, pool_size)
                pool_size *= 4
            else:
                n_measured *= 4

    def _bound(self, key: float, g: int) -> float:
        """Return the lower bound of a distance that a key stands for, less what rounding may have added to it."""
        return key if np.isinf(key) else key - self._shift[g] - SLACK * (abs(key) + self._shift[g])

    def _new_pool(self, g: int, size: int) -> tuple[IntArray, float]:
        """Return the free centroids with the lowest keys, and the lowest key of all others."""
        keys = self._keys[g]
        if size >= len(keys):
            return np.flatnonzero(keys < np.inf), np.inf
        order = np.argpartition(keys, size)
        chosen = order[:size]
        return chosen[keys[chosen] < np.inf], float(keys[order[size]])

    def _measure_all(self, g: int) -> None:
        n, width = self._compact.features.shape
        step = max(1, self._sizes.block // width)
        for top in range(0, n, step):
            block = np.arange(top, min(top + step, n))
            free = ~(self._forbidden[g, block] | self._taken[block])
            block = block[free & (self._reaches.inverse(g, block) < np.inf)]
            self._keys[g, block] = self._measure(g, self._shared(g, block))

    def _shared(self, g: int, members: IntArray) -> Candidates:
        features = self._compact.features.take(members, axis=0)
        values = self._compact.values.take(members, axis=0)
        if not self._complete[g]:
            known = self._known[g].take(features)
            values *= known
            np.copyto(features, len(self._inverse_width) - 1, where=~known)
        return Candidates(members, features, values, self._reaches.inverse(g, members))

    def _measure(self, g: int, candidates: Candidates) -> FloatArray:
        """Return rescaled distances to the group's centre, for centroids that share a feature with it."""
        apart = self._values[g].take(candidates.features)
        np.subtract(candidates.values, apart, out=apart)
        if self._manhattan:
            return np.asarray(np.abs(apart, out=apart).sum(axis=1) * candidates.inverse_reach)
        distances = np.einsum("ij,ij->i", apart, apart)
        np.sqrt(distances, out=distances)
        distances *= candidates.inverse_reach
        return np.asarray(distances)
