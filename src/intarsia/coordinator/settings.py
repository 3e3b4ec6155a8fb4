"""The settings of both algorithms; see the estimators for their meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from intarsia.core.distances import Metric
from intarsia.protocol import MOST_SETS

MODELS = ("kmeans", "mixture")
REFINEMENTS = ("auto", "crosswise", "plain")
FORCES = ("auto", "exact", "sampled")
MOST_RIVALS = MOST_SETS - 1
MAX_LOCAL_CLUSTERS = 20  # local clusters that a participant tries at most while K is unknown


@dataclass(frozen=True)
class FederatedSettings:
    """The settings of Algorithm 1 (see :class:`intarsia.FederatedClustering`); without ``n_clusters``, K is chosen."""

    n_clusters: int | None
    aggregation: str = "search"
    n_starts: int = 30
    n_local_clusters: Mapping[str, int] | int | None = None
    scale: str | None = None
    step_size: float = 0.8
    max_rounds: int = 20
    tol: float = 1e-4
    min_points: int = 1
    local_iterations: int = 1
    refinement: str = "auto"
    n_rivals: int = 3
    model: str = "kmeans"
    metric: Metric = "euclidean"
    seed: int = 0
    n_jobs: int = 1

    @property
    def k(self) -> int:
        """The number of clusters, once it is known."""
        assert self.n_clusters is not None
        return self.n_clusters


@dataclass(frozen=True)
class OneShotSettings:
    """The settings of Algorithm 2 (see :class:`intarsia.OneShotClustering`); without ``n_clusters``, K is chosen."""

    n_clusters: int | None = None
    aggregation: str = "search"
    n_starts: int = 30
    n_local_clusters: Mapping[str, int] | int | None = None
    scale: str | None = None
    force: str = "auto"
    exponent: float = 2.0
    softening: float = 0.01
    density: str = "gaussian"
    n_proxies: int = 100
    bounding_boxes: bool = False
    fidelity: bool = False
    allow_partial: bool = False
    metric: Metric = "euclidean"
    seed: int = 0


def n_local_clusters_of(settings: FederatedSettings | OneShotSettings, name: str) -> int | None:
    """Return the number of local clusters that a participant is told to find, None if it chooses."""
    fixed = settings.n_local_clusters
    return fixed.get(name) if isinstance(fixed, Mapping) else fixed
