"""OneShotClustering: Algorithm 2 of the paper as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intarsia.coordinator import OneShotAlgorithm
from intarsia.core.distances import Metric
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.estimators.base import TableClusterer
from intarsia.protocol.terms import LocalNumber


class OneShotClustering(TableClusterer):
    """Cluster the tables of several participants in one round (Algorithm 2 of the paper).

    Every participant clusters its own rows and sends a density of each local cluster, once. The coordinator groups local
    clusters by the force of attraction between their densities. ``OneShotClustering.from_preset("paper", K)`` has the
    paper's values, which are given below in parentheses.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        The number of global clusters, K. ``"auto"`` chooses it as :class:`FederatedClustering` does, still in one round: a
        participant looks for up to 20 clusters, and keeps as many as have clearly higher silhouettes than one Gaussian of
        the same shape. A given ``n_local_clusters`` does not limit K. (The paper: given, or the cut of the agglomeration
        with the highest silhouette.)
    aggregation : {"search", "greedy"}, default="search"
        ``"greedy"`` is the paper's agglomeration. ``"search"`` maximises the total force within groups from many starts,
        among them agglomerations, with at most one cluster of a participant in a group while it has no more than K. (The
        paper: ``"greedy"``.)
    linkage : str, default="force"
        What joins two groups in ``aggregation="greedy"``: ``"force"``, ``"smallest"``, ``"smallest_mean"`` or ``"mean"``
        distance between points, the increase of ``"variance"``, ``"ward"``, or ``"centroid"``. Margins of local clusters
        are by forces in any case. (The paper: ``"force"``.)
    force : {"auto", "exact", "sampled"}, default="auto"
        The expected force between two densities, or the mean over ``n_proxies`` points drawn from each.
        ``"exact"`` needs Gaussians and the Euclidean metric; ``"auto"`` uses it where that is the case. (The paper:
        ``"sampled"``.)
    exponent : float, default=2.0
        The paper's w, above 1: how fast the force falls with distance. (The paper: 2.) The larger it is, the more the
        nearest points count. If N points are at one distance and a single outlier is q times nearer, the outlier is
        stronger than all of them for w above log N / log q (:func:`~intarsia.core.densities.force.largest_exponent`).
    softening : float, default=0.01
        s in (d² + s²)^(−w/2), as a share of the extent. 0.01 is far below the distances between clusters, so that it changes
        no ranking, and it keeps the force finite where clusters share at most w features. (The paper: 0.)
    deviations : float, default=2.0
        The extent by which distances are rescaled reaches from the smallest mean − so many standard deviations to the
        largest mean + as many, if forces are exact. With proxies it is that of the points (the paper).
    density : str, default="gaussian"
        What is fitted to a local cluster: ``"gaussian"``, ``"gaussian_full"``, ``"gaussian_low_rank"``,
        ``"gaussian_diagonal"``, ``"dirichlet"`` or ``"discrete"``. ``"gaussian"`` is the richest that the number of points
        allows (parameters at most a third of them): a full covariance, a diagonal with a few common directions, or a
        diagonal. ``"dirichlet"`` is for rows of shares that add up to the same total, ``"discrete"`` for codes and
        categories. (The paper: ``"gaussian_full"``.)
    shrink : bool, default=True
        Whether correlations, and the variances of small clusters, are shrunk. ``False`` fits Gaussians by plain maximum
        likelihood; the other families always are. (The paper: False.)
    n_proxies : int or pair of int, default=100
        Points drawn from each density if forces are sampled or fidelity is measured. A pair (least, most) draws as many as
        the cluster has rows, within these bounds; in the agglomeration a cluster then counts with its points. (The paper:
        30 to 100.) Fidelity is measured with the larger bound.
    bounding_boxes : bool, default=False
        Whether participants send the bounding box of each cluster, so that proxies stay inside. A box contains the smallest
        and largest values. (The paper: False.)
    fidelity : bool, default=False
        Whether participants measure how close proxies are to the rows they represent; see ``result.fidelity``.
    local : estimator or mapping of participants to estimators, default=None
        As in :class:`FederatedClustering`, but any clusterer can be used. (The paper: any; k-means++ in its experiments.)
    n_local_clusters : int, "silhouette" or mapping of participants to one, default=None
        As in :class:`FederatedClustering`. (The paper: free; its preset: ``"silhouette"``.)
    metric : {"euclidean", "manhattan", "cosine"} or callable, default="euclidean"
        As in :class:`FederatedClustering`.
    scale : {"auto", None, "standard", "minmax", "robust"}, default="auto"
        As in :class:`FederatedClustering`, but each participant clusters in its own units, and the coordinator brings the
        summaries to common units: still one round. (The paper: None.)
    missing : {"observed", "error", "impute", "drop"} or mapping of participants to one, default="observed"
        As in :class:`FederatedClustering`.
    n_starts : int, default=30
        As in :class:`FederatedClustering`.
    allow_partial : bool, default=False
        Whether participants that share no feature with the others are accepted. The result then has at least as many groups
        as there are parts that cannot be compared.
    labels : {"nearest", "local"}, default="nearest"
        ``"nearest"`` labels every row by the nearest global centroid over the features that the row has, as ``predict``
        does; noise of a local clusterer, too. ``"local"`` gives it the cluster that its local cluster was joined to, and −1
        to noise. (The paper: ``"local"``.)
    model : {"kmeans", "mixture"}, default="kmeans"
        As in :class:`FederatedClustering`, without another exchange. ``"mixture"`` needs ``labels="nearest"``. (The paper:
        ``"kmeans"``.)
    stability : bool, default=False
        Whether participants resample their own rows in the end, and say how surely their parts of each cluster come back;
        see ``result.outcome.stability``. ``result.stability()`` measures all rows together. (The paper: False.)
    feature_weights : mapping of columns to numbers, default=None
        As in :class:`FederatedClustering`.
    participant_weights : {"rows", "equal", "capped"} or mapping of participants to numbers, default="rows"
        As in :class:`FederatedClustering`.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything random.
    release : ReleasePolicy or mapping of participants to one, default=None
        As in :class:`FederatedClustering`.
    privacy : DifferentialPrivacy or None, default=None
        Differential privacy: participants tell noisy sums only, and spend a budget. All other settings apply to synthetic
        tables that are drawn from these sums. None: no noise.
    n_jobs : int or None, default=None
        As in :class:`FederatedClustering`.
    verbose : 0 or 1, default=0
        As in :class:`FederatedClustering`.

    Attributes
    ----------
    labels_, centroids_, counts_, confidence_, feature_names_in_, n_features_in_, result_
        As in :class:`FederatedClustering`. ``result_.outcome.merge_tree`` has every Q_k of the paper's agglomeration, and
        ``result_.outcome.silhouettes`` the silhouette of every cut.
    """

    method = "one_shot"

    def __init__(
        self,
        n_clusters: int | str = "auto",
        *,
        aggregation: str = "search",
        linkage: str = "force",
        force: str = "auto",
        exponent: float = 2.0,
        softening: float = 0.01,
        deviations: float = 2.0,
        density: str = "gaussian",
        shrink: bool = True,
        n_proxies: int | tuple[int, int] = 100,
        bounding_boxes: bool = False,
        fidelity: bool = False,
        local: Any = None,
        n_local_clusters: Any = None,
        metric: Metric = "euclidean",
        scale: str | None = "auto",
        missing: Any = "observed",
        n_starts: int = 30,
        allow_partial: bool = False,
        labels: str = "nearest",
        model: str = "kmeans",
        stability: bool = False,
        feature_weights: Any = None,
        participant_weights: Any = "rows",
        random_state: Any = None,
        release: Any = None,
        privacy: DifferentialPrivacy | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.aggregation = aggregation
        self.linkage = linkage
        self.force = force
        self.exponent = exponent
        self.softening = softening
        self.deviations = deviations
        self.density = density
        self.shrink = shrink
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
        self.labels = labels
        self.model = model
        self.stability = stability
        self.feature_weights = feature_weights
        self.participant_weights = participant_weights
        self.random_state = random_state
        self.release = release
        self.privacy = privacy
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _algorithm(self, n_local_clusters: Mapping[str, LocalNumber], seed: int) -> OneShotAlgorithm:
        return OneShotAlgorithm(
            n_clusters=self._known_k,
            aggregation=self.aggregation,
            n_starts=self.n_starts,
            n_local_clusters=n_local_clusters,
            scale=self.scale,
            linkage=self.linkage,
            force=self.force,
            exponent=self.exponent,
            softening=self.softening,
            deviations=self.deviations,
            density=self.density,
            shrink=self.shrink,
            n_proxies=self.n_proxies,
            bounding_boxes=self.bounding_boxes,
            fidelity=self.fidelity,
            allow_partial=self.allow_partial,
            labels=self.labels,
            model=self.model,
            stability=bool(self.stability),
            metric=self.metric,
            seed=seed,
        )
