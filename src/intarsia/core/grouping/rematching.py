"""Improving a grouping by *rematching*: match one participant's clusters to the groups of the others, in turn."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from intarsia.core.centroids import refill
from intarsia.core.grouping.moves import Moves, members_of_each
from intarsia.core.grouping.objective import Objective
from intarsia.core.types import FloatArray, IntArray


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
