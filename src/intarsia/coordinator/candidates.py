"""Groupings of local centroids that rounds are started from, and the global centroids that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from intarsia.coordinator.local_clusters import Halves, LocalClusters, check_comparable_centroids
from intarsia.coordinator.members import Members
from intarsia.coordinator.settings import FederatedSettings
from intarsia.core.alignment import blend, without_own
from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.distances import Extent
from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.grouping.aggregations import AGGREGATIONS
from intarsia.core.grouping.certainty import margins, relative_gap
from intarsia.core.grouping.local_centroids import LocalCentroids, by_size
from intarsia.core.grouping.objective import DEFAULT_LIMITS, CentroidObjective
from intarsia.core.grouping.pooled import pooled_groupings, share_moved, squares_between
from intarsia.core.grouping.search import Grouping, SearchOptions
from intarsia.core.randomness import stream
from intarsia.core.robust import caps, robust_merge
from intarsia.core.types import FloatArray, IntArray
from intarsia.protocol import Centres, Refined
from intarsia.results.outcome import Aggregation

POOLED_STARTS, POOLED_WORK = 300, 200_000_000  # starts of k-means on halves; entries × clusters in all of them
NEARLY_ALL = 0.9  # entries of the centroids of a grouping
SAME = 0.02  # of the rows: two groupings that differ by less lead to the same centroids


@dataclass(frozen=True)
class Candidate:
    """One grouping of the local clusters, with margins, and the global centroids that it has led to so far.

    ``last`` is what each participant refined in the last round, with counts and misfits times the weight of its rows;
    ``merged`` the mean of all (or, if ``robust``, the median); ``misfit`` is how badly the rows fit. Centroids have weighted
    counts; ``behind`` are the numbers of values behind their entries, None if all weights are 1.
    """

    clusters: LocalClusters
    groups: IntArray
    extent: Extent
    margins: tuple[float, ...]
    aggregation: Aggregation
    centres: MaskedCentroids
    merged: MaskedCentroids | None = None
    last: Mapping[str, Refined] = field(default_factory=dict)
    misfit: float = float("nan")
    robust: bool = False
    behind: FloatArray | None = None

    def moved(
        self,
        settings: FederatedSettings,
        members: Members,
        refined: Mapping[str, Refined],
        weights: Mapping[str, float],
    ) -> Candidate:
        """Return the candidate after a round, in which a row of each participant counts with its weight."""
        last, behind = {name: reply.weighted(weights[name]) for name, reply in refined.items()}, None
        merged = merge_refined(members, last, settings.k, robust=self.robust)
        misfit = sum(reply.misfit for reply in last.values())
        if self.behind is not None or any(weights[name] != 1.0 for name in refined):
            before = self.centres.counts if self.behind is None else self.behind
            counts = merge_refined(members, refined, settings.k, robust=False).counts
            behind = np.where(counts > 0, counts, before)
        return replace(self.moved_to(settings, merged, misfit), last=last, behind=behind)

    def moved_to(self, settings: FederatedSettings, merged: MaskedCentroids, misfit: float) -> Candidate:
        """Return the candidate after a round of which only the mean over all participants is known."""
        return replace(self, centres=blend(self.centres, merged, settings.step_size), merged=merged, misfit=misfit)

    def said_before(self, members: Members, name: str) -> Refined:
        """Return what a participant would refine if its rows stayed in their local clusters, from its summary.

        Its misfit is 0 for every candidate, so that it does not decide between them.
        """
        local = self.clusters.owner == members.participants.index(name)
        groups, k = self.groups[local], len(self.centres)
        part = _features(merge(self.clusters.centroids.take(local), groups, k), members.index(name))
        sizes = np.bincount(groups, weights=self.clusters.sizes[local], minlength=k).astype(np.intp)
        return Refined(values=part.values, counts=part.counts, sizes=sizes, misfit=0.0)

    def widened(self, d: int) -> Candidate:
        """Return the candidate with more features, which latecomers have.

        Nothing is known of the extent of new features, so they do not decide on groups.
        """
        new = (0, d - len(self.extent.low))
        return replace(
            self,
            clusters=replace(self.clusters, centroids=self.clusters.centroids.wider(d)),
            extent=Extent(np.pad(self.extent.low, new), np.pad(self.extent.high, new)),
            centres=self.centres.wider(d),
            merged=None if self.merged is None else self.merged.wider(d),
            behind=None if self.behind is None else np.pad(self.behind, ((0, 0), new)),
        )

    @property
    def with_numbers(self) -> MaskedCentroids:
        """The global centroids with the numbers of values behind their entries as counts, whatever their weights."""
        return self.centres if self.behind is None else MaskedCentroids(self.centres.values, self.behind)

    def centres_for(self, members: Members, name: str, *, crosswise: bool = False) -> Centres:
        """Return the global centroids over one participant's features; crosswise, without its part in them."""
        index, extent = members.index(name), self.extent
        centres = _features(self.centres, index)
        if crosswise and self.robust and self.last.keys() - {name}:
            others = {other: refined for other, refined in self.last.items() if other != name}
            rest = _features(merge_refined(members, others, len(centres), robust=True), index)
            centres = MaskedCentroids.of(np.where(rest.seen, rest.values, centres.values), centres.counts)
        elif crosswise and self.merged is not None and name in self.last:
            part = MaskedCentroids.of(self.last[name].values, self.last[name].counts)
            centres = without_own(_features(self.merged, index), part, centres)
        return Centres(values=centres.values, known=centres.seen, low=extent.low[index], high=extent.high[index])


def _features(centroids: MaskedCentroids, index: IntArray) -> MaskedCentroids:
    return MaskedCentroids(centroids.values[:, index], centroids.counts[:, index])


def merge_refined(
    members: Members, refined: Mapping[str, Refined], n_clusters: int, *, robust: bool = False
) -> MaskedCentroids:
    """Return merge( { c_i^a, all i } ) for every a: the new centroids, before α."""
    all_values, all_counts = [], []
    for name, reply in refined.items():
        index = members.index(name)
        values, counts = np.zeros((n_clusters, len(members.space))), np.zeros((n_clusters, len(members.space)))
        values[:, index], counts[:, index] = reply.values, reply.counts
        all_values.append(values)
        all_counts.append(counts)
    centroids = MaskedCentroids.of(np.concatenate(all_values), np.concatenate(all_counts))
    return _merge(robust)(centroids, np.tile(np.arange(n_clusters), len(refined)), n_clusters)


def _merge(robust: bool) -> Callable[[MaskedCentroids, IntArray, int], MaskedCentroids]:
    return robust_merge if robust else merge


def grouped(settings: FederatedSettings, members: Members, clusters: LocalClusters) -> Grouping:
    """Return the best grouping of the local centroids in K groups."""
    local = _local(settings, clusters)
    local.check(settings.k)
    check_comparable_centroids(members, local)
    method = AGGREGATIONS[settings.aggregation].of_centroids
    assert method is not None
    generator = partial(stream, settings.seed, "coordinator", "search centroids")
    return method(local, settings.k, SearchOptions(members.masks, settings.n_starts, generator, settings.n_jobs))


def _local(settings: FederatedSettings, clusters: LocalClusters) -> LocalCentroids:
    return LocalCentroids(_capped(clusters, settings), clusters.owner, settings.metric)


def first_candidates(settings: FederatedSettings, members: Members, clusters: LocalClusters) -> tuple[Candidate, ...]:
    """Return the best grouping, and rivals that the summaries alone hardly distinguish from it."""
    local, best = _local(settings, clusters), grouped(settings, members, clusters)
    starts = [Start.of(clusters, best.groups, settings), *_fair_rivals(settings, members, clusters, best)]
    objective = CentroidObjective(local, settings.k)
    losses = (best.loss, best.runner_up, best.confidence)
    aggregation = Aggregation(
        settings.aggregation,
        *losses,
        best.n_different,
        n_compared=len(starts),
        branch=best.branch,
        unmet=dict(best.unmet),
    )
    candidates: list[Candidate] = []
    for groups, centres, behind in starts:
        decided = aggregation
        if not np.array_equal(renumber(groups), renumber(best.groups)):  # a rival, should the rows prefer it
            decided = replace(
                aggregation, loss=objective.loss(groups), runner_up=best.loss, confidence=0.0, overruled=True
            )
        clear = tuple(margins(objective, groups).tolist())
        candidate = Candidate(clusters, groups, local.extent, clear, decided, centres, robust=settings.is_robust)
        candidates.append(replace(candidate, behind=behind))
    return tuple(candidates)


class Start(NamedTuple):
    """A grouping of the local clusters, and the global centroids that rounds start from; see :class:`Candidate`."""

    groups: IntArray
    centres: MaskedCentroids
    behind: FloatArray | None

    @classmethod
    def of(cls, clusters: LocalClusters, groups: IntArray, settings: FederatedSettings) -> Start:
        """Return the merged local centroids of a grouping, the largest group first."""
        ordered = by_size(groups, clusters.weight)
        centres = _merge(settings.is_robust)(clusters.weighted, ordered, settings.k)
        return cls(ordered, centres, _behind(clusters, ordered, settings.k))

    @classmethod
    def of_halves(cls, halves: Halves, groups: IntArray, n_groups: int) -> Start:
        """Return the merged halves of a grouping; a local cluster belongs where most of its rows are.

        A group that has most rows of no local cluster gets the one with the largest share there, if that can be spared.
        """
        ordered = by_size(groups, halves.weight)
        rows = np.zeros((int(halves.half_of.max()) + 1, n_groups))
        np.add.at(rows, (halves.half_of, ordered), halves.weight)
        share, belongs = rows / rows.sum(axis=1, keepdims=True), rows.argmax(axis=1)
        for group in range(n_groups):
            if not (belongs == group).any():
                spare = np.bincount(belongs, minlength=n_groups)[belongs] > 1
                belongs[np.where(spare, share[:, group], -1.0).argmax()] = group
        return cls(belongs, merge(halves.weighted, ordered, n_groups), _behind(halves, ordered, n_groups))


def _behind(parts: LocalClusters | Halves, groups: IntArray, n_groups: int) -> FloatArray | None:
    """Return the numbers of values behind the merged centroids of each group; None if all weights are 1."""
    return None if parts.weights is None else merge(parts.centroids, groups, n_groups).counts


def _capped(clusters: LocalClusters, settings: FederatedSettings) -> MaskedCentroids:
    """Return the local centroids with the weights by which they are grouped; these are capped if the merge is robust."""
    if not settings.is_robust:
        return clusters.weighted
    weights = np.ones(len(clusters.owner)) if clusters.weights is None else clusters.weights
    first = np.unique(clusters.owner, return_index=True)[1]
    share = caps(clusters.coverage.rows * weights[first])[clusters.owner]
    return clusters.weighted.weighted(share)


def _fair_rivals(
    settings: FederatedSettings, members: Members, clusters: LocalClusters, best: Grouping
) -> tuple[Start, ...]:
    """Return the rivals of a grouping whose centroids have as many entries, or nearly as many if they are pooled.

    Centroids with fewer entries fit rows more easily, and would win for that alone. Where every two participants share a
    feature, there is no weak link that rivals of the search could turn; but another grouping may suit the rows better.
    """
    if not settings.most_rivals:
        return ()
    rivals: Iterable[Start] = (Start.of(clusters, groups, settings) for groups in best.rivals)
    needed = int(merge(clusters.weighted, best.groups, settings.k).seen.sum())
    if members.complete:
        rivals = _pooled_rivals(settings, clusters, best) if starts_pooled(settings, members) else ()
        needed = int(NEARLY_ALL * needed)  # whoever lacks the others joins in the first round
    fair = (rival for rival in rivals if int(rival.centres.seen.sum()) >= needed)
    return tuple(islice(fair, settings.most_rivals))


def starts_pooled(settings: FederatedSettings, members: Members) -> bool:
    """Whether rounds also start from groupings of halves: where participants share so much that rows can judge them."""
    able = settings.aggregation == "search" and settings.metric == "euclidean" and not settings.is_robust
    return able and settings.most_rivals > 0 and members.share_most


def _pooled_rivals(settings: FederatedSettings, clusters: LocalClusters, best: Grouping) -> Iterator[Start]:
    """Yield the different groupings of halves with the smallest sums of squares, unless they are much worse than the best.

    With clear clusters no other grouping comes close.
    """
    halves = Halves.of(clusters) if clusters.halves is None else clusters.halves
    generator = partial(stream, settings.seed, "coordinator", "pooled groupings")
    weighted = halves.weighted
    affordable = POOLED_WORK // (weighted.values.size * settings.k)
    n_starts = min(POOLED_STARTS, max(DEFAULT_LIMITS.n_random_starts, affordable))
    known = [renumber(best.groups[halves.half_of])]
    squares = squares_between(weighted, known[0], settings.k)
    for pooled in pooled_groupings(weighted, settings.k, n_starts, generator):
        near = any(share_moved(pooled.groups, other, halves.weight) < SAME for other in known)
        if not near and relative_gap(squares, pooled.squares) <= DEFAULT_LIMITS.close:
            known.append(pooled.groups)
            yield Start.of_halves(halves, pooled.groups, settings.k)
