"""Local clustering: the built-in k-means, or any clusterer with ``fit_predict`` that the participant prefers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import silhouette_samples
from sklearn.metrics.pairwise import nan_euclidean_distances

from intarsia.core.agglomeration import renumber
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.n_clusters import CLEAR, NO_STRUCTURE
from intarsia.core.observed_kmeans import lloyd, observed_kmeans
from intarsia.core.randomness import draw_seed
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import LocalAlgorithmError, MissingCellsError, TooFewRowsError

N_INIT = 10
SILHOUETTE_ROWS = 1000  # a silhouette costs the square of the rows; a sample of this size is close enough to choose K


@dataclass(frozen=True)
class LocalAlgorithm:
    """How one participant clusters its rows; ``estimator`` None is the built-in k-means on observed entries."""

    estimator: Any = None

    @property
    def name(self) -> str:
        """The name of the estimator's class."""
        return "built-in k-means" if self.estimator is None else type(self.estimator).__name__

    def cluster(self, rows: FloatArray, observed: BoolArray, n_clusters: int, rng: np.random.Generator) -> IntArray:
        """A label for every row, −1 for noise, others numbered from 0 without holes."""
        if self.estimator is None:
            if observed.all():
                return _fit_predict(KMeans(n_clusters, n_init=N_INIT, random_state=draw_seed(rng)), rows)
            return renumber(observed_kmeans(rows, observed, n_clusters, rng, N_INIT).labels)
        self._check_complete(observed)
        return _fit_predict(self._seeded(rng), rows)

    def refine(
        self, rows: FloatArray, observed: BoolArray, start: FloatArray, max_iter: int, rng: np.random.Generator
    ) -> IntArray:
        """Labels after a few iterations from given centres."""
        if self.estimator is None:
            return lloyd(rows, observed, MaskedCentroids.of(start, np.ones_like(start)), max_iter).labels
        self._check_complete(observed)
        estimator = self._seeded(rng)
        known = estimator.get_params(deep=False)
        if not {"init", "n_clusters"} <= set(known):
            raise LocalAlgorithmError(
                f"{self.name} cannot start from given centres (it has no 'init' and 'n_clusters' parameters), which every "
                "round after the first needs. Hint: method='one_shot', or max_rounds=0, or a local algorithm such as KMeans."
            )
        settings = {"init": start, "n_clusters": len(start), "n_init": 1, "max_iter": max_iter}
        return _fit_predict(estimator.set_params(**{k: v for k, v in settings.items() if k in known}), rows)

    def _seeded(self, rng: np.random.Generator) -> Any:
        """The estimator exactly as given, but for any ``random_state`` in it that was left open."""
        estimator = clone(self.estimator)
        open_seeds = [
            name
            for name, value in sorted(estimator.get_params(deep=True).items())
            if value is None and name.rsplit("__", 1)[-1] == "random_state"
        ]
        return estimator.set_params(**{name: draw_seed(rng) for name in open_seeds}) if open_seeds else estimator

    def _check_complete(self, observed: BoolArray) -> None:
        if not observed.all():
            raise MissingCellsError(
                f"{self.name} needs every cell filled, but {int((~observed).any(axis=0).sum())} columns have empty ones "
                f"({float((~observed).mean()):.1%} of all cells). Hint: local=None clusters on the cells that are there."
            )


def _fit_predict(estimator: Any, rows: FloatArray) -> IntArray:
    """Labels of an estimator, renumbered without holes, noise kept; its failure becomes ours, without its text."""
    wanted = getattr(estimator, "n_clusters", None)
    if isinstance(wanted, int) and wanted > len(rows):
        raise TooFewRowsError(
            f"{type(estimator).__name__} was asked for {wanted} clusters of {len(rows)} row(s) (n_samples={len(rows)}). "
            "Hint: ask for fewer clusters, or leave participants this small out."
        )
    try:
        with warnings.catch_warnings():
            # fewer distinct rows than clusters: the labels show it
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = np.asarray(estimator.fit_predict(rows))
    except Exception as error:
        raise LocalAlgorithmError(
            f"{type(estimator).__name__} failed on {len(rows)} rows with a {type(error).__name__}. "
            "Hint: run it on this table alone to see why."
        ) from error
    result = np.full(len(rows), -1, dtype=np.intp)
    if (labels >= 0).any():
        result[labels >= 0] = np.unique(labels[labels >= 0], return_inverse=True)[1]
    return result


class Chosen(NamedTuple):
    """Labels, and the mean silhouette of the least clear cluster where it was looked at."""

    labels: IntArray
    clarity: float | None


def choose_labels(
    algorithm: LocalAlgorithm,
    rows: FloatArray,
    observed: BoolArray,
    expected: int | None,
    most: int,
    rng: np.random.Generator,
) -> Chosen:
    """Cluster with as many clusters as the silhouette suggests, at most ``most``.

    Where the number of global clusters is unknown, that is the number with the highest mean silhouette. Where it is
    known (``expected``), a participant need not have rows of all of them, but finding too few is worse than too many: it
    keeps to ``expected`` unless that leaves a cluster without structure of its own while fewer are all clear. Rows
    without any structure are taken for all the clusters if there are two or more for each, and for a single one if not.
    The algorithm is tried with ``expected`` clusters first, then with fewer and fewer.
    """
    most = min(most, len(rows) // 2)  # clusters of single rows are no clusters
    everything = np.zeros(len(rows), dtype=np.intp)
    if expected is None:
        return Chosen(_highest_silhouette(algorithm, rows, observed, most, rng) if most >= 2 else everything, None)
    whole = algorithm.cluster(rows, observed, expected, rng) if most >= expected else everything
    clarity = float(_silhouettes(rows, observed, whole, rng).min())
    if clarity > NO_STRUCTURE:
        return Chosen(whole, clarity)
    for k in range(min(most, expected - 1), 1, -1):
        labels = algorithm.cluster(rows, observed, k, rng)
        if (of_fewer := float(_silhouettes(rows, observed, labels, rng).min())) > CLEAR:
            return Chosen(labels, of_fewer)
    return Chosen(whole, clarity if most >= expected > 1 else None)


def _highest_silhouette(
    algorithm: LocalAlgorithm, rows: FloatArray, observed: BoolArray, most: int, rng: np.random.Generator
) -> IntArray:
    candidates = [algorithm.cluster(rows, observed, k, rng) for k in range(2, most + 1)]
    return max(candidates, key=lambda labels: _silhouettes(rows, observed, labels, rng).mean())


def _silhouettes(rows: FloatArray, observed: BoolArray, labels: IntArray, rng: np.random.Generator) -> FloatArray:
    """The mean silhouette of each cluster, so that an outlier in a cluster of its own is not taken for structure.

    On a sample of the rows if there are many.
    """
    if len(rows) > SILHOUETTE_ROWS:
        sample = np.sort(rng.choice(len(rows), SILHOUETTE_ROWS, replace=False))
        rows, observed, labels = rows[sample], observed[sample], labels[sample]
    names = np.unique(labels)
    if not 2 <= len(names) < len(labels):
        return np.array([-1.0])
    if observed.all():
        each = silhouette_samples(rows, labels)
    else:
        distances = nan_euclidean_distances(np.where(observed, rows, np.nan))
        distances = np.where(np.isnan(distances), np.nanmean(distances), distances)
        np.fill_diagonal(distances, 0.0)
        each = silhouette_samples(distances, labels, metric="precomputed")
    return np.array([each[labels == name].mean() for name in names])
