"""The settings of both algorithms; see the estimators for their meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from intarsia.coordinator.previous import PreviousModel
from intarsia.coordinator.weights import ROWS, factors_of, row_weights
from intarsia.core.densities.base import family_of
from intarsia.core.distances import Metric
from intarsia.core.grouping.linkages import FORCE, OF_POINTS
from intarsia.exceptions import TooFewClustersError, quote
from intarsia.protocol import MOST_LOCAL_CLUSTERS, MOST_SETS, StudyTerms
from intarsia.protocol.parts import MOST_CENTRES
from intarsia.protocol.terms import FEDERATED, GROUPED, LIKELIEST, NEAREST, ONE_SHOT, SILHOUETTE, LocalNumber

MODELS = ("kmeans", "mixture")
BY_NEAREST, BY_LOCAL = LABELS = ("nearest", "local")
REFINEMENTS = ("auto", "crosswise", "plain")
MERGES = ("mean", "robust")
FORCES = ("auto", "exact", "sampled")
MOST_RIVALS = MOST_SETS - 1
MAX_LOCAL_CLUSTERS = 20  # local clusters that a participant tries at most while K is unknown
MAX_CLUSTERS = 100  # largest K that is chosen automatically
TRIAL_ROUNDS = 4  # rounds after which candidates are compared; one where every two participants share a feature
DEVIATIONS = 2.0  # standard deviations that a density reaches from its mean, where there are no points
NUMBER_DENSITY = "gaussian_diagonal"  # of local clusters from which K is chosen before rounds


@dataclass(frozen=True, kw_only=True)
class WeightSettings:
    """The weights of columns in distances, and of participants in everything that is merged, in both algorithms."""

    feature_weights: Mapping[str, float] | None = None
    participant_weights: Mapping[str, float] | str = ROWS
    metric: Metric = "euclidean"

    @property
    def factors(self) -> dict[str, float]:
        """What differences of columns in common units are multiplied by."""
        return factors_of(self.feature_weights or {}, self.metric)

    def row_weights(self, n_rows: Mapping[str, int]) -> dict[str, float]:
        """Return what a row of each participant counts."""
        return row_weights(self.participant_weights, n_rows)


@dataclass(frozen=True)
class FederatedSettings(WeightSettings):
    """The settings of Algorithm 1 (see :class:`intarsia.FederatedClustering`); without ``n_clusters``, K is chosen."""

    n_clusters: int | None
    aggregation: str = "search"
    n_starts: int = 30
    n_local_clusters: Mapping[str, LocalNumber] | LocalNumber = None
    scale: str | None = None
    step_size: float = 0.8
    max_rounds: int = 5
    tol: float = 1e-3
    min_points: int = 1
    local_iterations: int = 1
    refinement: str = "auto"
    n_rivals: int = 3
    merge: str = "mean"
    model: str = "kmeans"
    stability: bool = False
    seed: int = 0
    n_jobs: int = 1
    previous: PreviousModel | None = None
    repeats: bool = False

    @property
    def may_repeat(self) -> bool:
        """Whether a run of the study may start from a previous model, also if this one does not."""
        return self.repeats or self.previous is not None

    @property
    def is_robust(self) -> bool:
        """Whether a single participant must not move centroids far."""
        return self.merge == "robust"

    @property
    def k(self) -> int:
        """The number of clusters, once it is known."""
        assert self.n_clusters is not None
        return self.n_clusters

    @property
    def most_rivals(self) -> int:
        """The largest number of rivals of the best grouping that rounds may compare it with: fewer where K is large."""
        if self.max_rounds <= 1 or self.refinement == "plain":
            return 0
        return max(0, min(self.n_rivals, MOST_CENTRES // (self.n_clusters or MAX_CLUSTERS) - 1))

    def terms(self, name: str) -> StudyTerms:
        """Return the terms for one participant: which requests it can get."""
        return StudyTerms(
            method=FEDERATED,
            n_clusters=None if self.may_repeat else self.n_clusters,
            max_clusters=self._most_clusters,
            seed=self.seed,
            scale=self.scale,
            factors=self.factors or None,
            density=NUMBER_DENSITY if self.n_clusters is None else None,
            n_local_clusters=n_local_clusters_of(self, name),
            max_local_clusters=MAX_LOCAL_CLUSTERS,
            labels_by=LIKELIEST if self.model == "mixture" else NEAREST,
            max_rounds=self.max_rounds,
            n_rivals=self.most_rivals,
            trial_rounds=min(TRIAL_ROUNDS, self.max_rounds) if self.most_rivals else 0,
            crosswise=self.refinement != "plain",
            local_iterations=self.local_iterations,
            min_points=self.min_points,
            stability=self.stability,
            halves=bool(self.most_rivals) and self.aggregation == "search",
            previous=self.may_repeat,
            tails=True,
        )

    @property
    def _most_clusters(self) -> int:
        """The largest K: clusters that are gone keep their numbers, so that a repeated study may have more than K."""
        if self.n_clusters is None:
            return MAX_CLUSTERS
        return max(MAX_CLUSTERS, 2 * self.n_clusters) if self.may_repeat else self.n_clusters


@dataclass(frozen=True)
class OneShotSettings(WeightSettings):
    """The settings of Algorithm 2 (see :class:`intarsia.OneShotClustering`); without ``n_clusters``, K is chosen."""

    n_clusters: int | None = None
    aggregation: str = "search"
    n_starts: int = 30
    n_local_clusters: Mapping[str, LocalNumber] | LocalNumber = None
    scale: str | None = None
    linkage: str = FORCE
    force: str = "auto"
    exponent: float = 2.0
    softening: float = 0.01
    deviations: float = DEVIATIONS
    density: str = "gaussian"
    shrink: bool = True
    n_proxies: int | tuple[int, int] = 100
    bounding_boxes: bool = False
    fidelity: bool = False
    allow_partial: bool = False
    labels: str = BY_NEAREST
    model: str = "kmeans"
    stability: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Turn numbers of proxies into plain ones, and bounds, which are a list in files, into a tuple."""
        n: Any = self.n_proxies
        object.__setattr__(self, "n_proxies", int(n) if isinstance(n, Integral) else tuple(map(int, n)))

    @property
    def bounds_of_proxies(self) -> tuple[int, int]:
        """The least and the largest number of points that are drawn from a density."""
        return (self.n_proxies, self.n_proxies) if isinstance(self.n_proxies, int) else self.n_proxies

    @property
    def has_exact_forces(self) -> bool:
        """Whether forces are expectations between Gaussians. Linkages between points need points, hence sampled forces."""
        possible = self.metric == "euclidean" and family_of(self.density).has_exact_force
        return self.force == "exact" or (self.force == "auto" and possible and self.linkage not in OF_POINTS)

    @property
    def n_compared(self) -> int:
        """The number of points that participants measure fidelity with, the larger bound; 0 if they do not."""
        return self.bounds_of_proxies[1] if self.fidelity else 0

    def terms(self, name: str) -> StudyTerms:
        """Return the terms for one participant: which requests it can get."""
        largest = MOST_LOCAL_CLUSTERS if self.allow_partial else MAX_CLUSTERS  # parts that cannot be compared are apart
        return StudyTerms(
            method=ONE_SHOT,
            n_clusters=self.n_clusters,
            max_clusters=largest if self.n_clusters is None or self.allow_partial else self.n_clusters,
            seed=self.seed,
            scale=self.scale,
            factors=self.factors or None,
            density=self.density,
            n_local_clusters=n_local_clusters_of(self, name),
            max_local_clusters=MAX_LOCAL_CLUSTERS,
            labels_by=GROUPED if self.labels == BY_LOCAL else LIKELIEST if self.model == "mixture" else NEAREST,
            shrink=self.shrink,
            n_proxies=self.n_compared,
            bounding_boxes=self.bounding_boxes,
            stability=self.stability,
            tails=self.labels != BY_LOCAL,
        )


def check_rows(n_clusters: int | None, n_rows: Mapping[str, int], most: Mapping[str, int]) -> None:
    """Raise a TooFewClustersError if participants with so many rows cannot have K local clusters in all."""
    if n_clusters is None or n_clusters <= (total := sum(most.values())):
        return
    each = quote([f"{name} ({rows} rows: {most[name]})" for name, rows in n_rows.items()])
    raise TooFewClustersError(
        f"{n_clusters} global clusters were requested, but all participants together can have at most {total} local "
        f"clusters: {each}. Hint: ask for at most {total} clusters, or for more local ones (n_local_clusters)."
    )


def most_local_clusters(n_rows: int, fixed: LocalNumber, *, any_size: bool = False) -> int:
    """Return how many local clusters a participant can have: of two rows each unless their number is fixed.

    ``any_size`` says that they may have single rows, as those of another clusterer than the built-in one may.
    """
    if isinstance(fixed, int):
        return min(fixed, n_rows)
    return n_rows if any_size else max(1, n_rows - 1 if fixed == SILHOUETTE else n_rows // 2)


def n_local_clusters_of(settings: FederatedSettings | OneShotSettings, name: str) -> LocalNumber:
    """Return the number of local clusters that a participant is told to find, or how it finds it; None if it chooses."""
    fixed = settings.n_local_clusters
    return fixed.get(name) if isinstance(fixed, Mapping) else fixed
