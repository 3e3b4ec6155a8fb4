"""The registry of aggregation methods: how local clusters are grouped into global ones.

A method that groups local centroids serves Algorithm 1 (federated), one that groups by forces Algorithm 2 (one-shot); it may
do both. To add one, write its function in a file of its own and add a line here. The algorithms, the settings of the
estimators, study files and the words of the report follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from intarsia.core.grouping.agglomeration import LocalForces
from intarsia.core.grouping.local_centroids import LocalCentroids
from intarsia.core.grouping.objective import ForceObjective
from intarsia.core.grouping.paper import as_printed, by_method_a, by_method_b
from intarsia.core.grouping.search import Grouping, SearchOptions, search_centroids, search_forces

GroupCentroids = Callable[[LocalCentroids, int, SearchOptions], Grouping]
GroupForces = Callable[[LocalForces, int, SearchOptions], Grouping]


@dataclass(frozen=True)
class Aggregation:
    """One aggregation method: its name in sentences, and how it groups local centroids, or local clusters by forces.

    ``separates`` says that a method by forces keeps clusters of one participant in different groups where it can, and
    ``needs_connection`` that it can only group clusters which forces connect.
    """

    words: str
    of_centroids: GroupCentroids | None = None
    of_forces: GroupForces | None = None
    separates: bool = False
    needs_connection: bool = False


def greedy(local: LocalForces, n_groups: int, _: SearchOptions) -> Grouping:
    """Return the cut of the paper's merge tree (Algorithm 2)."""
    groups = local.tree.cut(n_groups)
    return Grouping(groups, ForceObjective(local.forces, local.owner, n_groups).loss(groups))


AGGREGATIONS: dict[str, Aggregation] = {
    "search": Aggregation(
        "a search from many starts", search_centroids, search_forces, separates=True, needs_connection=True
    ),
    "paper": Aggregation("Method A or Method B", as_printed),
    "method_a": Aggregation("Method A", by_method_a),
    "method_b": Aggregation("Method B", by_method_b),
    "greedy": Aggregation("greedy agglomeration", of_forces=greedy),
}


def centroid_methods() -> tuple[str, ...]:
    """Return the names of the methods that group local centroids."""
    return tuple(name for name, method in AGGREGATIONS.items() if method.of_centroids is not None)


def force_methods() -> tuple[str, ...]:
    """Return the names of the methods that group local clusters by forces."""
    return tuple(name for name, method in AGGREGATIONS.items() if method.of_forces is not None)
