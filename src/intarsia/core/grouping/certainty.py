"""How certain a grouping is: the margin of each local cluster, and the groupings next to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intarsia.core.features import components_without, cut_vertices
from intarsia.core.grouping.objective import Moves, Objective, members_of_each
from intarsia.core.grouping.starts import assign_without
from intarsia.core.types import BoolArray, FloatArray, IntArray

DOUBTFUL = 0.1  # margin below which the group of a local cluster is doubtful


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


def rivals_of(objective: Objective, groups: IntArray, masks: BoolArray) -> list[IntArray]:
    """Return the groupings that match one participant, or all that one participant connects, in another way.

    With many clusters, only the participants whose clusters are the least certain of their groups are matched otherwise.
    """
    limits, participants = objective.limits, members_of_each(objective.owner)
    if len(objective.owner) > limits.many:
        clear = margins(objective, groups)
        least = np.array([clear[members].min() for members in participants])
        participants = [participants[k] for k in np.argsort(least, kind="stable")[: limits.n_doubtful]]
    return [*neighbours(objective, groups, participants), *turned_blocks(objective, groups, masks)]


def neighbours(objective: Objective, groups: IntArray, participants: Sequence[IntArray]) -> list[IntArray]:
    """Return for each participant, given by its clusters, the next best way to match them, all else being equal."""
    if objective.n_groups == 1:
        return []
    others = []
    moves = objective.moves(groups.copy())
    for members in participants:
        one_per_group = len(members) <= objective.n_groups
        cost, _ = costs_without(objective, moves, groups, members)
        best: tuple[float, IntArray] | None = None
        for row, group in enumerate(groups[members]):
            choice = assign_without(cost, row, group, one_per_group=one_per_group)
            total = float(cost[np.arange(len(members)), choice].sum())
            if choice[row] != group and (best is None or total < best[0]):
                best = (total, choice)
        if best is not None:
            other = groups.copy()
            other[members] = best[1]
            others.append(other)
    return others


def turned_blocks(objective: Objective, groups: IntArray, masks: BoolArray) -> list[IntArray]:
    """Return groupings in which all participants behind one are matched with the rest in another way.

    In a chain one participant with poor clusters is all that links the two sides. Each side may then be right in itself and
    wrong against the other, and no change at a single participant leads from one arrangement to another. Tried are the
    linking participants whose clusters are the least certain of their groups, and each side of them, with and without them.
    """
    links = cut_vertices(masks)
    if not links or objective.n_groups == 1:
        return []
    clear = margins(objective, groups)
    least = {link: clear[objective.owner == link].min(initial=1.0) for link in links}
    weakest = sorted(least, key=lambda link: (least[link], link))[: objective.limits.n_doubtful]
    return [
        other
        for link in sorted(weakest)
        for side in components_without(masks, link)
        for block in (side, np.append(side, link))
        for other in _turned(objective, groups, np.isin(objective.owner, block))
    ]


def _turned(objective: Objective, groups: IntArray, inside: BoolArray) -> list[IntArray]:
    """Return the block's groups matched with those of the rest, each in turn without the match that it has."""
    k = objective.n_groups
    members = np.flatnonzero(inside)
    cost = objective.costs(members, np.where(inside, -1, groups))
    total = (groups[members][None, :] == np.arange(k)[:, None]).astype(np.float64) @ cost
    turned = {}
    for group in range(k):
        turn = assign_without(total, group, group, one_per_group=True)
        turned[turn.tobytes()] = np.where(inside, turn[groups], groups)
    return list(turned.values())
