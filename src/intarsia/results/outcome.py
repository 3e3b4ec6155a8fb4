"""What a run returns to the coordinator: model, local clusters and the record of the run, without labels."""

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

ROUND_KINDS = ("plain", "trial", "crosswise")


@dataclass(frozen=True, eq=False)
class GlobalModel:
    """K global centroids in common units: everything that is needed to label a new row.

    Attributes
    ----------
    space : FeatureSpace
        The features, in the order of all arrays below.
    centroids : MaskedCentroids
        K centroids in common units, with the number of values behind each entry.
    extent : Extent
        The smallest and largest entry of all local centroids, by feature.
    shift, scale : array of shape (n_features,)
        Common units are (x − shift) / scale.
    metric : str or callable
        How rows are compared with centroids.
    variances, cells : array of shape (K, n_features)
        Variance of a cluster's values around its centroid, in common units, and the number of values; 0 where there is none.
    levels : dict
        The levels of every column of categories.
    units : {"standard", "minmax", "robust", None}
        How common units were found; None if every participant kept its own.
    weights : array of shape (K,), optional
        Share of the rows in each cluster. If given, a row belongs to the most likely Gaussian, not to the nearest centroid.
    """

    space: FeatureSpace
    centroids: MaskedCentroids
    extent: Extent
    shift: FloatArray
    scale: FloatArray
    metric: Metric
    variances: FloatArray
    cells: FloatArray
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    units: str | None = None
    weights: FloatArray | None = None

    @property
    def values(self) -> FloatArray:
        """Centroids in original units; NaN where no participant of the cluster has the feature."""
        return self.centroids.with_nan() * self.scale + self.shift

    def in_common_units(self, values: FloatArray, features: IntArray) -> FloatArray:
        """Return (x − shift) / scale, clipped so that squares and their sums stay finite."""
        return np.clip((values - self.shift[features]) / self.scale[features], -LARGEST, LARGEST)

    def predict(self, values: FloatArray, observed: BoolArray, features: IntArray) -> IntArray:
        """Return the nearest centroid (of a mixture, the most likely cluster) of each row over the given features.

        The label is −1 where a row has no value in a feature that any centroid knows.
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
        """Standard deviations around the centroids in original units; NaN where no participant has the feature."""
        return np.where(self.cells > 0, np.sqrt(self.variances) * self.scale, np.nan)

    def mixture(self, sizes: IntArray | FloatArray) -> Mixture:
        """Return the clusters as Gaussians in common units, weighted by ``weights`` if there are any, else by ``sizes``."""
        weights = np.asarray(sizes if self.weights is None else self.weights, dtype=np.float64)
        return mixture_of(self.centroids, self.variances, self.cells, weights)


@dataclass(frozen=True, eq=False)
class Coverage:
    """Which values exist: rows of each participant, and values of each participant and feature.

    ``Outcome.masks`` says whether a participant has a feature at all; if it does, rows without a value are missing it.
    """

    rows: IntArray
    filled: IntArray


@dataclass(frozen=True)
class LocalCluster:
    """One local cluster: its participant, its number and size, the global cluster it joined, and how clearly."""

    participant: str
    index: int
    size: int
    group: int
    margin: float


@dataclass(frozen=True)
class RoundInfo:
    """One federated round.

    Attributes
    ----------
    number : int
        1, 2, …
    movement : float
        The largest movement of a centroid, as a share of the extent.
    sizes : tuple of int
        Rows behind each centroid.
    misfit : float
        Sum of the squared distances of all rows to the nearest centroid, before the centroids moved.
    kind : {"trial", "crosswise", "plain"}
        "trial" while several groupings are compared.
    """

    number: int
    movement: float
    sizes: tuple[int, ...]
    misfit: float = float("nan")
    kind: str = "plain"


@dataclass(frozen=True)
class Aggregation:
    """How local clusters were grouped.

    Attributes
    ----------
    method : str
        The setting ``aggregation``.
    loss, runner_up : float
        Objective of the chosen grouping and of the best different one.
    confidence : float
        0 for a tie, 1 if every start found the same grouping.
    n_different : int
        Number of different groupings that the search ended in.
    n_compared : int
        Number of groupings that were compared on the rows.
    overruled : bool
        Whether a grouping with a higher loss fitted the rows better and was chosen; the confidence then has no meaning.
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
    """One exchange of requests and replies: by participant, the seconds it took, and the bytes in and out."""

    phase: str
    seconds: Mapping[str, float]
    bytes_in: Mapping[str, int]
    bytes_out: Mapping[str, int]


@dataclass(frozen=True)
class Sent:
    """One field of one type of message between the coordinator and a participant, over a whole run.

    ``message`` starts with "query." (to the participant) or "reply." (from it). ``times`` messages contained the field,
    ``withheld`` messages of that type did not. ``fewest_rows`` is the smallest number of rows behind any entry, None if it
    is unknown.
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
    """What a participant's release rules suppressed in one type of message: columns, levels, clusters or entries.

    ``most`` is the largest number in any one message.
    """

    participant: str
    message: str
    what: str
    most: int


@dataclass(frozen=True)
class RunRecord:
    """How a result was computed: settings, seed, versions, exchanges and notes. It contains no content of messages.

    Attributes
    ----------
    method, settings, seed
        What was asked for, and the seed that was used.
    versions : dict
        Versions of Python, intarsia and its libraries.
    started, seconds
        Start (ISO 8601, UTC) and duration.
    exchanges, sent, suppressed
        What was exchanged and suppressed, with sizes.
    notes : tuple of str
        Warnings and remarks about the run.
    differences : dict
        By participant, the smallest number of rows by which two of its sums differ (of successive rounds, or of all rows
        and those in clusters).
    absent : dict
        By participant, the phases of exchanges that went on without it.
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
    """What the coordinator knows after a run. It contains no labels: those stay with the participants.

    Attributes
    ----------
    model : GlobalModel
        The global centroids.
    participants : tuple of str
        Names, in the order of ``masks`` and ``coverage``.
    masks : array of shape (n_participants, n_features)
        Whether a participant has a feature.
    local_centroids, local_clusters
        The local clusters of all participants: centroids in common units, and sizes, groups and margins.
    aggregation : Aggregation
        How they were grouped.
    coverage : Coverage
        Rows of each participant, and values in each feature.
    clarity : dict
        By participant, the mean silhouette of its least clear local cluster, where it was measured.
    sizes : dict
        By participant, the number of its rows in each global cluster.
    rounds, converged
        The federated rounds, and whether the centroids came to rest.
    merge_tree, silhouettes, found, leaves
        How K was chosen: the tree of local clusters, the silhouette of every cut, the number of clusters that participants
        found in their own rows, and the leaves of the tree if they are not ``local_clusters``.
    fidelity : array of shape (n_local_clusters, 4), optional
        How close proxies of each local cluster are to its rows, where it was measured.
    strain : dict
        By participant, how far its refined centroids were outside the range of all others', in multiples of that range.
    remarks : tuple of str
        Notes for the record of the run.
    """

    model: GlobalModel
    participants: tuple[str, ...]
    masks: BoolArray
    local_centroids: MaskedCentroids
    local_clusters: tuple[LocalCluster, ...]
    aggregation: Aggregation
    coverage: Coverage
    clarity: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, IntArray] = field(default_factory=dict)
    rounds: tuple[RoundInfo, ...] = ()
    converged: bool = True
    merge_tree: MergeTree | None = None
    silhouettes: Mapping[int, float] = field(default_factory=dict)
    found: int | None = None
    leaves: tuple[LocalCluster, ...] = ()
    fidelity: FloatArray | None = None
    strain: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def tree_leaves(self) -> tuple[LocalCluster, ...]:
        """The leaves of the merge tree: the local clusters from before K was chosen if they differ, else the final ones."""
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
