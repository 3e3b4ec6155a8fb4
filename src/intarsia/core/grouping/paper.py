"""Lines 4 to 10 of Algorithm 1: which of Methods A and B groups the local centroids, by the assumptions that hold.

The assumptions are about true clusters and rows, which the coordinator does not have. They are tested on the groups that a
method gives (``docs/decisions/0034-the-paper-exactly.md``):

====  ======================================================================================================
1.1   the participants of a group are connected by shared features
1.2   together, the local centroids of a group have all features
1.3   equal distributions, by what follows for centroids: each one is nearer to every comparable one of its own
      group than to any comparable one of another group
2.1   every two participants of a group share a feature
2.2   as 1.2
3     pure local clusters, by what follows for centroids: none fits another group nearly as well as its own
====  ======================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from intarsia.core.blocks import by_rows
from intarsia.core.distances import distances_to_centres
from intarsia.core.features import is_complete, is_connected
from intarsia.core.grouping.certainty import DOUBTFUL, margins
from intarsia.core.grouping.local_centroids import LocalCentroids, objective
from intarsia.core.grouping.method_a import method_a
from intarsia.core.grouping.method_b import method_b
from intarsia.core.grouping.objective import CentroidObjective
from intarsia.core.grouping.search import Grouping, SearchOptions
from intarsia.core.types import BoolArray, FloatArray, IntArray

CONDITIONS = ("1.1", "1.2", "1.3", "2.1", "2.2", "3")
MOST_PAIRS = 1 << 24  # of local centroids that item 1.3 is tested on: up to 4,096 centroids, all
_FEWEST_CHECKED = 100
_UNCLEAR = 1e-6  # distances by matrix products are off by less


def as_printed(local: LocalCentroids, n_groups: int, options: SearchOptions) -> Grouping:
    """Return Method A's groups if Assumption 1 holds for them, else Method B's; ``unmet`` says what does not hold."""
    by_a = by_method_a(local, n_groups, options)
    if not by_a.unmet:
        return by_a._replace(branch="method_a")
    by_b = by_method_b(local, n_groups, options)
    return by_b._replace(branch="method_b", unmet={**by_a.unmet, **by_b.unmet})


def by_method_a(local: LocalCentroids, n_groups: int, options: SearchOptions) -> Grouping:
    """Return the groups of Method A, and in ``unmet`` what of Assumption 1 does not hold for them."""
    groups = method_a(local, n_groups)
    return _one_grouping(local, groups, n_groups, unmet_1(local, groups, options.masks))


def by_method_b(local: LocalCentroids, n_groups: int, options: SearchOptions) -> Grouping:
    """Return the groups of Method B, and in ``unmet`` what of Assumptions 2 and 3 does not hold for them."""
    groups = method_b(local, n_groups)
    return _one_grouping(local, groups, n_groups, unmet_2_and_3(local, groups, n_groups, options.masks))


def _one_grouping(local: LocalCentroids, groups: IntArray, n_groups: int, unmet: dict[str, int]) -> Grouping:
    """Return the only grouping that was tried: without a runner-up, hence without a confidence."""
    return Grouping(groups, objective(local, groups, n_groups), unmet=unmet)


def unmet_1(local: LocalCentroids, groups: IntArray, masks: BoolArray) -> dict[str, int]:
    """Return the items of Assumption 1 that do not hold, with the number of groups (1.3: of local centroids)."""
    return _positive(
        {
            "1.1": _n_apart(local, groups, masks, is_connected),
            "1.2": _n_bare(local, groups),
            "1.3": n_nearer_to_others(local, groups),
        }
    )


def unmet_2_and_3(local: LocalCentroids, groups: IntArray, n_groups: int, masks: BoolArray) -> dict[str, int]:
    """Return what of Assumptions 2 and 3 does not hold, with the number of groups (3: of local centroids)."""
    mixed = margins(CentroidObjective(local, n_groups), groups) < DOUBTFUL
    return _positive(
        {
            "2.1": _n_apart(local, groups, masks, is_complete),
            "2.2": _n_bare(local, groups),
            "3": int(mixed.sum()),
        }
    )


def _positive(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _n_apart(local: LocalCentroids, groups: IntArray, masks: BoolArray, linked: Callable[[BoolArray], bool]) -> int:
    """Return the number of groups whose participants are not linked by shared features."""
    return sum(not linked(masks[np.unique(local.owner[groups == g])]) for g in np.unique(groups))


def _n_bare(local: LocalCentroids, groups: IntArray) -> int:
    """Return the number of groups whose local centroids do not have all features together."""
    return sum(not local.centroids.seen[groups == g].any(axis=0).all() for g in np.unique(groups))


def n_nearer_to_others(local: LocalCentroids, groups: IntArray, most_pairs: int = MOST_PAIRS) -> int:
    """Return how many local centroids are not nearer to all comparable ones of their group than to any of another group.

    Where these are more than ``most_pairs`` pairs, some local centroids, evenly spaced, are tested against all.
    """
    n, count = len(local), 0
    n_checked = min(n, max(_FEWEST_CHECKED, most_pairs // n))
    checked = np.linspace(0, n - 1, n_checked).astype(np.intp)
    centroids = local.centroids
    for block in by_rows(len(checked), n):
        z = checked[block]
        rows = centroids.take(z)
        quick = distances_to_centres(
            rows.values, rows.seen, centroids.values, centroids.seen, local.extent, local.metric
        )
        farthest, nearest = _farthest_own_and_nearest_other(quick, groups, z)
        unclear = np.flatnonzero(np.abs(nearest - farthest) <= _UNCLEAR)
        if len(unclear):
            exact = local.distances_to(centroids, z[unclear])
            farthest[unclear], nearest[unclear] = _farthest_own_and_nearest_other(exact, groups, z[unclear])
        count += int((farthest >= nearest).sum())
    return count


def _farthest_own_and_nearest_other(
    distances: FloatArray, groups: IntArray, z: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return for local centroids z the largest distance within their group, and the smallest to another (±∞ if none)."""
    own, comparable = groups[z][:, None] == groups[None, :], ~np.isnan(distances)
    comparable[np.arange(len(z)), z] = False
    farthest = np.where(own & comparable, distances, -np.inf).max(axis=1)
    nearest = np.where(~own & comparable, distances, np.inf).min(axis=1)
    return farthest, nearest
