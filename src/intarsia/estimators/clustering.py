"""One call from tables to a clustering."""

from __future__ import annotations

from typing import Any

from intarsia.estimators.federated import FederatedClustering
from intarsia.estimators.one_shot import OneShotClustering
from intarsia.estimators.result import ClusteringResult
from intarsia.exceptions import SettingError, quote

METHODS: dict[str, Any] = {"federated": FederatedClustering, "one_shot": OneShotClustering}


def cluster(
    tables: Any, n_clusters: int | str | None = "auto", *, method: str = "federated", **settings: Any
) -> ClusteringResult:
    """Find one clustering over the union of all columns, and label every row.

    Parameters
    ----------
    tables : mapping or sequence of tables
        One per participant: pandas, polars or pyarrow tables, or mappings of column names to arrays. Columns are matched
        by name. Rows are never shared between participants, nor looked at together. A single table or matrix is
        clustered as it is.
    n_clusters : int, or "auto"
        K. ``"auto"`` (or None) chooses it.
    method : {"federated", "one_shot"}
        Algorithm 1 (several rounds, centroids) or Algorithm 2 (one round, densities).
    **settings
        Passed on to :class:`FederatedClustering` or :class:`OneShotClustering`.

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
    result: ClusteringResult = estimator_for(method, n_clusters, settings).fit_result(tables)
    return result


def estimator_for(method: str, n_clusters: Any, settings: dict[str, Any]) -> Any:
    """The estimator of a method; a setting that it does not have is refused by name."""
    if not isinstance(method, str) or method not in METHODS:
        raise SettingError(f"method must be one of {tuple(METHODS)}. Got {method!r} instead.")
    known = METHODS[method]._get_param_names()  # noqa: SLF001  (scikit-learn's own way to ask)
    unknown = [name for name in settings if name not in known]
    if unknown:
        elsewhere = [other for other, kind in METHODS.items() if unknown[0] in kind._get_param_names()]  # noqa: SLF001
        hint = f"{unknown[0]!r} belongs to method={elsewhere[0]!r}" if elsewhere else f"there are {', '.join(known)}"
        raise SettingError(f"method={method!r} has no setting {quote(unknown)}. Hint: {hint}.")
    return METHODS[method](n_clusters, **settings)
