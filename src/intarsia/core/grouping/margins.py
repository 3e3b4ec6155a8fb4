"""How clearly each local cluster belongs to its group."""

from __future__ import annotations

import numpy as np

from intarsia.core.grouping.moves import Moves, members_of_each
from intarsia.core.grouping.objective import Objective
from intarsia.core.types import BoolArray, FloatArray, IntArray


def margins(objective: Objective, groups: IntArray) -> FloatArray:
    """Return how clearly each local cluster belongs to its group rather than to the next best: 0 not at all, 1 surely.

    With cost c of its group and c' of the best other, both without the cluster's participant: 1 − c/c' for distances,
    1 − f'/f for forces. Groups that are empty without the participant are no alternative, and a cluster whose group is
    empty without it has no alternative.
    """
    result = np.ones(len(groups))
    moves = objective.moves(groups.copy())
    for members in members_of_each(objective.owner):
        cost, filled = costs_without(objective, moves, groups, members)
        for row, group in enumerate(groups[members]):
            others = cost[row, filled & (np.arange(objective.n_groups) != group)]
            if filled[group] and len(others):
                result[members[row]] = relative_gap(float(cost[row, group]), float(others.min()))
    return result


def costs_without(
    objective: Objective, moves: Moves, groups: IntArray, members: IntArray
) -> tuple[FloatArray, BoolArray]:
    """Return the costs of a participant's clusters in the groups of the others, and which groups the others fill."""
    moves.take_out(members)
    filled = np.bincount(moves.groups[moves.groups >= 0], minlength=objective.n_groups) > 0
    costs = moves.costs(members)
    moves.put(members, groups[members])
    return costs, filled


def relative_gap(best: float, second: float) -> float:
    """Return how much worse the second loss is, as a share of the larger of the two."""
    scale = max(abs(best), abs(second))
    return float(np.clip((second - best) / scale, 0.0, 1.0)) if scale > 0 else 0.0
