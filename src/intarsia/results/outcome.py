"""What a run returns to the coordinator: model, local clusters and the record of the run, without labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import LARGEST, Extent, Metric, choose_centre, distances_by_width
from intarsia.core.features import FeatureSpace
from intarsia.core.grouping.agglomeration import MergeTree
from intarsia.core.mixture import Mixture, Spread, likeliest, mixture_from, spread_of
from intarsia.core.odd_columns import OddColumn
from intarsia.core.tails import is_none, limits_of_rows, thresholds, widened
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.results.choices import ConsideredNumber
from intarsia.results.privacy import PrivacyAccount
from intarsia.results.repeat import Repeat
from intarsia.results.secure import SecureTotals
from intarsia.results.stability import Stability

ROUND_KINDS = ("plain", "trial", "crosswise")
LONGEST_NAME = 60  # characters in the name of a cluster


def called(cluster: int, name: str | None) -> str:
    """Return what a text calls a cluster.

    >>> called(0, None), called(1, "mild")
    ('cluster 0', 'cluster 1 (mild)')
    """
    return f"cluster {cluster} ({name})" if name else f"cluster {cluster}"


def problem_of_names(names: Sequence[str], n_clusters: int) -> str | None:
    """Return what is wrong with the names of clusters, one for each, empty for one without; None if all is right."""
    given = [name for name in names if name]
    if names and len(names) != n_clusters:
        return "there must be one name for each cluster"
    if not all(map(str.isprintable, given)):
        return "names of clusters must be texts in one line"
    if max(map(len, given), default=0) > LONGEST_NAME:
        return f"names of clusters have at most {LONGEST_NAME} characters"
    return None


@dataclass(frozen=True, eq=False)
class GlobalModel:
    """K global centroids in common units: everything that is needed to label a new row.

    Common units are (x − ``shift``) / ``scale``; ``units`` says how they were found ("standard", "minmax", "robust", None).
    ``extent`` is the range of all local centroids. ``variances`` and ``cells`` are, by cluster and feature, the variance of
    the values around the centroid in common units, and their number. With ``weights``, the clusters' shares of the rows, a
    row belongs to the most likely Gaussian, not to the nearest centroid. The last ``n_joined`` features came with newcomers
    to the finished model, and do not change Gaussians over the others. ``tails`` are, by cluster, the quantiles at
    :data:`~intarsia.core.tails.LEVELS` of the rows' distances to the nearest centroid; None in files of older versions.
    ``names`` are those that a user gave to clusters, empty for one without; no names at all by default.

    A public model has no numbers of values: its counts and ``cells`` are 1 where an entry is known, its ``extent`` has the
    right width but lies around 0, and ``known_spread`` is what the numbers of values led to.
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
    tails: FloatArray | None = None
    n_joined: int = 0
    names: tuple[str, ...] = ()
    known_spread: Spread | None = None

    @property
    def named(self) -> dict[int, str]:
        """The names of clusters by number, for those that have one."""
        return {k: name for k, name in enumerate(self.names) if name}

    def called(self, cluster: int) -> str:
        """Return what a text calls a cluster: its number, with its name if it has one."""
        return called(cluster, self.named.get(cluster))

    @property
    def values(self) -> FloatArray:
        """Centroids in original units; NaN where no participant of the cluster has the feature."""
        return self.centroids.with_nan() * self.scale + self.shift

    def in_common_units(self, values: FloatArray, features: IntArray) -> FloatArray:
        """Return (x − shift) / scale, clipped so that squares and their sums stay finite."""
        return np.clip((values - self.shift[features]) / self.scale[features], -LARGEST, LARGEST)

    def predict(
        self, values: FloatArray, observed: BoolArray, features: IntArray, none_beyond: float | None = None
    ) -> IntArray:
        """Return the nearest centroid (of a mixture, the most likely cluster) of each row over the given features.

        The label is −1 where a row has no value in a feature that any centroid knows, and, with ``none_beyond``, where it is
        farther from every centroid than that share of the centroid's rows.
        """
        rows = self.in_common_units(values, features)
        if self.weights is not None:
            mixture = self.mixture(self.weights).on(features)
            labels = likeliest(mixture, rows, observed, self.extent.varies[features])
            if none_beyond is None:
                return labels
        distances = self._distances(rows, observed, features)
        if self.weights is None:
            labels = choose_centre(distances, observed, self.centroids.seen[:, features])
        if none_beyond is None or self.tails is None:
            return labels
        comparable = ~np.isnan(distances).all(axis=1)  # a row with constant features only is like all others
        limits = thresholds(self.tails, none_beyond)
        far = np.flatnonzero(comparable & is_none(distances, limits))
        if self.metric == "euclidean":  # others have no Gaussian limits
            complete = np.zeros((len(far), len(self.space)), dtype=np.bool_)
            complete[:, features] = observed[far]
            far = far[is_none(distances[far], self._widened(limits, complete, none_beyond))]
        labels[far] = -1
        return labels

    def _widened(self, limits: FloatArray, observed: BoolArray, share: float) -> FloatArray:
        """Return the limits of rows, which may lack columns; from what a public model has, too."""
        variances = self.spread.squares * np.square(self.spread.width)
        of_rows, of_whole_rows = (
            limits_of_rows(rows, self.centroids, variances, self.extent, share)
            for rows in (observed, np.ones((1, len(self.space)), dtype=np.bool_))
        )
        return widened(limits, of_rows, of_whole_rows)

    def distances(self, values: FloatArray, observed: BoolArray, features: IntArray) -> FloatArray:
        """Return rescaled distances, rows × clusters; NaN where a row and a centroid have no varying feature in common."""
        return self._distances(self.in_common_units(values, features), observed, features)

    def _distances(self, rows: FloatArray, observed: BoolArray, features: IntArray) -> FloatArray:
        known, extent = self.centroids.seen[:, features], Extent(self.extent.low[features], self.extent.high[features])
        centres = self.centroids.values[:, features]
        return distances_by_width(rows, observed, centres, known, extent, self.metric)

    @property
    def spread(self) -> Spread:
        """The spread of the clusters, and the mean of each feature over all of them, in common units."""
        if self.known_spread is not None:
            return self.known_spread
        return spread_of(self.centroids, self.variances, self.cells, self.n_joined)

    @property
    def deviations(self) -> FloatArray:
        """Standard deviations around the centroids in original units; NaN where no participant has the feature."""
        return np.where(self.cells > 0, np.sqrt(self.variances) * self.scale, np.nan)

    def mixture(self, sizes: IntArray | FloatArray) -> Mixture:
        """Return the clusters as Gaussians in common units, weighted by ``weights`` if there are any, else by ``sizes``."""
        weights = np.asarray(sizes if self.weights is None else self.weights, dtype=np.float64)
        return mixture_from(self.centroids, self.spread, weights)


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

    ``movement`` is the largest movement of a centroid as a share of the extent, ``sizes`` the rows behind each centroid,
    ``misfit`` the sum of squared distances of all rows to the nearest centroid before the movement. ``kind`` is one of
    ROUND_KINDS; "trial" rounds compare several groupings.
    """

    number: int
    movement: float
    sizes: tuple[int, ...]
    misfit: float = float("nan")
    kind: str = "plain"


@dataclass(frozen=True)
class Aggregation:
    """How local clusters were grouped.

    ``loss`` and ``runner_up`` are the objectives of the chosen grouping and of the best different one. ``confidence`` is the
    difference of the two as a share of the larger: 0 for a tie, 1 if there was no other grouping. ``n_compared`` groupings
    were compared on the rows; ``overruled`` if one with a higher loss fitted them better, in which case the confidence has
    no meaning. ``branch`` is the method that ``"paper"`` chose; ``unmet`` are the conditions of the paper's methods that do
    not hold, with the number of clusters (1.3 and 3: of local clusters); see :mod:`intarsia.core.grouping.paper`.
    """

    method: str
    loss: float
    runner_up: float | None
    confidence: float
    n_different: int
    n_compared: int = 1
    overruled: bool = False
    branch: str | None = None
    unmet: Mapping[str, int] = field(default_factory=dict)

    @property
    def grouped_by(self) -> str:
        """The method that grouped the local clusters: the branch, if there is one."""
        return self.branch or self.method

    @property
    def is_supported(self) -> bool:
        """Whether all conditions of the paper hold for the method that grouped: Assumption 1 for A, 2 and 3 for B."""
        needed = "1" if self.grouped_by == "method_a" else "23"
        return not any(condition.startswith(tuple(needed)) for condition in self.unmet)


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
    """That a participant's release policy changed or suppressed something; how much, only the participant knows.

    Files of older versions say what (columns, levels, clusters or entries), and the largest number in any one message.
    """

    participant: str
    message: str
    what: str
    most: int


@dataclass(frozen=True)
class RunRecord:
    """How a result was computed: settings, seed, versions, exchanges and notes. It contains no content of messages.

    ``differences`` are, by participant, the smallest number of rows by which two of its sums differ (of successive rounds,
    or of all rows and those in clusters). ``audited`` are, by participant, the smallest number of rows in any group whose
    sums follow from all that it told, 1 if it did not audit that. ``absent`` are, by participant, the phases that went on
    without it. ``joined`` are the participants that joined the finished model, and when each began to.
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
    audited: Mapping[str, int] = field(default_factory=dict)
    absent: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joined: Mapping[str, str] = field(default_factory=dict)

    def with_newcomers(self, late: RunRecord, names: Iterable[str]) -> RunRecord:
        """Return the record with that of the run by which participants joined the model."""
        return replace(
            self,
            seconds=self.seconds + late.seconds,
            exchanges=(*self.exchanges, *late.exchanges),
            sent=(*self.sent, *late.sent),
            notes=(*self.notes, *(note for note in late.notes if note not in self.notes)),
            suppressed=(*self.suppressed, *late.suppressed),
            differences={**self.differences, **late.differences},
            audited={**self.audited, **late.audited},
            absent={**self.absent, **late.absent},
            joined={**self.joined, **dict.fromkeys(names, late.started)},
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the coordinator knows after a run. It contains no labels: those stay with the participants.

    ``masks`` (participants × features) says who has which feature. ``clarity`` is the mean silhouette of each participant's
    least clear local cluster, ``sizes`` the rows of each participant in each cluster. If K was chosen, there are a
    ``merge_tree``, the ``silhouettes`` of its cuts, the number of clusters that participants ``found`` in their rows,
    ``choices`` with the scores of each number, and its ``leaves`` unless they are the ``local_clusters``. ``fidelity`` says
    how close proxies are to rows, ``strain`` how far refined centroids of each participant were outside the range of all
    others, in multiples of it. ``doubts`` are, by participant, amounts by which its replies contradict each other, and by
    which it moved centroids; see :mod:`intarsia.results.doubts`. ``stability`` says how surely clusters come back, where
    that was measured.
    ``odd_columns`` are those that a participant seems to have in other units, None in files of older versions. ``privacy``
    says what was spent in a private study, in which all other numbers are noisy or follow from noisy ones. ``secure`` says
    what was learned as totals only, in a study with secure sums; ``sizes`` are those of the first summaries then.
    ``row_weights`` are, by participant, what each of its rows counts in centroids and spreads; empty if all count 1.
    ``repeat`` says what became of the clusters of the previous model, in a run that started from one.
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
    choices: tuple[ConsideredNumber, ...] = ()
    fidelity: FloatArray | None = None
    strain: Mapping[str, float] = field(default_factory=dict)
    doubts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    stability: Stability | None = None
    odd_columns: tuple[OddColumn, ...] | None = None
    privacy: PrivacyAccount | None = None
    secure: SecureTotals | None = None
    repeat: Repeat | None = None
    row_weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def weighted_sizes(self) -> FloatArray:
        """The weighted rows of all participants in each cluster."""
        weights = self.row_weights
        sizes = (np.asarray(each) * weights.get(name, 1.0) for name, each in self.sizes.items())
        return np.asarray(sum(sizes, np.zeros(len(self.model.centroids))))

    @property
    def total_sizes(self) -> IntArray:
        """The rows of all participants in each cluster."""
        if self.secure is not None:
            return np.array(self.secure.sizes, dtype=np.intp)
        return np.asarray(sum(self.sizes.values(), np.zeros(len(self.model.centroids), dtype=np.intp)))

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
