"""FederatedClustering: Algorithm 1 of the paper as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from joblib import effective_n_jobs

from intarsia.coordinator import FederatedAlgorithm
from intarsia.core.distances import Metric
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.estimators.base import TableClusterer
from intarsia.estimators.previous import plain_model, scale_with
from intarsia.protocol.terms import LocalNumber


class FederatedClustering(TableClusterer):
    """Cluster the tables of several participants in rounds (Algorithm 1 of the paper).

    Every participant clusters its own rows and sends centroids. The coordinator groups them into K global centroids, which
    the participants then refine together, round by round. ``FederatedClustering.from_preset("paper", K)`` has the paper's
    values, which are given below in parentheses.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        The number of global clusters, K. ``"auto"`` takes one more exchange: K is the number that the rows of all
        participants show together, or more where the silhouette over summaries is clearly higher. It may be 1, and does not
        depend on ``random_state``. ``result.choices`` and ``result.plot_n_clusters()`` show the choice. (The paper: given.)
    aggregation : {"search", "paper", "method_a", "method_b"}, default="search"
        How local centroids are grouped. ``"search"`` minimises the objective (eq:meta_clustering) from many starts, among
        them the paper's Method A and Method B. ``"paper"`` takes Method A if Assumption 1 holds for its groups, and Method B
        otherwise, with a warning unless Assumptions 2 and 3 hold for them. (The paper: ``"paper"``.)
    local : estimator or mapping of participants to estimators, default=None
        A participant's clusterer with ``fit_predict``. It is used as given, but a ``random_state`` of None is set from
        ``random_state``. It must accept ``init`` and ``n_clusters`` unless ``max_rounds=0``. None: k-means with 10 restarts.
        (The paper: any; k-means in its experiments.)
    n_local_clusters : int, "silhouette" or mapping of participants to one, default=None
        The number of clusters that the built-in k-means looks for. None: K, or fewer if silhouettes show that the
        participant has fewer. ``"silhouette"``: the number from 2 to K (20 if K is unknown) with the highest mean
        silhouette; it merges clusters that are closer to each other than to a third. With one table and a given K, both are
        K. (The paper: ``"silhouette"`` or another standard method, at most K.)
    metric : {"euclidean", "manhattan", "cosine"} or callable, default="euclidean"
        The distance φ of rows and centroids. Centroids are means and the built-in local algorithm is k-means whatever φ is,
        so that only the Euclidean distance fits both. (The paper: any; Euclidean in its experiments.)
    scale : {"auto", None, "standard", "minmax", "robust"}, default="auto"
        Common units. ``"standard"`` divides every feature by its standard deviation over all participants; ``"minmax"`` by
        its range, for which participants send their smallest and largest values; ``"robust"`` by its interquartile range,
        for which they send quantiles; None leaves the units as they are. ``"auto"`` is ``"standard"`` if units
        differ (the largest standard deviation is over four times the median one, or there are categories and numbers), else
        None. An indicator of a category is always divided by √2, so that one mismatch counts one unit. Results are in
        original units; ``result.units`` names the choice. (The paper: None.)
    missing : {"observed", "error", "impute", "drop"} or mapping of participants to one, default="observed"
        What to do with missing values in a column that the table has: cluster on the observed values, raise an error, show
        the local algorithm the mean of the column instead, or show it only complete rows. Summaries always contain observed
        values only, and every row gets a label.
    n_starts : int, default=30
        Random starts of the search, in addition to four that are not random. (The paper has no search.)
    step_size : float, default=0.8
        The paper's α, in (0, 1]: how far centroids move towards what the participants report. (The paper: 0.8.)
    max_rounds : int, default=5
        The largest number of federated rounds; 0 keeps the initial centroids. More change labels little, and tell the
        coordinator more. (The paper: 3.)
    tol : float, default=0.001
        The rounds stop when no centroid moved farther than this share of the extent of all local centroids. (The
        paper: 0, so that only a round that moves nothing ends them early.)
    min_points : int, default=1
        A participant ignores a global centroid that is nearest to fewer of its rows. (The paper: "a sufficient number"; its
        preset: 1.)
    local_iterations : int, default=1
        Iterations of the local algorithm in each round. (The paper: "a small number"; its preset: 1.) With release rules, a
        participant with a local algorithm of its own takes one.
    refinement : {"auto", "crosswise", "plain"}, default="auto"
        ``"plain"`` starts a round from the same centroids at every participant. ``"crosswise"`` sends each participant what
        the *other* participants report about a feature, where they have rows to report it. ``"auto"`` is crosswise if some
        participants share no feature. (The paper: ``"plain"``.)
    n_rivals : int, default=3
        This many alternative groupings (at most 7) are compared on the rows in the first rounds, and the one that fits best
        is used: if some participants share no feature, other ways to match them; if they share most features, groupings of
        halves of local clusters. 0 uses the grouping of the local centroids. (The paper: 0.)
    merge : {"mean", "robust"}, default="mean"
        How centroids of several participants become one. ``"mean"`` weighs each by its rows. ``"robust"`` is
        for participants that may lie: it ignores replies that contradict what their participant said before, and takes
        medians with capped weights, which one of three or more participants cannot move beyond the others. Where only two
        have an entry, the median is their mean: nobody can tell which of the two is wrong.
        (The paper: ``"mean"``.)
    model : {"kmeans", "mixture"}, default="kmeans"
        What a row belongs to: the nearest centroid, or the most likely Gaussian with independent features, which takes one
        more exchange. ``predict`` and memberships follow it. (The paper: ``"kmeans"``.)
    stability : bool, default=False
        Whether participants resample their own rows in the end, and say how surely their parts of each cluster come back;
        see ``result.outcome.stability``. ``result.stability()`` measures all rows together. (The paper: False.)
    feature_weights : mapping of columns to numbers, default=None
        How much columns count in distances: the squared difference of a column with weight 2 counts as that of two such
        columns (with ``metric="manhattan"``, the difference). All levels of a category share the weight of their column.
        Columns that are not named have weight 1. (The paper: all 1.)
    participant_weights : {"rows", "equal", "capped"} or mapping of participants to numbers, default="rows"
        How much participants count wherever their summaries are merged: common units, groupings, centroids, spreads and the
        choice of K. ``"rows"``: each row counts 1. ``"equal"``: all rows of a participant together count as much as those
        of any other. ``"capped"``: those of none count more than those of the median one. A mapping: what each row of a
        participant counts, 1 for one that is not named. Sizes are numbers of rows in any case. (The paper: ``"rows"``.)
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything random.
    release : ReleasePolicy or mapping of participants to one, default=None
        What may leave each participant. None: everything, because the caller has all tables. ``ReleasePolicy()`` is the
        default of a federation, and gives the result that a federation would.
    privacy : DifferentialPrivacy or None, default=None
        Differential privacy: participants tell noisy sums only, and spend a budget. All other settings apply to synthetic
        tables that are drawn from these sums. None: no noise.
    secure_sums : bool, default=False
        Whether units, rounds, sizes and spreads are told as totals over all participants only, under masks that cancel in
        the total; needs three participants or more. Local clusters are compared, not added up: the first summaries are told
        as they are. Labels are the same as without it. (The paper: False.)
    min_holders : int, default=2
        With ``secure_sums``: columns with fewer holders are in no sum. Their part of the centroids is refined where they
        are, and the model keeps what the first summaries said of them. 3 is strict: of two holders, each can subtract its
        part.
    previous : ClusteringResult, PublicModel, path or None, default=None
        The model that this study repeats, or where it was saved: a file, or the folder of a study. Units and numbers of
        clusters stay, and so do their centroids where rows did not move; ``result.repeat`` says what became of each cluster.
        With ``n_clusters="auto"`` K changes only if rows show it. (The paper: None.)
    n_jobs : int or None, default=None
        Number of processes in which participants compute at the same time; −1 is one per core. None: one after the other in
        this process. The result is the same.
    verbose : 0 or 1, default=0
        1 writes the progress of a run that takes more than a few seconds to standard error. The result is the same.

    Attributes
    ----------
    labels_ : dict of arrays, or array
        The cluster of each row, by participant; after ``fit`` of one table or matrix, an array. −1 is noise.
    centroids_ : array of shape (K, n_features)
        Centroids in original units; NaN where no participant of the cluster has the feature.
    counts_ : array of shape (K, n_features)
        Number of values behind each entry of ``centroids_``.
    confidence_ : float
        How clearly the best grouping won: 0 for a tie, 1 if every start found it; NaN for the paper's methods.
    feature_names_in_ : array of str
        The union of all columns, in the order of first appearance.
    n_features_in_ : int
        The number of features.
    result_ : ClusteringResult
        The whole result.
    """

    method = "federated"

    def __init__(
        self,
        n_clusters: int | str = "auto",
        *,
        aggregation: str = "search",
        local: Any = None,
        n_local_clusters: Any = None,
        metric: Metric = "euclidean",
        scale: str | None = "auto",
        missing: Any = "observed",
        n_starts: int = 30,
        step_size: float = 0.8,
        max_rounds: int = 5,
        tol: float = 1e-3,
        min_points: int = 1,
        local_iterations: int = 1,
        refinement: str = "auto",
        n_rivals: int = 3,
        merge: str = "mean",
        model: str = "kmeans",
        stability: bool = False,
        feature_weights: Any = None,
        participant_weights: Any = "rows",
        random_state: Any = None,
        release: Any = None,
        privacy: DifferentialPrivacy | None = None,
        secure_sums: bool = False,
        min_holders: int = 2,
        previous: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
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
        self.merge = merge
        self.model = model
        self.stability = stability
        self.feature_weights = feature_weights
        self.participant_weights = participant_weights
        self.random_state = random_state
        self.release = release
        self.privacy = privacy
        self.secure_sums = secure_sums
        self.min_holders = min_holders
        self.previous = previous
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _algorithm(self, n_local_clusters: Mapping[str, LocalNumber], seed: int) -> FederatedAlgorithm:
        previous = plain_model(self.previous, self.metric, self.scale)
        return FederatedAlgorithm(
            n_clusters=self._known_k,
            aggregation=self.aggregation,
            n_starts=self.n_starts,
            n_local_clusters=n_local_clusters,
            scale=scale_with(previous, self.scale),
            step_size=self.step_size,
            max_rounds=self.max_rounds,
            tol=self.tol,
            min_points=self.min_points,
            local_iterations=self.local_iterations,
            refinement=self.refinement,
            n_rivals=self.n_rivals,
            merge=self.merge,
            model=self.model,
            stability=bool(self.stability),
            metric=self.metric,
            seed=seed,
            n_jobs=effective_n_jobs(self.n_jobs),
            previous=previous,
        )
