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


class Started:
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
        return np.asarray(self._estimator.fit_predict(rows)).astype(np.intp)


def _nearest_rows(rows: FloatArray, centres: FloatArray) -> IntArray:
    taken: list[int] = []
    for centre in centres:
        distance = np.square(rows - centre).sum(axis=1)
        distance[taken] = np.inf
        taken.append(int(distance.argmin()))
    return np.array(taken, dtype=np.intp)
