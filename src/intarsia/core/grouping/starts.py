"""Groupings that a search starts from, by agglomeration or grown at random, and how it improves them by *rematching*."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy.optimize import linear_sum_assignment

from intarsia.core.centroids import refill
from intarsia.core.features import overlap_graph
from intarsia.core.grouping.agglomeration import agglomerate, same_owner
from intarsia.core.grouping.objective import Moves, Objective, members_of_each
from intarsia.core.types import BoolArray, FloatArray, IntArray

Start = Callable[[], IntArray]


def tree_starts(
    affinity: FloatArray, owner: IntArray, n_groups: int, weights: FloatArray | None = None
) -> list[IntArray]:
    """Return groupings by agglomeration, with and without cannot-link; they need no seeds."""
    trees = (agglomerate(affinity, rule, n_groups, weights) for rule in (same_owner(owner, n_groups), None))
    return [tree.cut(n_groups) for tree in trees if tree.fewest_groups <= n_groups]


def random_starts(
    objective: Objective, masks: BoolArray, stream: Callable[[int], np.random.Generator], n_starts: int
) -> Iterator[Start]:
    """Return functions that grow a grouping at random, each from a generator of its own."""
    overlap = overlap_graph(masks)

    def start(k: int) -> IntArray:
        return grow(objective, overlap, stream(k))

    return (partial(start, k) for k in range(n_starts))


def grow(objective: Objective, overlap: BoolArray, rng: np.random.Generator) -> IntArray:
    """Return a random grouping: visit participants along the overlap graph, matching each to the groups grown so far.

    The first is one of those with the most clusters. While there are fewer groups than requested, a cluster may open a new
    one at a price, drawn anew for every start from the typical costs of joining two clusters.
    """
    counts = np.bincount(objective.owner, minlength=len(overlap))
    groups = np.full(len(objective.owner), -1, dtype=np.intp)
    price = float(np.quantile(prices, rng.uniform(0.0, 0.5))) if len(prices := objective.opening_costs) else 0.0
    moves = objective.moves(groups)
    members_of = dict(zip(np.unique(objective.owner).tolist(), members_of_each(objective.owner), strict=True))
    for participant in _walk(overlap, counts, rng):
        members = members_of[participant]
        costs = moves.costs(members)
        costs[:, np.bincount(groups[groups >= 0], minlength=objective.n_groups) == 0] = price
        moves.put(members, assign(costs, one_per_group=len(members) <= objective.n_groups))
    fill_empty(objective, moves)
    return groups


def _walk(overlap: BoolArray, counts: IntArray, rng: np.random.Generator) -> list[int]:
    """Return participants in random order, each sharing a feature with one before it where that is possible."""
    order = [int(rng.choice(np.flatnonzero(counts == counts.max())))]
    unvisited, reached = counts > 0, overlap[order[0]].copy()
    unvisited[order[0]] = False
    while unvisited.any():
        reachable = np.flatnonzero(unvisited & reached)
        order.append(int(rng.choice(reachable if len(reachable) else np.flatnonzero(unvisited))))
        unvisited[order[-1]] = False
        reached |= overlap[order[-1]]
    return order


def rematch(objective: Objective, groups: IntArray) -> IntArray:
    """Return the grouping after matching each participant's clusters to the groups until a sweep changes nothing."""
    groups = groups.copy()
    participants = members_of_each(objective.owner)
    best, best_loss = groups.copy(), np.inf
    for _ in range(objective.limits.max_sweeps):
        before = groups.copy()
        moves = objective.moves(groups)
        for members in participants:
            moves.take_out(members)
            moves.put(members, assign(moves.costs(members), one_per_group=len(members) <= objective.n_groups))
        fill_empty(objective, moves)
        if (groups == before).all():
            break
        loss = moves.loss()
        if loss < best_loss:
            best, best_loss = groups.copy(), loss
    return best


def assign(costs: FloatArray, *, one_per_group: bool) -> IntArray:
    """Return the cheapest assignment of rows to columns: by the Hungarian method, or for each row by itself."""
    if not one_per_group:
        return np.asarray(costs.argmin(axis=1))
    _, columns = linear_sum_assignment(costs)
    return np.asarray(columns, dtype=np.intp)


def assign_without(costs: FloatArray, row: int, column: int, *, one_per_group: bool) -> IntArray:
    """Return the cheapest assignment that does not assign this row to this column, if there is one."""
    barred = costs.copy()
    barred[row, column] += np.abs(costs).max() * 1e6 + 1.0
    return assign(barred, one_per_group=one_per_group)


def fill_empty(objective: Objective, moves: Moves) -> None:
    """Give every empty group the worst-fitted cluster of a group that can spare one."""
    groups = moves.groups
    if len(np.unique(groups)) < objective.n_groups:
        filled = refill(groups, objective.misfit(groups), objective.n_groups)
        changed = np.flatnonzero(filled != groups)
        moves.take_out(changed)
        moves.put(changed, filled[changed])
