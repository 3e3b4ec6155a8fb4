"""The table of numbers of clusters that were considered when K was chosen from all local clusters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from intarsia.coordinator.forces import Attraction, moments_of
from intarsia.coordinator.local_clusters import LocalClusters
from intarsia.coordinator.members import Members
from intarsia.core.centroids import merge
from intarsia.core.densities.base import Density
from intarsia.core.grouping.aggregations import AGGREGATIONS
from intarsia.core.grouping.n_clusters import Choice
from intarsia.core.grouping.search import SearchOptions
from intarsia.core.mixture import pooled_squares
from intarsia.core.randomness import stream
from intarsia.results.choices import ConsideredNumber

MOST = 20  # the largest number in the table, unless a larger one was chosen
_SEARCHED, _BEYOND, _STARTS = 100, 3, 4  # local clusters, numbers above the chosen one, and starts of a search
_NAN = float("nan")


def considered(
    members: Members, clusters: LocalClusters, densities: Sequence[Density], attracted: Attraction, choice: Choice
) -> tuple[ConsideredNumber, ...]:
    """Return the scores of 1, 2, … clusters.

    Confidence is that of a short search, for numbers up to a few above the chosen one, unless there are many local clusters.
    """
    tree, tried = attracted.local.tree, choice.tried
    stability = {} if tried is None else dict(enumerate(tried.stability.tolist(), 2))
    most = max(choice.n_clusters, min(MOST, max(tree.n_leaves, 1 + len(stability))))
    variances = moments_of(densities, clusters.centroids.seen, clusters.sizes).variances
    weighted = clusters.weighted
    squares = variances * weighted.counts

    def within(k: int) -> float:
        groups = tree.cut(k)
        return float(pooled_squares(weighted, squares, groups, merge(weighted, groups, k)).sum())

    def confidence(k: int) -> float:
        options = SearchOptions(members.masks, _STARTS, partial(stream, 0, "coordinator", "choices"))
        group = AGGREGATIONS["search"].of_forces
        assert group is not None
        return float(group(attracted.local, k, options).confidence)

    searched = tree.n_leaves <= _SEARCHED and tree.fewest_groups == 1
    whole = within(1) if tree.fewest_groups == 1 else _NAN
    rows = []
    for k in range(1, most + 1):
        is_cut = tree.fewest_groups <= k <= tree.n_leaves
        sure = confidence(k) if searched and is_cut and 1 < k <= choice.n_clusters + _BEYOND else _NAN
        share = within(k) / whole if is_cut and whole > 0 else _NAN
        rows.append(ConsideredNumber(k, sure, choice.silhouettes.get(k, _NAN), stability.get(k, _NAN), share))
    return tuple(rows)
