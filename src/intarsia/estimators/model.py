"""What labels new rows: the part of a result that needs nothing but the global model, so that a public model has it too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from intarsia.core.mixture import Mixture
from intarsia.core.tails import LEVELS
from intarsia.core.types import FloatArray, IntArray
from intarsia.estimators.predict import (
    Imputed,
    all_tables,
    distances_to,
    each,
    framed,
    imputed,
    joined,
    margin_of,
    memberships,
    predict_table,
    squares_of,
)
from intarsia.estimators.settings import check_value, number
from intarsia.exceptions import SettingError, quote
from intarsia.results.outcome import GlobalModel, problem_of_names
from intarsia.results.profiles import Separation
from intarsia.tables.participants import is_many, keyed

GAUSSIAN_METRICS = ("euclidean", "manhattan")


class Model(ABC):
    """The clusters of a study: their centroids, and labels for new rows.

    Both :class:`~intarsia.ClusteringResult` and :class:`~intarsia.PublicModel` are models.
    """

    feature_names: tuple[str, ...]

    @property
    @abstractmethod
    def global_model(self) -> GlobalModel:
        """The centroids in common units, and all that labelling a row needs."""

    @property
    @abstractmethod
    def total_sizes(self) -> IntArray:
        """The rows of all participants in each cluster."""

    @abstractmethod
    def _gaussians(self) -> Mixture:
        """Return the clusters as Gaussians in common units."""

    @abstractmethod
    def explain(self) -> tuple[Separation, ...]:
        """Return the features that separate each cluster from the others, the clearest first."""

    @property
    def n_clusters(self) -> int:
        """The number of clusters, K."""
        return len(self.global_model.centroids)

    @cached_property
    def _order(self) -> IntArray:
        return self.global_model.space.index(self.feature_names)

    @property
    def centroids(self) -> FloatArray:
        """K × features, in original units; NaN where no participant of the cluster has the feature."""
        return self.global_model.values[:, self._order] + 0.0  # no minus zero

    @property
    def deviations(self) -> FloatArray:
        """K × features: the standard deviation within each cluster, in original units; NaN where there are no values."""
        return self.global_model.deviations[:, self._order]

    @property
    def units(self) -> str | None:
        """How common units were found: "standard", "minmax" or "robust"; None if units were left as they are."""
        return self.global_model.units

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of every column of categories; each level is a feature called ``column=level``."""
        return dict(self.global_model.levels)

    def predict(self, tables: Any, *, none_beyond: float | None = None, as_frame: bool = False) -> Any:
        """Return the cluster of every row of new tables, which may have any of the known columns.

        Columns that the model never saw are ignored, with an :class:`~intarsia.exceptions.UnknownColumnsWarning`; levels
        that it never saw are counted in an :class:`~intarsia.exceptions.UnknownLevelsWarning`.

        Parameters
        ----------
        tables : table, or mapping or sequence of tables
            One table gives an array, several a dict of arrays. Rows are compared by the values that they have.
        none_beyond : float, optional
            From 0.5 to 0.999, e.g. 0.99: a row gets −1 ("none of these") if it is farther from every centroid than this
            share of the rows that the model was made from. Default: every row gets its nearest cluster.

        as_frame : bool, default=False
            Return tables with a column ``cluster``, of the library that the given table is of (pandas if of none). A pandas
            table keeps its index.

        Returns
        -------
        array of int, or dict of arrays; tables with ``as_frame``
            −1 also for a row without values in known columns, or with nothing but categories that the model never saw. After
            the one-shot method with ``labels="local"``, the labels of a fit follow the local cluster of a row, so that
            ``predict`` may differ for rows between clusters.

        Examples
        --------
        >>> import intarsia
        >>> x = [k / 10 for k in range(20)]
        >>> tables = {"a": {"x": x + [v + 50 for v in x]}, "b": {"x": [1.0, 1.5, 51.0]}}
        >>> result = intarsia.cluster(tables, 2, random_state=0)
        >>> result.predict({"x": [1.0, 52.0, 30.0]}, none_beyond=0.99)
        array([ 0,  1, -1])
        """
        model = self.global_model
        check_none_beyond(model, none_beyond)
        labels = each(model, tables, lambda table: predict_table(model, table, none_beyond))
        if not as_frame:
            return labels
        if not is_many(tables):
            return framed(tables, self._columns_of(labels))
        return {key: framed(table, self._columns_of(labels[key])) for key, table in keyed(tables).items()}

    @property
    def cluster_names(self) -> dict[int, str]:
        """The names that clusters were given, by number; see :meth:`ClusteringResult.rename`."""
        return self.global_model.named

    def _columns_of(self, labels: IntArray) -> dict[str, Any]:
        """Return the columns of a table of labels: names of clusters beside their numbers, where there are any."""
        if not self.cluster_names:
            return {"cluster": labels}
        return {"cluster": labels, "name": [self.cluster_names.get(k) for k in labels.tolist()]}

    def transform(self, tables: Any) -> Any:
        """Return the rescaled distance of each row to each centroid: rows × K, a dict for several tables.

        Distances are over the columns that the row has and the centroid knows, relative to the range of all local
        centroids in these columns (eq:d), so that rows with different columns can be compared. The nearest centroid is the
        cluster of a row, but in a mixture. NaN where there is no such column.
        """
        return each(self.global_model, tables, lambda table: distances_to(self.global_model, table))

    @cached_property
    def _mixture(self) -> Mixture:
        if self.global_model.metric not in GAUSSIAN_METRICS:
            raise SettingError(
                "memberships need metric='euclidean' or 'manhattan': other clusters are not Gaussian. "
                "Hint: predict, score, explain and to_frame work with every metric."
            )
        return self._gaussians()

    def predict_proba(self, tables: Any) -> Any:
        """Return the membership of each row in each cluster: rows × K, with rows that sum to 1.

        Clusters are modelled as Gaussians with independent features. With many features memberships are nearly 0 or 1: rely
        on their order, not on their size. A row without known values gets the clusters' shares of all rows.
        """
        model, mixture = self.global_model, self._mixture
        return each(model, tables, lambda table: memberships(model, mixture, table))

    def predict_margin(self, tables: Any) -> Any:
        """Return, for each row, the largest membership minus the second largest; 1 with one cluster."""
        model, mixture = self.global_model, self._mixture
        return each(model, tables, lambda table: margin_of(memberships(model, mixture, table)))

    def score(self, tables: Any) -> float:
        """Return the share of the variance that the clusters explain, in common units.

        It is 1 − (squares around the nearest centroid) / (squares around the overall mean): 1 is perfect, 0 no better than
        one cluster, below 0 worse.
        """
        parts = [squares_of(self.global_model, table) for table in all_tables(self.global_model, tables)]
        within, total = (float(sum(part[k] for part in parts)) for k in (0, 1))
        return 1.0 - within / total if total > 0 else float("nan")

    def impute(self, table: Any) -> Imputed:
        """Estimate the missing values of a table, and the columns that it does not have.

        Returns every column of the study in original units: observed values as they are with a spread of 0, other values as
        the expectation given the row's memberships, with its standard deviation as spread.

        >>> import intarsia
        >>> a = {"x": [0.0, 0.1, 9.0, 9.1], "y": [5.0, 5.2, 7.0, 7.2]}
        >>> result = intarsia.cluster({"a": a, "b": {"x": [0.05, 9.05]}}, 2, random_state=0)
        >>> result.impute({"x": [0.0, 9.0]}).values["y"].round(1)
        array([5.1, 7.1])
        """
        model = self.global_model
        return joined([imputed(model, self._mixture, part, self.feature_names) for part in all_tables(model, table)])


def check_none_beyond(model: GlobalModel, share: float | None) -> None:
    """Raise a SettingError unless the model knows how far this share of its rows is from their centroids; None is right."""
    if share is None:
        return
    check_value("none_beyond", share, number(LEVELS[0], LEVELS[-1]))
    if model.tails is None:
        raise SettingError(
            "it is not known how far the rows of this model are from their centroids, so that none_beyond cannot be "
            "used: it was saved by an earlier version, or its metric is not Euclidean and release rules apply."
        )


def names_given(model: GlobalModel, names: Mapping[int, str]) -> tuple[str, ...]:
    """Return the names of all clusters after some were given or, by an empty name, removed; () if none has a name."""
    k = len(model.centroids)
    wrong = [key for key in names if isinstance(key, bool) or key not in range(k)]
    if wrong:
        raise SettingError(
            f"there is no cluster {quote(map(str, wrong))}. Hint: clusters have numbers from 0 to {k - 1}."
        )
    if not all(isinstance(name, str) for name in names.values()):
        raise SettingError("names of clusters must be texts in one line.")
    before = model.names or ("",) * k
    after = tuple(str(names.get(key, before[key])).strip() for key in range(k))
    if (problem := problem_of_names(after, k)) is not None:
        raise SettingError(f"{problem}.")
    given = [name for name in after if name]
    if len(set(given)) < len(given):
        raise SettingError("two clusters would have the same name. Hint: give each its own.")
    return after if given else ()
