r"""Always join the closest pair of a free centroid and a group, without looking at all pairs (Method A's loop).

A group's centre c moves a little with every merge. Where no feature is gained, the triangle inequality bounds what that
does to any rescaled distance, whatever features M a centroid shares with the group:

.. math:: |d(z, c) - d(z, c')| \le \varphi(M c, M c') \,/\, \varphi(M \max S, M \min S) \le \max_m |c_m - c'_m| \,/\, w_m

with the width w of S. So an old distance less the shifts since then is a lower bound. As M holds no more than so many
features, and S reaches no less than so far over them, the largest so many steps over that reach are another bound of a
shift. ``keys[g, z]`` is a distance plus the shifts of g up to when it was measured; less those up to now it is that bound,
and its order never changes by itself. After each of its merges a group measures only its *core* anew: the few that were
closest when it last measured its *window*, which are the few hundred with the lowest bounds when it last looked around.
It measures more when the closest of the core is no longer closer than all bounds outside.

Where a group gains features F, a sum of terms that are not negative grows at most by more such terms: with the reach R of
the features in M, the bound shrinks by (R / (R + R_F)) to the power 1/2 (Euclidean) or 1 (Manhattan), and for those who
see F only. Distances that could decide are compared as the printed loop computes them, to the last digit.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent, rescaled_distances
from intarsia.core.types import BoolArray, FloatArray, IntArray

METRICS = ("euclidean", "manhattan")
_CORE = 128  # centroids that are measured after every merge
_WINDOW = 768  # those that are measured when these do not suffice, at least
_WIDEST = 32  # one window holds no more than one in so many, but for small ones
_SHORT, _LONG = (
    16,
    256,
)  # merges: a window that lasts shorter is followed by a larger one, one that lasts longer by a smaller
_POOL = 8  # windows among whose centroids a new one is looked for
_CLOSE = 1e-10  # relative: distances that differ by less are compared as the printed loop computes them
_SLACK = 1e-11  # relative: what rounding may do to a bound
_BLOCK = 1 << 18  # numbers in one temporary array: 2 MiB


class _Narrow:
    """Centroids by the features that they see: row z has ``values[z]`` at ``features[z]``; d stands for nothing."""

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


class _Some(NamedTuple):
    """Centroids with what it takes to measure them: features shared with the group, values, one over the reach."""

    members: IntArray
    features: IntArray
    values: FloatArray
    reach: FloatArray

    def take(self, index: IntArray) -> _Some:
        rows = (self.features.take(index, axis=0), self.values.take(index, axis=0))
        return _Some(self.members.take(index), *rows, self.reach.take(index))


class _Window:
    """The free centroids with the lowest bounds of one group.

    ``limit`` is a bound, when the window was last measured, for all that are not in the core; ``beyond`` was one for all
    that are not in the window when it was made, ``drift`` back from when it was last measured.
    """

    def __init__(self, some: _Some, beyond: float) -> None:
        self.some, self.beyond, self.drift, self.lasted = some, beyond, 0.0, 0

    def measured(self, distances: FloatArray, slack: float) -> None:
        """Choose the core by distances that are those of now."""
        outside = self.beyond - self.drift
        if len(distances) > _CORE:
            order = np.argpartition(distances, _CORE)
            chosen, next_one = order[:_CORE], float(distances[order[_CORE]])
            if distances[chosen].min() * (1.0 + _CLOSE) >= next_one * (1.0 - _SLACK):  # they are all as close
                chosen, next_one = order, np.inf
            outside = min(outside, next_one)
        else:
            chosen = np.arange(len(distances))
        self.core, self.distances = self.some.take(chosen), distances[chosen]
        self.place = np.full(len(distances), -1, dtype=np.intp)
        self.place[chosen] = np.arange(len(chosen))
        self.limit = outside if np.isinf(outside) else outside - _SLACK * (abs(outside) + slack)

    def closest(self) -> float:
        """Of the core."""
        distances = self.distances
        return float(distances[distances.argmin()]) if len(distances) else np.inf

    def next_to(self, first: int) -> float:
        """The closest of the core but for one."""
        distances = self.distances
        least = distances[first]
        distances[first] = np.inf
        second = float(distances[distances.argmin()])
        distances[first] = least
        return second

    def drop(self, places: list[int]) -> None:
        """Take somebody out: measured again, they are out of reach."""
        for at in places:
            self.some.values[at, 0] = np.inf
            inner = self.place[at]
            if inner >= 0:
                self.core.values[inner, 0] = np.inf
                self.distances[inner] = np.inf


class ClosestFirst:
    """The loop as an object: who is free, where the groups are, and what is known of the distances between them."""

    def __init__(
        self,
        centroids: MaskedCentroids,
        apart: BoolArray,
        owner: IntArray,
        extent: Extent,
        seeds: IntArray,
        metric: str,
    ) -> None:
        self._centroids, self._extent, self._metric = centroids, extent, metric
        self._manhattan = metric == "manhattan"
        n, d = centroids.values.shape
        k = len(seeds)
        self._narrow = _Narrow(centroids, extent.varies)
        self._apart = apart  # whether a centroid's participant may have no two in one group
        self._members_of = _by_owner(owner)
        self._owner = owner
        self.groups = np.full(n, -1, dtype=np.intp)
        self.groups[seeds] = np.arange(k)
        # one more feature, which nobody sees, has the value 0 everywhere
        self._values, self._counts = np.zeros((k, d + 1)), np.zeros((k, d + 1))
        self._values[:, :d], self._counts[:, :d] = centroids.values[seeds], centroids.counts[seeds]
        self._measured_at = self._values.copy()
        self._per_width = np.zeros(d + 1)
        self._per_width[:d] = np.divide(1.0, extent.width, out=np.zeros(d), where=extent.varies)
        self._counts[:, d] = 1.0
        self._known = (self._counts > 0) & (self._per_width > 0)
        self._complete = [not (self._per_width[:d] > 0)[~self._known[g, :d]].any() for g in range(k)]
        self._shift = np.zeros(k)
        self._path = np.zeros(k)  # no less than how far a centre is from where it was when its window was measured
        self._rest = (
            d + 1 - self._narrow.features.shape[1]
        )  # of all features, those that no centroid can see besides its own
        self._reaches = _Reaches(centroids.seen & extent.varies, self._known[:, :d], extent.width, metric)
        self._barred = np.zeros((k, n), dtype=np.bool_)
        self._keys = np.full((k, n), np.inf)
        self._place = np.full((k, n), -1, dtype=np.intp)  # where a centroid stands in a group's window
        self._pools: list[tuple[IntArray, float]] = [(np.zeros(0, dtype=np.intp), -np.inf)] * k
        self._windows: list[_Window] = []
        self._wanted = np.full(k, _WINDOW)
        self._closest = [np.inf] * k
        for g, seed in enumerate(seeds.tolist()):
            self._bar(seed, g)
        self._taken = np.zeros(n, dtype=np.bool_)
        self._taken[seeds] = True
        for g in range(k):
            self._measure_all(g)
            self._windows.append(self._look_around(g))

    def run(self) -> IntArray:
        """Join until nobody is free."""
        for _ in range(int((self.groups < 0).sum())):
            z, g = self._next()
            self._join(z, g)
        return self.groups

    def _next(self) -> tuple[int, int]:
        """The closest pair; of equals the first centroid, then the first group."""
        least = min(self._closest)
        if least == np.inf:
            # with one cluster of a participant per group, somebody with at most K clusters is never barred everywhere
            free = int((self.groups < 0).argmax())
            return free, int((~self._barred[:, free]).argmax())
        most = least * (1.0 + _CLOSE)
        near = [g for g, distance in enumerate(self._closest) if distance <= most]
        if len(near) == 1:
            window = self._windows[near[0]]
            first = int(window.distances.argmin())
            if window.next_to(first) > most:
                return int(window.core.members[first]), near[0]
        return self._first_of_nearly_equal(near, most)

    def _first_of_nearly_equal(self, groups: list[int], most: float) -> tuple[int, int]:
        best = (np.inf, -1, -1)
        for g in groups:
            near = np.sort(self._windows[g].core.members[self._windows[g].distances <= most])
            own = self._centroids.take(near)
            centre = self._values[g, None, :-1], self._counts[g, None, :-1] > 0
            exact = rescaled_distances(own.values, own.seen, *centre, self._extent, self._metric)[:, 0]
            first = int(exact.argmin())
            best = min(best, (float(exact[first]), int(near[first]), g))
        return best[1:]

    def _join(self, z: int, g: int) -> None:
        self.groups[z] = g
        self._taken[z] = True
        self._move(z, g)
        mates = self._bar(z, g)
        self._drop(z, g)
        window = self._windows[g]
        place = [at for at in self._place[g].take(mates).tolist() if at >= 0]
        if place:
            window.drop(place)
        if self._gain(z, g):
            self._windows[g] = self._look_around(g)
        else:
            window.distances = self._measure(g, window.core)
            window.lasted += 1
            self._settle(g)

    def _bar(self, z: int, g: int) -> IntArray:
        """Nobody of the participant may follow, if it has no more clusters than are wanted; whom that concerns."""
        mates = self._members_of[self._owner[z]] if self._apart[z] else np.array([z])
        self._barred[g][mates] = True
        self._keys[g][mates] = np.inf
        return mates

    def _drop(self, z: int, joined: int) -> None:
        """Take a centroid that has joined a group out of the windows of the others."""
        self._keys[:, z] = np.inf
        for g, place in enumerate(self._place[:, z].tolist()):
            if place >= 0 and g != joined:
                self._windows[g].drop([place])
                self._settle(g)

    def _move(self, z: int, g: int) -> None:
        """The group's centre is the mean of one more, feature by feature (eq:merge_centroids_function)."""
        values, counts, features = self._values[g], self._counts[g], self._narrow.features[z]
        weight, old = self._narrow.counts[z], values.take(features)
        total = counts.take(features)
        total += weight
        counts[features] = total
        step = self._narrow.values[z] - old
        step *= np.divide(weight, total, out=total)
        old += step
        values[features] = old
        least = self._reaches.least[g]
        self._path[g] += np.abs(step).sum() / least if self._manhattan else sqrt(step.dot(step) / least)

    def _gain(self, z: int, g: int) -> bool:
        """Lower the bounds of those who see a feature that the group did not know, if there is one."""
        if self._complete[g]:
            return False
        features = self._narrow.features[z]
        new = features[~self._known[g, features]]
        new = new[new < len(self._per_width) - 1]
        if not len(new):
            return False
        self._measured_at[g, new] = self._values[g, new]
        self._known[g, new] = True
        self._complete[g] = bool((self._known[g] | (self._per_width == 0)).all())
        concerned, factor = self._reaches.gain(g, new)
        bound = np.maximum(self._keys[g, concerned] - self._shift[g], 0.0)
        # whoever could not be compared before has no bound but 0
        lowered = np.where(factor > 0, bound, 0.0) * factor + self._shift[g]
        free = ~(self._barred[g, concerned] | self._taken[concerned])
        self._keys[g, concerned] = np.where(free, lowered, np.inf)
        self._pools[g] = (np.zeros(0, dtype=np.intp), -np.inf)
        return True

    def _straight(self, g: int) -> float:
        """A bound of :meth:`_moved` by all features, which takes less time: the way as the crow flies, not step by step."""
        apart = self._values[g] - self._measured_at[g]
        most = (float(np.abs(apart).sum()) if self._manhattan else float(apart.dot(apart))) / self._reaches.least[g]
        self._path[g] = min(self._path[g], most if self._manhattan else sqrt(most))
        return float(self._path[g])

    def _moved(self, g: int) -> float:
        """How far the centre is from where it was when the window was measured: no step of it, but all at once."""
        apart = np.abs(self._values[g] - self._measured_at[g])
        farthest = float((apart * self._per_width).max())
        if not self._manhattan:
            apart *= apart
        apart.partition(self._rest)
        most = float(apart[self._rest :].sum()) / self._reaches.least[g]
        self._path[g] = min(farthest, most if self._manhattan else sqrt(most))
        return float(self._path[g])

    def _start_epoch(self, g: int) -> None:
        self._measured_at[g] = self._values[g]
        self._path[g] = 0.0

    def _settle(self, g: int) -> None:
        """Make sure that the group's closest centroid is in the core: measure the window, or make another."""
        window = self._windows[g]
        least = self._closest[g] = window.closest()
        closer = window.limit - least * (1.0 + _CLOSE)
        if closer > self._path[g] or closer > self._straight(g) or closer > (moved := self._moved(g)):
            return
        window.drift += moved
        self._start_epoch(g)
        window.measured(distances := self._measure(g, window.some), self._shift[g] + window.drift)
        least = self._closest[g] = window.closest()
        if window.limit < np.inf and least * (1.0 + _CLOSE) >= window.limit:
            self._keys[g, window.some.members] = distances + (self._shift[g] + window.drift)
            self._windows[g] = self._look_around(g)

    def _look_around(self, g: int) -> _Window:
        """Make a new window: measure those with the lowest bounds until some are closer than the lowest bound left."""
        if len(self._windows) > g:
            lasted = self._windows[g].lasted
            if lasted < _SHORT:
                self._wanted[g] = min(2 * self._wanted[g], max(_WINDOW, len(self.groups) // _WIDEST))
            elif lasted > _LONG:
                self._wanted[g] = max(self._wanted[g] // 2, _WINDOW)
            self._shift[g] += self._windows[g].drift + self._moved(g)
            self._place[g][self._windows[g].some.members] = -1
        self._start_epoch(g)
        pool, outside = self._pools[g]
        wanted = int(self._wanted[g])
        take, size = wanted + wanted // 4, _POOL * wanted
        while True:
            keys, n = self._keys[g, pool], min(take, len(pool))
            order = np.argpartition(keys, n) if n < len(pool) else np.arange(n)
            left = float(keys[order[n]]) if n < len(pool) else np.inf
            some = self._shared(g, pool[order[:n]][keys[order[:n]] < np.inf])
            distances = self._measure(g, some)
            self._keys[g, some.members] = distances + self._shift[g]
            beyond = self._bound_left(left, outside, g)
            inside = np.flatnonzero(distances * (1.0 + _CLOSE) < beyond)
            if len(inside) or beyond == np.inf:
                break
            if outside <= left:
                pool, outside = self._pools[g] = self._new_pool(g, size)
                size *= 4
            else:
                take *= 4
        if len(inside) > wanted:
            order = inside[np.argpartition(distances[inside], wanted)]
            inside, beyond = order[:wanted], float(distances[order[wanted]])
            if distances[inside].min() * (1.0 + _CLOSE) >= beyond * (1.0 - _SLACK):  # they are all as close
                inside, beyond = order, self._bound_left(left, outside, g)
        window = _Window(some.take(inside), beyond)
        window.measured(distances[inside], self._shift[g])
        self._place[g][window.some.members] = np.arange(len(inside))
        self._closest[g] = window.closest()
        return window

    def _bound_left(self, left: float, outside: float, g: int) -> float:
        """The lowest bound of whoever was not measured, less what rounding may have added to it."""
        key = min(left, outside)
        return key if np.isinf(key) else key - self._shift[g] - _SLACK * (abs(key) + self._shift[g])

    def _new_pool(self, g: int, size: int) -> tuple[IntArray, float]:
        keys = self._keys[g]
        if size >= len(keys):
            return np.flatnonzero(keys < np.inf), np.inf
        order = np.argpartition(keys, size)
        chosen = order[:size]
        return chosen[keys[chosen] < np.inf], float(keys[order[size]])

    def _measure_all(self, g: int) -> None:
        n, width = self._narrow.features.shape
        step = max(1, _BLOCK // width)
        for top in range(0, n, step):
            some = np.arange(top, min(top + step, n))
            some = some[~(self._barred[g, some] | self._taken[some]) & (self._reaches.inverse(g, some) < np.inf)]
            self._keys[g, some] = self._measure(g, self._shared(g, some))

    def _shared(self, g: int, members: IntArray) -> _Some:
        features = self._narrow.features.take(members, axis=0)
        values = self._narrow.values.take(members, axis=0)
        if not self._complete[g]:
            known = self._known[g].take(features)
            values *= known
            np.copyto(features, len(self._per_width) - 1, where=~known)
        return _Some(members, features, values, self._reaches.inverse(g, members))

    def _measure(self, g: int, some: _Some) -> FloatArray:
        """Rescaled distances to the group's centre, for those who share a feature with it."""
        apart = self._values[g].take(some.features)
        np.subtract(some.values, apart, out=apart)
        if self._manhattan:
            return np.asarray(np.abs(apart, out=apart).sum(axis=1) * some.reach)
        distances = np.einsum("ij,ij->i", apart, apart)
        np.sqrt(distances, out=distances)
        distances *= some.reach
        return np.asarray(distances)


class _Reaches:
    """What S reaches over the features that centroids share with groups; the same for all that see the same."""

    def __init__(self, seen: BoolArray, known: BoolArray, width: FloatArray, metric: str) -> None:
        packed = np.packbits(seen, axis=1)
        _, first, self._kind = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        self._kind = self._kind.reshape(-1)
        self._sees = np.ascontiguousarray(seen[first].T)  # by feature: who sees it
        self._euclidean = metric == "euclidean"
        self._weights = np.square(width) if self._euclidean else width
        self._reach = (known * self._weights) @ self._sees
        self.least = np.zeros(len(known))  # of all who see anything that a group knows
        for g in range(len(known)):
            self._find_least(g)

    def _find_least(self, g: int) -> None:
        reach = self._reach[g]
        self.least[g] = reach.min(where=reach > 0, initial=np.inf) * (1.0 - _SLACK)

    def inverse(self, g: int, some: IntArray) -> FloatArray:
        reach = self._reach[g, self._kind[some]]
        root = np.sqrt(reach) if self._euclidean else reach
        return np.asarray(np.divide(1.0, root, out=np.full(len(root), np.inf), where=root > 0))

    def gain(self, g: int, new: IntArray) -> tuple[IntArray, FloatArray]:
        """Whom features concern that a group gains, and what is left of their bounds, 0 if there were none."""
        before = self._reach[g].copy()
        self._reach[g] += self._weights[new] @ self._sees[new]
        self._find_least(g)
        left = np.divide(before, self._reach[g], out=np.ones_like(before), where=self._reach[g] > 0)
        concerned = np.flatnonzero((left < 1.0)[self._kind])
        left = np.sqrt(left) if self._euclidean else left
        return concerned, left[self._kind[concerned]]


def _by_owner(owner: IntArray) -> list[IntArray]:
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.cumsum(np.bincount(owner))[:-1])
