"""What a run returns to the coordinator: no label is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import LARGEST, Extent, Metric, nearest_centre
from intarsia.core.features import FeatureSpace
from intarsia.core.grouping.agglomeration import MergeTree
from intarsia.core.mixture import Mixture, likeliest, mixture_of
from intarsia.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class GlobalModel:
    """K global centroids in common units, and how to find the nearest: all that labelling a new row needs.

    ``variances`` are those of the cluster's cells around the centroid, in common units, and ``cells`` how many stand behind
    each; the variance is 0 where there are none. ``levels`` are those of every column of categories, and ``units``
    how common units were found: "standard", "minmax", "robust", or None for everybody's own. With
    ``weights``, the clusters' shares, rows belong to the likeliest of Gaussians instead of the nearest centroid.
    """

    space: FeatureSpace
    centroids: MaskedCentroids
    extent: Extent
    shift: FloatArray
    scale: FloatArray
    metric: Metric = "euclidean"
    variances: FloatArray | None = None
    cells: FloatArray | None = None
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    units: str | None = None
    weights: FloatArray | None = None

    @property
    def values(self) -> FloatArray:
        """Centroids in original units, NaN where nobody saw the feature."""
        return self.centroids.with_nan() * self.scale + self.shift

    def in_common_units(self, values: FloatArray, features: IntArray) -> FloatArray:
        """(x − shift) / scale, and no farther out than can be squared and summed."""
        return np.clip((values - self.shift[features]) / self.scale[features], -LARGEST, LARGEST)

    def predict(self, values: FloatArray, observed: BoolArray, features: IntArray) -> IntArray:
        """The nearest centroid of rows over some features; −1 where a row has no feature that any centroid knows.

        Of a mixture, the likeliest cluster.
        """
        rows = self.in_common_units(values, features)
        if self.weights is not None:
            mixture = self.mixture(self.weights).on(features)
            return likeliest(mixture, rows, observed, self.extent.varies[features])
        known = self.centroids.seen[:, features]
        extent = Extent(self.extent.low[features], self.extent.high[features])
        return nearest_centre(rows, observed, self.centroids.values[:, features], known, extent, self.metric)

    @property
    def deviations(self) -> FloatArray:
        """Standard deviations around the centroids in original units, NaN where nobody saw the feature."""
        variances, cells = self.spread
        return np.where(cells > 0, np.sqrt(variances) * self.scale, np.nan)

    @property
    def spread(self) -> tuple[FloatArray, FloatArray]:
        """Variances in common units, and how many cells stand behind each; none behind any if nobody said."""
        nothing = np.zeros(self.centroids.values.shape)
        return (nothing, nothing) if self.variances is None or self.cells is None else (self.variances, self.cells)

    def mixture(self, sizes: IntArray | FloatArray) -> Mixture:
        """The clusters as Gaussians, in common units, for clusters of these sizes, or of those that labels went by."""
        return mixture_of(self.centroids, *self.spread, np.asarray(sizes if self.weights is None else self.weights))


@dataclass(frozen=True, eq=False)
class Coverage:
    """Who has what: rows of each participant, and filled cells of each participant and feature.

    A feature that a participant does not have at all is absent, which ``Outcome.masks`` tells; in one that it has, rows
    without a filled cell are missing it.
    """

    rows: IntArray
    filled: IntArray


@dataclass(frozen=True)
class LocalCluster:
    """One local cluster: whose it is, how many rows it has, which global cluster it joined, and how clearly."""

    participant: str
    index: int
    size: int
    group: int
    margin: float


@dataclass(frozen=True)
class RoundInfo:
    """One federated round: how far the centroids moved (share of the extent), and how many rows stood behind each.

    ``misfit`` is the sum over all rows of the squared distance to the nearest centroid, before the move. ``kind`` is
    "trial" while several groupings are compared, "crosswise" or "plain" after that.
    """

    number: int
    movement: float
    sizes: tuple[int, ...]
    misfit: float = float("nan")
    kind: str = "plain"


@dataclass(frozen=True)
class Aggregation:
    """How local clusters were grouped: by what, how well, and how clearly the best grouping won.

    ``n_compared`` groupings were tried on the rows; ``overruled`` when another than the one with the lowest loss fitted the
    rows best, in which case there is no confidence left.
    """

    method: str
    loss: float
    runner_up: float | None
    confidence: float
    n_different: int
    n_compared: int = 1
    overruled: bool = False


@dataclass(frozen=True)
class Exchange:
    """One round of questions and answers: by participant, seconds it took, bytes that went there, and that came back."""

    phase: str
    seconds: Mapping[str, float]
    bytes_in: Mapping[str, int]
    bytes_out: Mapping[str, int]


@dataclass(frozen=True)
class Sent:
    """One field of one kind of message (query.… to a participant, reply.… from it) over a whole run.

    ``times`` messages held it, ``withheld`` could have and did not. ``fewest_rows`` is how few rows stand behind any of its
    entries, None where that is not known.
    """

    participant: str
    message: str
    field: str
    times: int
    withheld: int
    entries: int
    n_bytes: int
    fewest_rows: int | None = None


@dataclass(frozen=True)
class Suppressed:
    """What a participant's own rules kept back of one kind of message: columns, levels, clusters or entries of centroids.

    ``most`` is the largest number in any one message.
    """

    participant: str
    message: str
    what: str
    most: int


@dataclass(frozen=True)
class RunRecord:
    """How a result came about: settings, seed, versions, what was exchanged, and what a colleague would mention.

    Nothing of what was in the messages is kept. ``differences`` are, by participant, the fewest rows by which two of its
    sums differ that belong together (successive rounds; all rows and those in clusters). ``absent`` are, by participant, the
    exchanges that went on without it.
    """

    method: str
    settings: Mapping[str, Any]
    seed: int
    versions: Mapping[str, str]
    started: str
    seconds: float
    exchanges: tuple[Exchange, ...] = ()
    sent: tuple[Sent, ...] = ()
    notes: tuple[str, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    differences: Mapping[str, int] = field(default_factory=dict)
    absent: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the coordinator knows at the end. No label is in it: those stay with the participants.

    ``clarity`` is the mean silhouette of each participant's least clear local cluster, where it was looked at, and
    ``silhouettes`` that of every cut of the merge tree where K was chosen, ``found`` how many clusters participants found by
    themselves then, and ``fidelity`` how close proxies of each local cluster are to its rows, where that was measured.
    ``strain`` is, by participant, how far outside everybody else's its refined centroids were in any round, in multiples of
    what those reach.
    """

    model: GlobalModel
    participants: tuple[str, ...]
    masks: BoolArray
    local_centroids: MaskedCentroids
    local_clusters: tuple[LocalCluster, ...]
    aggregation: Aggregation
    clarity: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, IntArray] = field(default_factory=dict)
    rounds: tuple[RoundInfo, ...] = ()
    converged: bool = True
    merge_tree: MergeTree | None = None
    silhouettes: Mapping[int, float] = field(default_factory=dict)
    found: int | None = None
    leaves: tuple[LocalCluster, ...] = ()
    coverage: Coverage | None = None
    fidelity: FloatArray | None = None
    strain: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()  # for the record of the run, which is where they are kept

    @property
    def tree_leaves(self) -> tuple[LocalCluster, ...]:
        """The local clusters that the merge tree is of: those from before K was known, if there were such."""
        return self.leaves or self.local_clusters

    @property
    def groups(self) -> IntArray:
        """The global cluster of each local one."""
        return np.array([cluster.group for cluster in self.local_clusters], dtype=np.intp)

    @property
    def owner(self) -> IntArray:
        """The position of each local cluster's participant in ``participants``."""
        position = {name: k for k, name in enumerate(self.participants)}
        return np.array([position[cluster.participant] for cluster in self.local_clusters], dtype=np.intp)
