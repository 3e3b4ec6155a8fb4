"""What becomes of the clusters of a previous model, judged before the first round: kept, gone, merged, split; and new ones.

A change needs evidence from rows: under the labels of the previous model they must lie where that model has none. So a
search that groups local clusters in another way than last time changes nothing by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from intarsia.coordinator.before import Before
from intarsia.coordinator.local_clusters import LocalClusters
from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.continuity import Gaps, Rows, gaps, nearest, weight_of
from intarsia.core.distances import Metric, rescaled_distances
from intarsia.core.mixture import pooled_squares
from intarsia.core.types import BoolArray, FloatArray, IntArray

UNCHANGED = 0.01  # share by which numbers of values and sums of squares may differ in tables that are as they were
NEW_RMS, NEW_ALONG = 0.7, 3.0  # deviations: a new cluster is farther from every old one than this, in both measures
APART = 4.0  # deviations between the two parts of a cluster that was split; halves of one cloud are 2.7 apart
_CONFIRMED = 0.4  # share of the squares that a new cluster implies, by which sums of squares must have grown
_NO_ROWS, _FEW_ROWS = 0.1, 0.5  # shares of the rows of a cluster, below which it is gone, or may be
_MORE_GROUPS = 2  # that are tried if local clusters are far from all old ones, and no group consists of such
_FEWEST_FAR = 0.01  # share of all values in local clusters that are far: fewer are no reason to try
_SHARE = 0.1  # of the rows of a cluster, which each part of it has at least


@dataclass(frozen=True, eq=False)
class Plan:
    """The clusters that rounds start from, at the places of their numbers; those that are gone have no entries.

    ``merged`` and ``origin`` name, by number, the cluster that one was merged with, and the one that a new one was split
    from. ``unchanged`` says that the tables are as they were.
    """

    before: Before
    centres: MaskedCentroids
    groups: IntArray
    merged: Mapping[int, int] = field(default_factory=dict)
    origin: Mapping[int, int] = field(default_factory=dict)
    unchanged: bool = False

    @property
    def n_before(self) -> int:
        """The number of clusters of the previous model, including those that are gone."""
        return len(self.before.centroids)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What local clusters and rows show of the clusters of the previous model.

    ``group(n)`` groups the local clusters, ``variances`` are those within them, if they are known. ``wanted`` is the number
    of clusters that was asked for, None if it is chosen; ``chosen`` the number that the local clusters show.
    """

    before: Before
    clusters: LocalClusters
    rows: Rows
    group: Callable[[int], IntArray]
    metric: Metric
    chosen: int
    wanted: int | None = None
    variances: FloatArray | None = None

    @cached_property
    def gaps(self) -> Gaps:
        """The distances of local clusters from the old ones."""
        return gaps(self.clusters.centroids, self.before.centroids, self.before.spread)

    @cached_property
    def far(self) -> BoolArray:
        """Which local clusters are far from every old one."""
        return self.gaps.far(NEW_RMS, NEW_ALONG, self.before.live)

    @cached_property
    def near(self) -> IntArray:
        """The old cluster that each local one is nearest to; −1 if it shares nothing with any."""
        return nearest(self.distances(self.clusters.centroids), self.before.live)

    @cached_property
    def weight(self) -> FloatArray:
        """The number of values of each local cluster."""
        return np.asarray(self.clusters.centroids.counts.sum(axis=1))

    def distances(self, points: MaskedCentroids) -> FloatArray:
        """Return the distances of points from the old clusters, as rows are compared with them."""
        old = self.before.centroids
        return rescaled_distances(points.values, points.seen, old.values, old.seen, self.before.extent, self.metric)

    def confirmed(self, inside: BoolArray) -> bool:
        """Whether rows under the old labels lie where these local clusters say that they do."""
        inside = inside & (self.near >= 0)
        points, near = self.clusters.centroids.take(inside), self.near[inside]
        old, spread = self.before.centroids.take(near), self.before.spread[near]
        both = points.seen & old.seen & (spread > 0)
        squares = np.where(both, points.counts * np.square(points.values - old.values), 0.0)
        implied = (squares / np.where(spread > 0, spread, 1.0)).sum()
        grown = self.rows.excess(self.before.spread)[np.unique(near)].sum()
        return bool(grown >= _CONFIRMED * implied > 0)

    def new_groups(self, groups: IntArray) -> list[int]:
        """Return the groups that consist of far local clusters, the largest first."""
        new = []
        for group in np.unique(groups):
            inside = groups == group
            if self.weight[inside & self.far].sum() > self.weight[inside].sum() / 2 and self.confirmed(inside):
                new.append(int(group))
        return sorted(new, key=lambda group: -self.weight[groups == group].sum())

    def grouped(self) -> tuple[IntArray, list[int]]:
        """Return a grouping of the local clusters, and which groups are new clusters."""
        groups = self.group(self.chosen)
        new = self.new_groups(groups)
        if new or self.weight[self.far].sum() <= _FEWEST_FAR * self.weight.sum():
            return groups, new
        for more in range(1, _MORE_GROUPS + 1):
            others = self.group(self.chosen + more)
            if new := self.new_groups(others):
                return others, new
        return groups, []

    def gone(self, new: BoolArray) -> BoolArray:
        """Return which old clusters have no rows any more; ``new`` are local clusters of new clusters.

        A few rows at the border of another cluster may still be nearest to a centroid whose rows are gone. No local cluster
        is there then.
        """
        old = self.before.centroids
        here = np.zeros(len(old))
        away = np.zeros(len(old))
        for z in np.flatnonzero(self.near >= 0):
            k = self.near[z]
            side = away if new[z] else here
            side[k] += self.clusters.centroids.counts[z, old.seen[k]].sum()
        before, now = weight_of(self.before.cells, old.seen), weight_of(self.rows.counts, old.seen)
        expected = before * min(1.0, now.sum() / max(before.sum(), 1.0))
        rest = now - away
        few = (rest < _NO_ROWS * expected) | ((here < _NO_ROWS * expected) & (rest < _FEW_ROWS * expected))
        gone = self.before.live & few
        return gone if new.any() or not gone[self.before.live].all() else np.zeros_like(gone)


def planned(evidence: Evidence) -> Plan:
    """Return the clusters that rounds start from."""
    before, rows = evidence.before, evidence.rows
    old, live = before.centroids, before.live
    n_live = int(live.sum())
    k_fits = evidence.wanted in {None, n_live} and not before.new_columns
    if k_fits and rows.same_as_before(before.spread, UNCHANGED):
        return Plan(before, old, _assigned(evidence, old), unchanged=True)
    groups, new = evidence.grouped()
    centres = merge(evidence.clusters.centroids, groups, int(groups.max()) + 1)
    kept = live & ~evidence.gone(np.isin(groups, new))
    values, counts = old.values.copy(), old.counts.copy()
    if evidence.wanted is not None:
        new = new[: max(0, evidence.wanted - int(kept.sum()))]
    merged = _merged(evidence, centres, kept)
    kept[list(merged)] = False
    parts = _parts(evidence, groups, centres, kept, new)
    added = [*new, *parts]
    origin = {len(old) + len(new) + i: k for i, k in enumerate(parts.values())}
    counts[~kept] = 0.0
    start = MaskedCentroids.of(np.vstack([values, centres.values[added]]), np.vstack([counts, centres.counts[added]]))
    return Plan(before, start, _assigned(evidence, start), merged, origin)


def _assigned(evidence: Evidence, centres: MaskedCentroids) -> IntArray:
    """Return the cluster that each local cluster is nearest to."""
    points, extent = evidence.clusters.centroids, evidence.before.extent
    distance = rescaled_distances(points.values, points.seen, centres.values, centres.seen, extent, evidence.metric)
    return np.maximum(nearest(distance, _known(centres)), 0)


def _known(centres: MaskedCentroids) -> BoolArray:
    return np.asarray(centres.seen.any(axis=1))


def _merged(evidence: Evidence, centres: MaskedCentroids, kept: BoolArray) -> dict[int, int]:
    """Return the old clusters that are merged, each with the cluster that it joins.

    If K is chosen, no group is nearest to such a cluster, and its rows have moved towards the other one. If K was given and
    is smaller, the clusters without a group, or the smallest, are merged with their nearest.
    """
    old = evidence.before.centroids
    way = evidence.distances(old)
    at = nearest(evidence.distances(centres), kept)
    weight = weight_of(evidence.rows.counts, old.seen)
    without = sorted(np.flatnonzero(kept & ~np.isin(np.arange(len(old)), at)).tolist(), key=lambda k: weight[k])
    merged: dict[int, int] = {}
    if evidence.wanted is not None:
        smallest = sorted(set(np.flatnonzero(kept).tolist()) - set(without), key=lambda k: weight[k])
        candidates = [*without, *smallest][: max(0, int(kept.sum()) - evidence.wanted)]
    else:
        candidates = without
    for k in candidates:
        others = kept.copy()
        others[[k, *merged]] = False
        if not others.any():
            break
        other = int(nearest(way[[k]], others)[0])
        if other < 0:
            continue
        step = np.where(old.seen[k] & old.seen[other], old.values[other] - old.values[k], 0.0)
        if evidence.wanted is None:
            moved = evidence.rows.excess_towards(k, step) >= np.square(step).sum() / 16  # half the way to the middle
            if not moved or evidence.chosen >= int(kept.sum()) - len(merged):
                continue
        merged[k] = other
    return merged


def _parts(
    evidence: Evidence, groups: IntArray, centres: MaskedCentroids, kept: BoolArray, new: list[int]
) -> dict[int, int]:
    """Return the groups that are new parts of old clusters, each with the cluster that it was a part of."""
    at = nearest(evidence.distances(centres), kept)
    weight = np.bincount(groups, weights=evidence.weight, minlength=len(centres))
    distance = evidence.distances(centres)
    extra: dict[int, int] = {}
    for k in np.flatnonzero(kept):
        inside = [g for g in np.flatnonzero(at == k).tolist() if g not in new]
        main = min(inside, key=lambda g: distance[g, k], default=None)
        rest = sorted((g for g in inside if g != main), key=lambda g: -weight[g])
        extra |= {
            g: int(k)
            for g in rest
            if evidence.wanted is not None or _is_apart(evidence, groups, centres, (g, main, int(k)))
        }
    if evidence.wanted is None:
        return extra
    missing = evidence.wanted - max(int(evidence.before.live.sum()), int(kept.sum()) + len(new))
    return dict(sorted(extra.items(), key=lambda item: -weight[item[0]])[: max(0, missing)])


def _is_apart(
    evidence: Evidence, groups: IntArray, centres: MaskedCentroids, which: tuple[int, int | None, int]
) -> bool:
    """Whether a group is clearly apart from the main part of an old cluster, and its rows were not so before."""
    group, main, k = which
    if main is None or evidence.variances is None:
        return False
    points = evidence.clusters.centroids
    squares = pooled_squares(points, evidence.variances * points.counts, groups, centres)
    variances = squares / np.maximum(centres.counts, 1.0)
    pair = np.array([group, main])
    spread = np.maximum(variances[pair].mean(axis=0), 1e-12)[None]
    gap = gaps(centres.take(pair[:1]), centres.take(pair[1:]), spread)
    weight = np.bincount(groups, weights=evidence.weight, minlength=len(centres))[pair]
    if not (gap.along[0, 0] > APART and gap.rms[0, 0] > 1.0 and weight.min() > _SHARE * weight.sum()):
        return False
    step = np.where(centres.seen[pair].all(axis=0), centres.values[group] - centres.values[main], 0.0)
    share = weight.min() / weight.sum()
    return bool(evidence.rows.excess_towards(k, step) >= share * (1 - share) * np.square(step).sum() / 2)
