"""Groupings that a search starts from: by agglomeration, or grown at random along the overlap graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from intarsia.core.features import overlap_graph
from intarsia.core.grouping.agglomeration import agglomerate, same_owner
from intarsia.core.grouping.moves import members_of_each
from intarsia.core.grouping.objective import Objective
from intarsia.core.grouping.options import SearchOptions
from intarsia.core.grouping.rematching import assign, fill_empty
from intarsia.core.types import BoolArray, FloatArray, IntArray

Start = Callable[[], IntArray]


def tree_starts(affinity: FloatArray, owner: IntArray, n_groups: int) -> list[IntArray]:
    """Return groupings by agglomeration, with and without cannot-link; they need no seeds."""
    trees = (agglomerate(affinity, rule, n_groups) for rule in (same_owner(owner, n_groups), None))
    return [tree.cut(n_groups) for tree in trees if tree.fewest_groups <= n_groups]


def random_starts(objective: Objective, options: SearchOptions, n_starts: int) -> Iterator[Start]:
    """Return functions that grow a grouping at random, each from a generator of its own."""
    overlap = overlap_graph(options.masks)
    return (partial(_grow_from, objective, overlap, options, k) for k in range(n_starts))


def _grow_from(objective: Objective, overlap: BoolArray, options: SearchOptions, k: int) -> IntArray:
    return grow(objective, overlap, options.stream(k))


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
