"""A search from many starts instead of one heuristic: the default way to group local clusters.

A start is any grouping: Method A's, Method B's, an agglomeration's, or one grown at random along the overlap graph.
Each is improved by :func:`~intarsia.core.grouping.starts.rematch`. The best of all wins. How much worse the best *different*
grouping is becomes the confidence.

Two objectives are searched this way: that of centroids (eq:meta_clustering) and that of forces (Algorithm 2).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from intarsia.core.grouping.agglomeration import LocalForces, renumber
from intarsia.core.grouping.certainty import relative_gap, rivals_of
from intarsia.core.grouping.local_centroids import LocalCentroids
from intarsia.core.grouping.method_a import method_a
from intarsia.core.grouping.method_b import method_b
from intarsia.core.grouping.objective import DEFAULT_LIMITS, CentroidObjective, ForceObjective, Objective, SearchLimits
from intarsia.core.grouping.starts import Start, random_starts, rematch, tree_starts
from intarsia.core.types import BoolArray, IntArray


class SearchOptions(NamedTuple):
    """What a search needs besides the local clusters.

    ``masks`` has the features of each participant, ``stream(k)`` is the generator of random start k, and ``n_jobs`` starts
    are improved at once (−1: one per processor), which does not change the result.
    """

    masks: BoolArray
    n_starts: int
    stream: Callable[[int], np.random.Generator]
    n_jobs: int = 1
    limits: SearchLimits = DEFAULT_LIMITS


class Grouping(NamedTuple):
    """The group of every local cluster, the loss, and how clearly this grouping won.

    A method that tries one grouping only has no runner-up, and a confidence of NaN. ``n_different`` groupings were reached
    from all starts. ``rivals`` are other groupings that are not much worse. ``branch`` is the method that
    ``aggregation="paper"`` chose, and ``unmet`` the conditions of the paper's methods that do not hold, with the number of
    groups or local clusters; see :mod:`intarsia.core.grouping.paper`.
    """

    groups: IntArray
    loss: float
    runner_up: float | None = None
    confidence: float = float("nan")
    n_different: int = 1
    rivals: tuple[IntArray, ...] = ()
    branch: str | None = None
    unmet: Mapping[str, int] = MappingProxyType({})


def search_centroids(local: LocalCentroids, n_groups: int, options: SearchOptions) -> Grouping:
    """Return the best grouping by eq:meta_clustering, from both of the paper's methods, agglomerations and random starts.

    With many local centroids there are no agglomerations, which take the distances of all pairs, and few random starts.
    """
    local.check(n_groups)
    objective = CentroidObjective(local, n_groups, options.limits)
    starts, n_random = [method_a(local, n_groups), method_b(local, n_groups)], options.n_starts
    if len(local) <= options.limits.many:
        starts += tree_starts(-local.distances, local.owner, n_groups)
    else:
        n_random = min(n_random, options.limits.n_random_starts)
    n_jobs = options.n_jobs if options.n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + options.n_jobs)
    if n_jobs > 1 and objective.is_wide:  # compute what all threads share before there are any
        _ = objective.shares, objective.opening_costs
    return search(
        objective,
        chain(starts, random_starts(objective, options.masks, options.stream, n_random)),
        options.masks,
        n_jobs=n_jobs,
    )


def search_forces(local: LocalForces, n_groups: int, options: SearchOptions) -> Grouping:
    """Return the grouping with the largest total force inside groups, from agglomerations and random starts."""
    objective = ForceObjective(local.forces, local.owner, n_groups, options.limits)
    starts = tree_starts(local.forces, local.owner, n_groups, local.weights)
    return search(
        objective,
        chain(starts, random_starts(objective, options.masks, options.stream, options.n_starts)),
        options.masks,
    )


class _Rated(NamedTuple):
    """A grouping with its rank: fewer excess components first, then a lower loss."""

    excess: int
    loss: float
    groups: IntArray

    @property
    def rank(self) -> tuple[int, float]:
        return self.excess, self.loss


def search(objective: Objective, starts: Iterable[IntArray | Start], masks: BoolArray, *, n_jobs: int = 1) -> Grouping:
    """Improve every start by rematching and return the grouping with the lowest loss, with a confidence.

    A grouping with groups that fall into components that cannot be compared is worse than any without: its loss does not
    see the components. The runner-up is the best different grouping that a start led to or that is next to the best;
    rivals are the runners-up that are not much worse. The confidence is the lead over the runner-up as a share of the
    larger of the two losses: 0 when two groupings are as good, near 1 when no other comes close.

    With several clusters the search ends when some starts in turn led to the best grouping so far.

    A start is a grouping, or a function that returns one. ``n_jobs`` of them are improved at once, in threads, where that
    pays; they are evaluated in their order, so that the result is the same.
    """
    limits, rated = objective.limits, dict[bytes, _Rated]()
    ends_early, n_agreeing = len(objective.owner) > min(limits.several, limits.many), 0
    for before, after in _improved(objective, starts, n_jobs):
        for groups in (before, after):
            _rate(objective, groups, rated)
        leader = min(rated.values(), key=lambda entry: entry.rank, default=None)
        n_agreeing = n_agreeing + 1 if leader is not None and (leader.groups == after).all() else 0
        if ends_early and n_agreeing == limits.n_agreeing:
            break
    best = min(rated.values(), key=lambda entry: entry.rank)
    n_different = len(rated)
    for groups in rivals_of(objective, best.groups, masks):
        _rate(objective, renumber(groups), rated)
    best, *others = sorted(rated.values(), key=lambda entry: entry.rank)
    if not others:
        return Grouping(best.groups, best.loss, None, 1.0, n_different)
    confidence = relative_gap(best.loss, others[0].loss) if others[0].excess == best.excess else 1.0
    rivals = tuple(
        other.groups
        for other in others
        if other.excess == best.excess and relative_gap(best.loss, other.loss) <= limits.close
    )
    return Grouping(best.groups, best.loss, others[0].loss, confidence, n_different, rivals)


def _rate(objective: Objective, groups: IntArray, rated: dict[bytes, _Rated]) -> None:
    """Add a grouping to those that are rated, if it is allowed and new."""
    if is_allowed(objective, groups) and (key := groups.tobytes()) not in rated:
        rated[key] = _Rated(objective.excess_components(groups), objective.loss(groups), groups)


def is_allowed(objective: Objective, groups: IntArray) -> bool:
    """Whether there are as many groups as requested, and no two clusters of a participant in one (cannot-link)."""
    separate = np.bincount(objective.owner)[objective.owner] <= objective.n_groups
    places = objective.owner[separate] * (int(groups.max()) + 1) + groups[separate]
    return len(np.unique(groups)) == objective.n_groups and len(np.unique(places)) == len(places)


def _improved(
    objective: Objective, starts: Iterable[IntArray | Start], n_jobs: int
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield every start before and after rematching, in their order, whichever is done first."""

    def improve(start: IntArray | Start) -> tuple[IntArray, IntArray]:
        groups = start() if callable(start) else start
        return renumber(groups), renumber(rematch(objective, groups))

    if n_jobs == 1 or not objective.is_wide:
        yield from map(improve, starts)
        return
    with ThreadPoolExecutor(n_jobs) as pool:
        waiting: deque[Future[tuple[IntArray, IntArray]]] = deque()
        try:
            for start in starts:
                waiting.append(pool.submit(improve, start))
                if len(waiting) > n_jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
