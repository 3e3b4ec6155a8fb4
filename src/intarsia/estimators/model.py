"""What labels new rows: the part of a result that needs nothing but the global model, so that a public model has it too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

from intarsia.core.mixture import Mixture
from intarsia.core.types import FloatArray, IntArray
from intarsia.estimators.predict import (
    Imputed,
    all_tables,
    each,
    imputed,
    joined,
    margin_of,
    memberships,
    predict_table,
    squares_of,
)
from intarsia.exceptions import SettingError
from intarsia.results.outcome import GlobalModel
from intarsia.results.profiles import Separation

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

    def predict(self, tables: Any) -> Any:
        """Return the cluster of every row of new tables, which may have any of the known columns.

        One table gives an array, several (a mapping or a sequence) a dict of arrays. Rows are compared by the values that
        they have; −1 for a row without values in known columns. After the one-shot method with ``labels="local"``, labels
        follow the local cluster of a row, so that ``predict`` may differ for rows between clusters.
        """
        return each(self.global_model, tables, lambda table: predict_table(self.global_model, table))

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
        return each(self.global_model, tables, lambda table: memberships(self.global_model, self._mixture, table))

    def predict_margin(self, tables: Any) -> Any:
        """Return, for each row, the largest membership minus the second largest; 1 with one cluster."""
        return each(
            self.global_model, tables, lambda table: margin_of(memberships(self.global_model, self._mixture, table))
        )

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
