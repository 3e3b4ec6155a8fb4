"""One function from tables to a clustering."""

from __future__ import annotations

from typing import Any

from intarsia.estimators.federated import FederatedClustering
from intarsia.estimators.one_shot import OneShotClustering
from intarsia.estimators.presets import with_preset
from intarsia.estimators.result import ClusteringResult
from intarsia.estimators.settings import check_settings

ESTIMATORS: dict[str, Any] = {kind.method: kind for kind in (FederatedClustering, OneShotClustering)}


def cluster(
    tables: Any,
    n_clusters: int | str = "auto",
    *,
    method: str = "federated",
    preset: str | None = None,
    **settings: Any,
) -> ClusteringResult:
    """Find one clustering over the union of all columns, and label every row.

    Parameters
    ----------
    tables : mapping or sequence of tables, or one table or matrix
        One table per participant: pandas, polars or pyarrow tables, or mappings of column names to arrays. Columns are
        matched by name. Rows of different participants are never compared with each other.
    n_clusters : int or "auto", default="auto"
        The number of clusters, K. ``"auto"`` chooses it.
    method : {"federated", "one_shot"}, default="federated"
        Algorithm 1 (several rounds, centroids) or Algorithm 2 (one round, densities).
    preset : {"paper"} or None, default=None
        A named set of settings. ``"paper"`` sets every parameter as the paper has it. None: our defaults.
    **settings
        Settings of :class:`FederatedClustering` or :class:`OneShotClustering`. They win over those of the preset.

    Returns
    -------
    ClusteringResult
        Labels, centroids, and what a report needs.

    Raises
    ------
    InputError
        A table or a setting cannot be used. The message says which, and what to try.

    Examples
    --------
    >>> import intarsia
    >>> a = {"age": [30, 31, 29, 70, 72], "chol": [180, 190, 185, 280, 270]}
    >>> b = {"age": [29, 33, 71, 69], "pulse": [80, 82, 60, 61]}
    >>> result = intarsia.cluster({"a": a, "b": b}, n_clusters=2, random_state=0)
    >>> result.labels["b"].tolist(), result.feature_names
    ([0, 0, 1, 1], ('age', 'chol', 'pulse'))
    >>> result.centroids.round()
    array([[ 30., 185.,  81.],
           [ 70., 275.,  60.]])
    """
    result: ClusteringResult = estimator_for(method, n_clusters, {"preset": preset, **settings}).fit_result(tables)
    return result


def estimator_for(method: str, n_clusters: Any, settings: dict[str, Any]) -> Any:
    """Return the estimator of a method with these settings, all of them checked; ``"preset"`` may be one of them."""
    resolved = with_preset(method, settings)
    estimator = ESTIMATORS[method](n_clusters, **resolved)
    check_settings(method, estimator.get_params(deep=False))
    return estimator
