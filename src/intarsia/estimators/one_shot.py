"""OneShotClustering: Algorithm 2 as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intarsia.coordinator import Algorithm, OneShotAlgorithm
from intarsia.coordinator.one_shot import AGGREGATIONS, FORCES
from intarsia.core.densities.gaussian import DENSITIES
from intarsia.core.distances import Metric
from intarsia.estimators.base import TableClusterer
from intarsia.estimators.settings import check_integer, check_one_of, check_real
from intarsia.exceptions import SettingError


class OneShotClustering(TableClusterer):
    """Algorithm 2: participants send a density of each local cluster once; forces between them decide who belongs together.

    Parameters
    ----------
    n_clusters : int, or "auto" or None
        K. ``"auto"`` and None: as in :class:`FederatedClustering`, still in one round.
    aggregation : {"search", "greedy"}
        ``"greedy"`` is the paper's agglomeration. The default searches for the largest total force inside groups from many
        starts, agglomerations among them, with at most one cluster of a participant in a group while it has no more than K.
    force : {"auto", "exact", "sampled"}
        The expected force between two densities, or the mean over ``n_proxies`` points drawn from each (the paper's). An
        exact one needs Gaussians and the Euclidean metric; ``"auto"`` takes it wherever there is one.
    exponent : float
        w: how fast the force falls off with distance.
    softening : float
        s in (d² + s²)^(−w/2), as a share of the extent. The default, 0.01, is far below the distances between clusters, so
        that it changes no ranking, and keeps the force finite where clusters share no more than w features.
    density : {"gaussian", "gaussian_full", "gaussian_low_rank", "gaussian_diagonal", "dirichlet", "discrete"}
        What is fitted to a local cluster. ``"gaussian"`` is as rich as the points allow (parameters at most a third of
        them): the full covariance, a diagonal with a few directions that features share, or the diagonal. ``"dirichlet"``
        is for rows of shares that add up to the same total, ``"discrete"`` for codes and categories. Correlations and the
        variances of small clusters are shrunk.
    n_proxies : int
        Points drawn from each density where forces are sampled, or fidelity is measured.
    bounding_boxes : bool
        Whether participants send the box around each cluster, so that proxies stay inside. A box shows the extreme values.
    fidelity : bool
        Whether participants measure how close proxies are to the rows they stand for; see ``result.fidelity``.
    local, n_local_clusters, metric, scale, missing, n_starts, random_state, release, n_jobs
        As in :class:`FederatedClustering`; the local algorithm need not start from given centres. With ``scale``, each
        participant clusters in its own units and the coordinator brings the summaries to common ones: still one round.
        With K unknown a participant looks for up to 20 clusters, and takes as many as have clearly higher silhouettes than
        a single Gaussian cloud of the same shape would. Numbers that were given do not bound K.
    allow_partial : bool
        Accept participants that share no feature with the others. The answer then has as many groups as cannot be compared,
        if that is more than K.

    Attributes
    ----------
    labels_, centroids_, counts_, feature_names_in_, confidence_, result_
        As in :class:`FederatedClustering`. ``result_.outcome.merge_tree`` holds every Q_k of the paper's agglomeration, and
        ``result_.outcome.silhouettes`` the curve over K.
    """

    method = "one_shot"

    def __init__(
        self,
        n_clusters: int | str | None = None,
        *,
        aggregation: str = "search",
        force: str = "auto",
        exponent: float = 2.0,
        softening: float = 0.01,
        density: str = "gaussian",
        n_proxies: int = 100,
        bounding_boxes: bool = False,
        fidelity: bool = False,
        local: Any = None,
        n_local_clusters: Any = None,
        metric: Metric = "euclidean",
        scale: str | None = "auto",
        missing: Any = "observed",
        n_starts: int = 30,
        allow_partial: bool = False,
        random_state: Any = None,
        release: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.aggregation = aggregation
        self.force = force
        self.exponent = exponent
        self.softening = softening
        self.density = density
        self.n_proxies = n_proxies
        self.bounding_boxes = bounding_boxes
        self.fidelity = fidelity
        self.local = local
        self.n_local_clusters = n_local_clusters
        self.metric = metric
        self.scale = scale
        self.missing = missing
        self.n_starts = n_starts
        self.allow_partial = allow_partial
        self.random_state = random_state
        self.release = release
        self.n_jobs = n_jobs

    def _check_settings(self) -> None:
        super()._check_settings()
        check_one_of("aggregation", self.aggregation, AGGREGATIONS)
        check_one_of("force", self.force, FORCES)
        check_one_of("density", self.density, DENSITIES)
        check_real("exponent", self.exponent, 0.0, 100.0, open_below=True)
        check_real("softening", self.softening, 0.0, 1.0)
        check_integer("n_proxies", self.n_proxies, 1, 100_000)
        check_integer("n_starts", self.n_starts, 0)
        gaussian = self.density.startswith("gaussian")
        if self.bounding_boxes and self.force != "sampled" and gaussian and self.metric == "euclidean":
            raise SettingError(
                "bounding_boxes are for proxies, and exact forces between Gaussians have none. Hint: force='sampled'."
            )
        if self.force == "exact" and self.metric != "euclidean":
            raise SettingError(f"force='exact' needs metric='euclidean'. Got {self.metric!r}. Hint: force='sampled'.")
        if self.force == "exact" and not gaussian:
            raise SettingError(f"force='exact' needs Gaussians. Got density={self.density!r}. Hint: force='sampled'.")

    def _algorithm(self, n_local_clusters: Mapping[str, int], seed: int) -> Algorithm:
        return OneShotAlgorithm(
            n_clusters=self._known_k,
            aggregation=self.aggregation,
            n_starts=self.n_starts,
            n_local_clusters=n_local_clusters,
            scale=self.scale,
            force=self.force,
            exponent=self.exponent,
            softening=self.softening,
            density=self.density,
            n_proxies=self.n_proxies,
            bounding_boxes=self.bounding_boxes,
            fidelity=self.fidelity,
            allow_partial=self.allow_partial,
            metric=self.metric,
            seed=seed,
        )
