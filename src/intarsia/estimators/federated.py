"""FederatedClustering: Algorithm 1 as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from intarsia.coordinator import Algorithm, FederatedAlgorithm
from intarsia.coordinator.federated import AGGREGATIONS, MODELS, MOST_RIVALS, REFINEMENTS
from intarsia.core.distances import Metric
from intarsia.estimators.base import TableClusterer
from intarsia.estimators.settings import check_integer, check_one_of, check_real
from intarsia.exceptions import SettingError
from intarsia.participant.warm_start import check_can_start


class FederatedClustering(TableClusterer):
    """Algorithm 1: participants refine a common set of K centroids, round by round.

    Parameters
    ----------
    n_clusters : int, or "auto"
        K, the number of global clusters. ``"auto"`` (or None) asks everybody once more, and chooses: as many as participants
        with a quarter of all rows find by themselves, or more where the silhouette over summaries is clearly higher for it.
        It may be 1. ``result.plot_n_clusters()`` shows why.
    aggregation : {"search", "method_a", "method_b"}
        How local centroids are grouped. The default searches for the lowest objective (eq:meta_clustering) from many
        starts, the paper's two methods among them.
    local : estimator or mapping of participants to estimators, optional
        A participant's own clusterer with ``fit_predict``, used exactly as given, but for a ``random_state`` left at None,
        which is set from ours. It must take ``init`` and ``n_clusters`` unless ``max_rounds=0``. Default: k-means with 10
        restarts.
    n_local_clusters : int or mapping of participants to int, optional
        How many clusters the built-in local algorithm looks for. Default: K, or fewer where silhouettes show that the
        participant has fewer.
    metric : {"euclidean", "manhattan", "cosine"} or callable
        φ, for every comparison of centroids with centroids and of rows with centroids. Centres are means, and the built-in
        local algorithm is k-means, whatever φ is: both are at home in Euclidean geometry only.
    scale : {"auto", None, "standard", "minmax", "robust"}
        ``"standard"`` divides every feature by its standard deviation over all participants, pooled from counts, means and
        sums of squares; ``"minmax"`` by its range, for which everybody's smallest and largest cells are needed;
        ``"robust"`` by its interquartile range, for which everybody's quantiles are. ``"auto"`` is ``"standard"`` where
        units differ (the largest standard deviation is over ten times the median one, or there are categories beside
        numbers) and None where not; ``result.units`` tells. An indicator of a category is
        always divided by √2, so that one mismatch counts one unit. Results come back in original units.
    missing : {"observed", "error", "impute", "drop"} or mapping of participants to one of them
        What to do about empty cells in columns that a table has: cluster on the cells that are there, refuse, show the local
        algorithm the column's mean in their place, or show it only rows without any. Summaries are always of the cells that
        are there, and every row gets a label.
    n_starts : int
        Random starts of the search, beside four that are not random.
    step_size : float in (0, 1]
        α: how far the centroids move towards what the participants report.
    max_rounds : int
        At most so many federated rounds; 0 returns the initialisation.
    tol : float
        Converged when no centroid moved farther than this share of the extent of all local centroids.
    min_points : int
        A participant ignores a global centroid that fewer of its rows are nearest to.
    local_iterations : int
        Iterations of the local algorithm in each round.
    refinement : {"auto", "crosswise", "plain"}
        ``"plain"`` is the paper's: everybody starts a round from the common centroids, without rivals. ``"crosswise"``
        sends each participant what the *others* say about a feature, as far as they have rows to say it with, so that a
        participant's own rows cannot hold each other in place. ``"auto"`` is crosswise where some participants share no
        feature.
    n_rivals : int from 0 to 7
        Where some participants share no feature, so many other groupings of the local centroids that come close to the best
        are tried on the rows: the one whose centroids fit everybody's rows best, judged by the others, wins. 0 trusts the
        local centroids alone.
    model : {"kmeans", "mixture"}
        What rows belong to in the end: the nearest centroid, or the likeliest of Gaussians with independent features that
        the clusters make, which takes one more exchange. Memberships and ``predict`` go by it, too.
    random_state : int, RandomState or None
        Seed of everything random.
    release : ReleasePolicy or mapping of participants to one, optional
        What may leave each participant. Default: everything, for you hold all tables. ``ReleasePolicy()`` has the rules that
        a participant of a federation starts with, and gives the result that one would.
    n_jobs : int, optional
        In so many processes participants compute at the same time; −1 is one for each core. Default: here, one after the
        other. The result is the same.

    Attributes
    ----------
    labels_ : dict of arrays, by participant; after ``fit`` of one matrix, an array
    centroids_ : array, K × features, NaN where nobody in the cluster saw the feature
    counts_ : array, K × features: how many cells stand behind each entry
    feature_names_in_ : the union of all columns, in the order of first appearance
    confidence_ : float, how clearly the best grouping won; NaN for the paper's methods
    result_ : ClusteringResult
    """

    method = "federated"

    def __init__(
        self,
        n_clusters: int | str | None = 8,
        *,
        aggregation: str = "search",
        local: Any = None,
        n_local_clusters: Any = None,
        metric: Metric = "euclidean",
        scale: str | None = "auto",
        missing: Any = "observed",
        n_starts: int = 30,
        step_size: float = 0.8,
        max_rounds: int = 20,
        tol: float = 1e-4,
        min_points: int = 1,
        local_iterations: int = 1,
        refinement: str = "auto",
        n_rivals: int = 3,
        model: str = "kmeans",
        random_state: Any = None,
        release: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.aggregation = aggregation
        self.local = local
        self.n_local_clusters = n_local_clusters
        self.metric = metric
        self.scale = scale
        self.missing = missing
        self.n_starts = n_starts
        self.step_size = step_size
        self.max_rounds = max_rounds
        self.tol = tol
        self.min_points = min_points
        self.local_iterations = local_iterations
        self.refinement = refinement
        self.n_rivals = n_rivals
        self.model = model
        self.random_state = random_state
        self.release = release
        self.n_jobs = n_jobs

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.max_rounds:
            for estimator in self.local.values() if isinstance(self.local, Mapping) else [self.local]:
                check_can_start(estimator)
        check_one_of("aggregation", self.aggregation, AGGREGATIONS)
        check_one_of("refinement", self.refinement, REFINEMENTS)
        check_one_of("model", self.model, MODELS)
        if self.model == "mixture" and self.metric not in {"euclidean", "manhattan"}:
            raise SettingError("model='mixture' needs metric='euclidean': Gaussians know no angles.")
        check_integer("n_rivals", self.n_rivals, 0)
        if self.n_rivals > MOST_RIVALS:
            raise SettingError(f"n_rivals must be at most {MOST_RIVALS}. Got {self.n_rivals!r} instead.")
        check_integer("n_starts", self.n_starts, 0)
        check_integer("max_rounds", self.max_rounds, 0)
        check_integer("min_points", self.min_points, 1)
        check_integer("local_iterations", self.local_iterations, 1)
        check_real("step_size", self.step_size, 0.0, 1.0, open_below=True)
        check_real("tol", self.tol, 0.0, np.inf)

    def _algorithm(self, n_local_clusters: Mapping[str, int], seed: int) -> Algorithm:
        return FederatedAlgorithm(
            n_clusters=self._known_k,
            aggregation=self.aggregation,
            n_starts=self.n_starts,
            n_local_clusters=n_local_clusters,
            scale=self.scale,
            step_size=self.step_size,
            max_rounds=self.max_rounds,
            tol=self.tol,
            min_points=self.min_points,
            local_iterations=self.local_iterations,
            refinement=self.refinement,
            n_rivals=self.n_rivals,
            model=self.model,
            metric=self.metric,
            seed=seed,
            n_jobs=effective_n_jobs(self.n_jobs),
        )
