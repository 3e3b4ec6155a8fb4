"""The exchange "summarize": a participant clusters its rows and describes its local clusters."""

from __future__ import annotations

import msgspec

from intarsia.protocol.densities import AnyDensity
from intarsia.protocol.layout import Columns, Moments
from intarsia.protocol.wire import Array, Exchange, Reply, Request

MOST_LOCAL_CLUSTERS = 1000  # of one participant: the coordinator compares all with all


class Summarize(Request, frozen=True, tag="query.summarize"):
    """Cluster your rows and describe the clusters.

    ``n_clusters`` is the number of global clusters, None if unknown. ``n_local_clusters`` fixes how many to look for;
    otherwise the participant chooses up to ``max_local_clusters``. Without ``columns`` it lays out its rows by its own
    levels, clusters them in units of its own (``scale``), reports in original units, and adds its moments. With
    ``n_proxies`` it measures how close so many points of each density are to the rows they stand for.
    """

    seed: int
    n_clusters: int | None
    n_local_clusters: int | None
    max_local_clusters: int
    columns: Columns | None = None
    scale: str | None = None
    density: str | None = None
    bounding_boxes: bool = False
    n_proxies: int = 0


class LocalSummary(Reply, frozen=True, tag="reply.summary"):
    """All that leaves a participant about its clusters: centroid, count per feature, size, density, box.

    ``values`` and ``counts`` are clusters × features; an entry with count 0 is hidden. ``clarity`` is the mean silhouette of
    the least clear cluster, where the participant looked at silhouettes. ``densities`` has one entry per cluster, over the
    features that the cluster sees; ``fidelity`` (clusters × 4) how close each is. ``features`` are those that the rows were
    laid out by, ``levels`` the participant's own. ``n_rows`` counts all rows, noise and rows left out too, and ``filled``
    per feature the cells that are there.
    """

    features: tuple[str, ...]
    n_rows: int
    filled: Array
    values: Array
    counts: Array
    sizes: Array
    levels: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    clarity: float | None = None
    densities: tuple[AnyDensity, ...] | None = None
    fidelity: Array | None = None
    low: Array | None = None
    high: Array | None = None
    moments: Moments | None = None


SUMMARIZE = Exchange(Summarize, LocalSummary, title="local clusters")
