"""Which local algorithms can go on from given centres, as every federated round asks of them, and how each is told."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from intarsia.core.types import FloatArray, IntArray
from intarsia.exceptions import LocalAlgorithmError


def way_to_start(estimator: Any) -> str | None:
    """``"centres"`` (KMeans), ``"means"`` (GaussianMixture), ``"medoids"`` (KMedoids), or None if there is no way."""
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
    """Refuse an estimator that cannot start from given centres, before anything was computed."""
    if estimator is not None and way_to_start(estimator) is None:
        raise LocalAlgorithmError(
            f"{type(estimator).__name__} cannot start from given centres, which every round after the first needs. "
            "Hint: method='one_shot', which takes any clusterer; or max_rounds=0; or a local algorithm such as KMeans, "
            "MiniBatchKMeans, GaussianMixture or kmedoids.KMedoids."
        )


class WarmStarted:
    """An estimator that begins at given centres; ``fit_predict`` as usual."""

    def __init__(self, estimator: Any, start: FloatArray, max_iter: int) -> None:
        check_can_start(estimator)
        self._way = way_to_start(estimator)
        self._start = start
        settings: dict[str, Any] = {"n_init": 1, "max_iter": max_iter}
        if self._way == "centres":
            settings |= {"init": start, "n_clusters": len(start)}
        elif self._way == "means":
            settings |= {"means_init": start, "n_components": len(start)}
        known = estimator.get_params(deep=False)
        self._estimator = estimator.set_params(**{name: value for name, value in settings.items() if name in known})
        self.name = type(estimator).__name__

    def fit_predict(self, rows: FloatArray) -> IntArray:
        """Labels of the rows."""
        if self._way == "medoids":  # medoids are rows, and kmedoids takes their positions in the place of their number
            self._estimator.set_params(n_clusters=_nearest_rows(rows, self._start), random_state=None)
        if self._way == "means" and not np.isnan(rows).any():
            self._estimator.set_params(**_shape_around(rows, self._start, self._estimator))
        return np.asarray(self._estimator.fit_predict(rows)).astype(np.intp)


def _shape_around(rows: FloatArray, centres: FloatArray, mixture: Any) -> dict[str, FloatArray]:
    """Weights and precisions to go with given means: of the rows nearest to each, spread as rows are around their own.

    Left to itself, a mixture would take them from clusters of its own, which are others.
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
    taken: list[int] = []
    for centre in centres:
        distance = np.square(rows - centre).sum(axis=1)
        distance[taken] = np.inf
        taken.append(int(distance.argmin()))
    return np.array(taken, dtype=np.intp)
