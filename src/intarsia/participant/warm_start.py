"""Estimators that can start from given centres, as every federated round requires, and the parameters that set these."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.kmeans import lloyd
from intarsia.core.rows import ArrayRows
from intarsia.core.types import FloatArray, IntArray
from intarsia.exceptions import LocalAlgorithmError


def start_parameter(estimator: Any) -> str | None:
    """Return ``"centres"`` (KMeans), ``"means"`` (GaussianMixture), ``"medoids"`` (KMedoids), or None if it cannot."""
    known = set(estimator.get_params(deep=False))
    if {"means_init", "n_components"} <= known:
        return "means"
    if not {"init", "n_clusters"} <= known:
        return None
    if type(estimator).__module__.partition(".")[0] == "kmedoids":
        return "medoids"
    if not isinstance(estimator, BaseEstimator):
        return "centres"
    legal = getattr(estimator, "_parameter_constraints", {}).get("init")
    return "centres" if legal is None or any(isinstance(kind, str) and kind == "array-like" for kind in legal) else None


def check_can_start(estimator: Any) -> None:
    """Raise an error if an estimator cannot start from given centres."""
    if not isinstance(estimator, str | None) and start_parameter(estimator) is None:
        raise LocalAlgorithmError(
            f"{type(estimator).__name__} cannot start from given centres, as every round after the first requires. "
            "Hint: method='one_shot', which accepts any clusterer; or max_rounds=0; or a local algorithm such as KMeans, "
            "MiniBatchKMeans, GaussianMixture or kmedoids.KMedoids."
        )


class WarmStarted:
    """An estimator that starts from given centres, with ``fit_predict``."""

    def __init__(self, estimator: Any, start: FloatArray, max_iter: int) -> None:
        check_can_start(estimator)
        self._kind = start_parameter(estimator)
        self._start = start
        # after its last step, scikit-learn's k-means labels rows anew; means over these labels are one step more
        is_kmeans = isinstance(estimator, KMeans)
        self._one_step = is_kmeans and max_iter == 1
        settings: dict[str, Any] = {"n_init": 1, "max_iter": max(1, max_iter - is_kmeans)}
        if self._kind == "centres":
            settings |= {"init": start, "n_clusters": len(start)}
        elif self._kind == "means":
            settings |= {"means_init": start, "n_components": len(start)}
        known = estimator.get_params(deep=False)
        self._estimator = estimator.set_params(**{name: value for name, value in settings.items() if name in known})
        self.name = type(estimator).__name__

    def fit_predict(self, rows: FloatArray) -> IntArray:
        """Return the labels of the rows, whose means are the centres after ``max_iter`` steps of k-means."""
        if self._one_step:
            start = MaskedCentroids.of(self._start, np.ones_like(self._start))
            return lloyd(ArrayRows(rows, ~np.isnan(rows)), start, 1).labels.astype(np.intp)
        if self._kind == "medoids":  # medoids are rows; kmedoids accepts their positions instead of their number
            self._estimator.set_params(n_clusters=_nearest_rows(rows, self._start), random_state=None)
        if self._kind == "means" and not np.isnan(rows).any():
            self._estimator.set_params(**_weights_and_precisions(rows, self._start, self._estimator))
        return np.asarray(self._estimator.fit_predict(rows)).astype(np.intp)


def _weights_and_precisions(rows: FloatArray, centres: FloatArray, mixture: Any) -> dict[str, FloatArray]:
    """Return weights and precisions for given means, from the rows nearest to each.

    By default a mixture takes them from a k-means of its own, whose clusters are different.
    """
    nearest = np.square(rows[:, None] - centres[None]).sum(axis=2).argmin(axis=1)
    k, d = centres.shape
    share = np.maximum(np.bincount(nearest, minlength=k), 1).astype(np.float64)
    inside = rows - centres[nearest]
    covariance = inside.T @ inside / len(rows)
    covariance += (1e-3 * np.trace(covariance) / d + float(getattr(mixture, "reg_covar", 1e-6))) * np.eye(d)
    match getattr(mixture, "covariance_type", None):
        case "full":
            precision = np.repeat(np.linalg.inv(covariance)[None], k, axis=0)
        case "tied":
            precision = np.linalg.inv(covariance)
        case "diag":
            precision = np.repeat(1.0 / np.diagonal(covariance)[None], k, axis=0)
        case "spherical":
            precision = np.full(k, d / np.trace(covariance))
        case _:
            return {}
    return {"weights_init": share / share.sum(), "precisions_init": precision}


def _nearest_rows(rows: FloatArray, centres: FloatArray) -> IntArray:
    medoids: list[int] = []
    for centre in centres:
        distance = np.square(rows - centre).sum(axis=1)
        distance[medoids] = np.inf
        medoids.append(int(distance.argmin()))
    return np.array(medoids, dtype=np.intp)
