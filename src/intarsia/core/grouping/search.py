"""Many starts instead of one heuristic: the default way to group local clusters.

A start is any grouping: Method A's, Method B's, an agglomeration's, or one grown at random along the overlap graph.
Each is improved by *rematching*: take one participant's clusters out, match them to the groups anew by the Hungarian
method (one per group while the participant has no more clusters than wanted), put them back; until nothing changes.
The best of all wins. How much worse the best *different* grouping is becomes the confidence.

Two :mod:`~intarsia.core.grouping.objective` are solved this way: centroids (eq:meta_clustering) and forces (Algorithm 2).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from intarsia.core.centroids import refill
from intarsia.core.features import cut_vertices, held_by
from intarsia.core.grouping import objective
from intarsia.core.grouping.agglomeration import agglomerate, renumber, same_owner
from intarsia.core.grouping.methods import (
    LocalCentroids,
    method_a,
    method_b,
)
from intarsia.core.grouping.objective import CentroidProblem, ForceProblem, Moving, Problem, turns_of
from intarsia.core.types import BoolArray, FloatArray, IntArray

_ENOUGH = 5  # starts in turn that end in the best grouping so far
_SEVERAL = 500  # local clusters, of more than which so many starts are
_MOST_STARTS = (
    8  # random ones, if there are many clusters: with them a search takes less than 20 times as long as Method A
)
_MAX_SWEEPS = 50
_CLOSE = 1 / 3  # a rival is at most so much worse, as a share of its own loss
_MOST_LINKS = 20  # participants whose hangers-on are turned as a whole


class SearchResult(NamedTuple):
    """The best grouping found, its loss, and how clearly it won."""

    groups: IntArray
    loss: float
    runner_up: float | None
    confidence: float
    n_different: int
    rivals: tuple[IntArray, ...] = ()


Start = Callable[[], IntArray]


def search(
    problem: Problem, starts: Iterable[IntArray | Start], overlap: BoolArray, *, n_jobs: int = 1
) -> SearchResult:
    """Improve every start by rematching and keep the lowest loss, with the runner-up's gap as a confidence.

    A grouping whose groups fall into pieces that cannot be compared is worse than any that does not: its loss does
    not see the pieces. The runner-up is the best different grouping that any start led to, or that matches one
    participant, or all that one participant holds on to the rest, in its next best way; rivals are the runners-up that are
    not much worse. Confidence is the gap to it as a share of the larger of the two losses: 0 when two
    groupings are as good, near 1 when no other comes close.

    Of more than 500 clusters the search ends when five starts in turn led to the best grouping so far; of more than
    3,000 (``objective.MANY``), only participants whose clusters are the least sure of their groups are matched otherwise.

    A start is a grouping, or makes one when called. ``n_jobs`` of them are improved at once, in threads, where that pays;
    they are looked at in their order, so that the result is the same.
    """
    found: dict[bytes, tuple[int, float, IntArray]] = {}
    many, agreed = len(problem.owner) > objective.MANY, 0
    for before, after in _improved(problem, starts, n_jobs):
        for groups in (before, after):
            if is_allowed(problem, groups) and (key := groups.tobytes()) not in found:
                found[key] = _rated(problem, groups)
        leader = min(found.values(), key=lambda entry: entry[:2], default=None)
        agreed = agreed + 1 if leader is not None and leader[2].tobytes() == after.tobytes() else 0
        if len(problem.owner) > min(_SEVERAL, objective.MANY) and agreed == _ENOUGH:
            break
    best = min(found.values(), key=lambda entry: entry[:2])
    n_different = len(found)
    unsure = _unsure(problem, best[2], _MOST_LINKS) if many else None
    others = [*neighbours(problem, best[2], unsure), *turned_blocks(problem, best[2], overlap)]
    for groups in map(renumber, others):
        if is_allowed(problem, groups):
            found.setdefault(groups.tobytes(), _rated(problem, groups))
    ranked = sorted(found.values(), key=lambda entry: entry[:2])
    pieces, loss, groups = ranked[0]
    if len(ranked) == 1:
        return SearchResult(groups, loss, None, 1.0, n_different)
    rival_pieces, runner_up, _ = ranked[1]
    confidence = _gap(loss, runner_up) if rival_pieces == pieces else 1.0
    rivals = tuple(entry[2] for entry in ranked[1:] if entry[0] == pieces and _gap(loss, entry[1]) <= _CLOSE)
    return SearchResult(groups, loss, runner_up, confidence, n_different, rivals)


def _improved(problem: Problem, starts: Iterable[IntArray | Start], n_jobs: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Every start before and after rematching, in their order, whichever is done first."""

    def improve(start: IntArray | Start) -> tuple[IntArray, IntArray]:
        groups = start() if callable(start) else start
        return renumber(groups), renumber(rematch(problem, groups))

    if n_jobs == 1 or not problem.is_wide:
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
            for left in waiting:
                left.cancel()


def _rated(problem: Problem, groups: IntArray) -> tuple[int, float, IntArray]:
    return problem.pieces(groups), problem.loss(groups), groups


def is_allowed(problem: Problem, groups: IntArray) -> bool:
    """Whether there are as many groups as wanted, and no two clusters of a participant in one (cannot-link)."""
    apart = np.bincount(problem.owner)[problem.owner] <= problem.n_groups
    places = problem.owner[apart] * (int(groups.max()) + 1) + groups[apart]
    return len(np.unique(groups)) == problem.n_groups and len(np.unique(places)) == len(places)


def rematch(problem: Problem, groups: IntArray) -> IntArray:
    """Match each participant's clusters to the groups of the others, in turn, until a sweep changes nothing."""
    groups = groups.copy()
    turns = turns_of(problem)
    best, best_loss = groups.copy(), np.inf
    for _ in range(_MAX_SWEEPS):
        before = groups.copy()
        moving = problem.moving(groups)
        for mine in turns:
            moving.take_out(mine)
            moving.put(mine, assign(moving.costs(mine), one_per_group=len(mine) <= problem.n_groups))
        _fill_empty(problem, moving)
        if (groups == before).all():
            break
        loss = moving.loss()
        if loss < best_loss:
            best, best_loss = groups.copy(), loss
    return best


def assign(costs: FloatArray, *, one_per_group: bool) -> IntArray:
    """The cheapest assignment of rows to columns: Hungarian, or each row on its own."""
    if not one_per_group:
        return np.asarray(costs.argmin(axis=1))
    _, columns = linear_sum_assignment(costs)
    return np.asarray(columns, dtype=np.intp)


def _fill_empty(problem: Problem, moving: Moving) -> None:
    """Give every empty group the worst-fitted cluster of a group that can spare one."""
    groups = moving.groups
    if len(np.unique(groups)) < problem.n_groups:
        filled = refill(groups, problem.misfit(groups), problem.n_groups)
        changed = np.flatnonzero(filled != groups)
        moving.take_out(changed)
        moving.put(changed, filled[changed])


def grow(problem: Problem, overlap: BoolArray, rng: np.random.Generator) -> IntArray:
    """A random start: visit participants along the overlap graph, matching each to the groups grown so far.

    The first has as many clusters as anyone. While there are fewer groups than wanted, a cluster may open a new one at
    a price, drawn anew for every start from what joining two clusters typically costs.
    """
    counts = np.bincount(problem.owner, minlength=len(overlap))
    groups = np.full(len(problem.owner), -1, dtype=np.intp)
    price = float(np.quantile(prices, rng.uniform(0.0, 0.5))) if len(prices := problem.opening_costs) else 0.0
    moving, members = (
        problem.moving(groups),
        dict(zip(np.unique(problem.owner).tolist(), turns_of(problem), strict=True)),
    )
    for i in _walk(overlap, counts, rng):
        mine = members[i]
        costs = moving.costs(mine)
        costs[:, np.bincount(groups[groups >= 0], minlength=problem.n_groups) == 0] = price
        moving.put(mine, assign(costs, one_per_group=len(mine) <= problem.n_groups))
    _fill_empty(problem, moving)
    return groups


def _walk(overlap: BoolArray, counts: IntArray, rng: np.random.Generator) -> list[int]:
    """Participants in random order, each sharing a feature with one before it where that is possible."""
    order = [int(rng.choice(np.flatnonzero(counts == counts.max())))]
    left, reached = counts > 0, overlap[order[0]].copy()
    left[order[0]] = False
    while left.any():
        reachable = np.flatnonzero(left & reached)
        order.append(int(rng.choice(reachable if len(reachable) else np.flatnonzero(left))))
        left[order[-1]] = False
        reached |= overlap[order[-1]]
    return order


def random_starts(
    problem: Problem, overlap: BoolArray, n_starts: int, stream: Callable[[int], np.random.Generator]
) -> Iterator[Start]:
    """``n_starts`` groupings to be grown at random, each from a generator of its own."""
    return (partial(_grow_from, problem, overlap, stream, k) for k in range(n_starts))


def _grow_from(problem: Problem, overlap: BoolArray, stream: Callable[[int], np.random.Generator], k: int) -> IntArray:
    return grow(problem, overlap, stream(k))


def tree_starts(affinity: FloatArray, owner: IntArray, n_groups: int) -> list[IntArray]:
    """Groupings by agglomeration, with and without cannot-link; they need no seeds."""
    trees = (agglomerate(affinity, rule, n_groups) for rule in (same_owner(owner, n_groups), None))
    return [tree.cut(n_groups) for tree in trees if tree.fewest_groups <= n_groups]


def search_centroids(
    local: LocalCentroids,
    n_groups: int,
    overlap: BoolArray,
    n_starts: int,
    stream: Callable[[int], np.random.Generator],
    n_jobs: int = 1,
) -> SearchResult:
    """The default solver of eq:meta_clustering: both of the paper's methods, agglomerations and random starts.

    More than ``objective.MANY`` local centroids are not agglomerated: that takes the distances of all pairs. ``n_jobs``
    starts are improved at once, −1 for as many as there are processors; the result does not depend on it.
    """
    local.check(n_groups)
    problem = CentroidProblem(local, n_groups)
    starts = [method_a(local, n_groups), method_b(local, n_groups)]
    if len(local) <= objective.MANY:
        starts += tree_starts(-local.distances, local.owner, n_groups)
    else:
        n_starts = min(n_starts, _MOST_STARTS)
    n_jobs = n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    if n_jobs > 1 and problem.is_wide:  # what all threads share, before there are any
        _ = problem.shares, problem.share_number, problem.opening_costs
    return search(problem, chain(starts, random_starts(problem, overlap, n_starts, stream)), overlap, n_jobs=n_jobs)


def search_forces(
    forces: FloatArray,
    owner: IntArray,
    n_groups: int,
    overlap: BoolArray,
    n_starts: int,
    stream: Callable[[int], np.random.Generator],
) -> SearchResult:
    """The grouping with the largest total force inside groups, from agglomerations and random starts."""
    problem = ForceProblem(forces, owner, n_groups)
    starts = tree_starts(forces, owner, n_groups)
    return search(problem, chain(starts, random_starts(problem, overlap, n_starts, stream)), overlap)


def margins(problem: Problem, groups: IntArray) -> FloatArray:
    """How clearly each local cluster belongs to its group rather than to the next best: 0 not at all, 1 beyond doubt.

    With cost c of its own group and c' of the best other, both without the cluster's own participant: 1 − c/c' for
    distances, 1 − f'/f for forces. Groups that are empty without the participant are no alternative, and a cluster whose
    own group is has no rival.
    """
    result = np.ones(len(groups))
    moving = problem.moving(groups.copy())
    for mine in turns_of(problem):
        cost, filled = _costs_without(problem, moving, groups, mine)
        for row, own in enumerate(groups[mine]):
            others = cost[row, filled & (np.arange(problem.n_groups) != own)]
            if filled[own] and len(others):
                result[mine[row]] = _gap(float(cost[row, own]), float(others.min()))
    return result


def _costs_without(problem: Problem, moving: Moving, groups: IntArray, mine: IntArray) -> tuple[FloatArray, BoolArray]:
    """What a participant's clusters would cost in every group of the others, and which groups those fill."""
    moving.take_out(mine)
    others = moving.groups
    filled = np.bincount(others[others >= 0], minlength=problem.n_groups) > 0
    costs = moving.costs(mine)
    moving.put(mine, groups[mine])
    return costs, filled


def _unsure(problem: Problem, groups: IntArray, most: int) -> list[IntArray]:
    """The clusters of each of the participants that are the least sure of where they belong."""
    clear, turns = margins(problem, groups), turns_of(problem)
    doubt = np.array([clear[mine].min() for mine in turns])
    return [turns[k] for k in np.argsort(doubt, kind="stable")[:most]]


def _gap(best: float, second: float) -> float:
    """How much worse the second is, as a share of the larger of the two."""
    scale = max(abs(best), abs(second))
    return float(np.clip((second - best) / scale, 0.0, 1.0)) if scale > 0 else 0.0


def neighbours(problem: Problem, groups: IntArray, of: Sequence[IntArray] | None = None) -> list[IntArray]:
    """For each participant (or some) the next best way to match its clusters, everything else being equal."""
    found = []
    moving = problem.moving(groups.copy())
    for mine in turns_of(problem) if of is None else of:
        one_per_group = len(mine) <= problem.n_groups
        cost, _ = _costs_without(problem, moving, groups, mine)
        best: tuple[float, IntArray] | None = None
        for row, own in enumerate(groups[mine]):
            if problem.n_groups == 1:
                continue
            barred = cost.copy()
            barred[row, own] = np.abs(cost).max() * 1e6 + 1.0
            choice = assign(barred, one_per_group=one_per_group)
            total = float(cost[np.arange(len(mine)), choice].sum())
            if choice[row] != own and (best is None or total < best[0]):
                best = (total, choice)
        if best is not None:
            other = groups.copy()
            other[mine] = best[1]
            found.append(other)
    return found


def turned_blocks(problem: Problem, groups: IntArray, overlap: BoolArray) -> list[IntArray]:
    """Groupings in which everything behind one participant is matched with the rest in another way.

    In a chain one participant with poor clusters is all that links the two sides. Each side may then be right in itself and
    wrong against the other, and no change at a single participant leads from one arrangement to another. Looked at are the
    participants whose clusters are the least sure of their groups, and what hangs on each, with it and without it.
    """
    links = cut_vertices(overlap)
    if not links or problem.n_groups == 1:
        return []
    unsure = margins(problem, groups)
    doubt = {link: unsure[problem.owner == link].min(initial=1.0) for link in links}
    weakest = sorted(doubt, key=lambda link: (doubt[link], link))[:_MOST_LINKS]
    found = []
    for link in sorted(weakest):
        for held in held_by(overlap, link):
            for block in (held, np.append(held, link)):
                found.extend(_turned(problem, groups, np.isin(problem.owner, block)))
    return found


def _turned(problem: Problem, groups: IntArray, inside: BoolArray) -> list[IntArray]:
    """The block's groups matched with those of the rest, each in turn barred from the one it has."""
    k = problem.n_groups
    mine = np.flatnonzero(inside)
    cost = problem.costs(mine, np.where(inside, -1, groups))
    total = (groups[mine][None, :] == np.arange(k)[:, None]).astype(np.float64) @ cost
    found = {}
    for own in range(k):
        barred = total.copy()
        barred[own, own] += np.abs(total).max() * 1e6 + 1.0
        turn = assign(barred, one_per_group=True)
        found[turn.tobytes()] = np.where(inside, turn[groups], groups)
    return list(found.values())
