"""What an analyst gets: what the coordinator knows, and, in one process, the labels of every row."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from intarsia.assumptions import AssumptionReport
from intarsia.core.features import near_misses
from intarsia.core.types import FloatArray, IntArray
from intarsia.estimators.tables import is_many, keyed
from intarsia.exceptions import UnknownFeaturesError, quote
from intarsia.frames import Table, read_table, without_empty_columns
from intarsia.results import GlobalModel, LocalCluster, Outcome, RoundInfo


@dataclass(frozen=True, eq=False, repr=False)
class ClusteringResult:
    """One clustering over the union of all columns.

    Attributes
    ----------
    labels : dict
        By participant, the global cluster of each of its rows, in the table's own order; −1 for noise. Keys are the
        mapping's own, 0, 1, … for a sequence of tables, and ``"table"`` for a single one.
    local_labels : dict
        By participant, the local cluster that each row was in before any grouping.
    feature_names : tuple of str
        The union of all columns, in the order of first appearance.
    outcome : Outcome
        All that the coordinator saw.
    assumptions : AssumptionReport
        Which conditions of the method hold, as far as summaries can tell.
    """

    labels: dict[Hashable, IntArray]
    local_labels: dict[Hashable, IntArray]
    feature_names: tuple[str, ...]
    outcome: Outcome
    assumptions: AssumptionReport
    keys: dict[str, Hashable] = field(repr=False, default_factory=dict)

    @cached_property
    def _order(self) -> IntArray:
        return self.outcome.model.space.index(self.feature_names)

    @property
    def n_clusters(self) -> int:
        """K."""
        return len(self.outcome.model.centroids)

    @property
    def centroids(self) -> FloatArray:
        """K × features, in original units; NaN where nobody in the cluster saw the feature."""
        return self.outcome.model.values[:, self._order] + 0.0  # no minus zero

    @property
    def counts(self) -> FloatArray:
        """K × features: how many cells stand behind each entry of ``centroids``."""
        return self.outcome.model.centroids.counts[:, self._order]

    @property
    def sizes(self) -> dict[Hashable, IntArray]:
        """By participant, how many of its rows are in each global cluster."""
        return {key: np.asarray(self.outcome.sizes[name]) for name, key in self.keys.items()}

    @property
    def confidence(self) -> float:
        """How clearly the best grouping of local clusters won: 0 a tie, 1 every start agreed."""
        return self.outcome.aggregation.confidence

    @property
    def rounds(self) -> tuple[RoundInfo, ...]:
        """The federated rounds; empty for one-shot."""
        return self.outcome.rounds

    @property
    def local_clusters(self) -> tuple[LocalCluster, ...]:
        """Every local cluster and the global one it joined."""
        return self.outcome.local_clusters

    def predict(self, tables: Any) -> Any:
        """The nearest global centroid for new rows over any subset of the known columns.

        One table gives an array, several (a mapping or a sequence) a dict of arrays. Empty cells are left out of a row's
        comparison; a row without any filled cell that the model knows gets −1.

        For one-shot results this is a second opinion: ``labels`` there follow the local cluster that a row was in, as
        Algorithm 2 has it, and rows between clusters may be nearer to another centroid.
        """
        model = self.outcome.model
        if is_many(tables):
            return {key: predict_table(model, read_table(table, str(key))) for key, table in keyed(tables).items()}
        return predict_table(model, read_table(tables, "new rows"))

    def __str__(self) -> str:
        rows = sum(len(labels) for labels in self.labels.values())
        sizes = sum(self.outcome.sizes.values(), np.zeros(self.n_clusters, dtype=np.intp))
        counts = (
            f"{self.n_clusters} cluster",
            f"{rows} row",
            f"{len(self.labels)} participant",
            f"{len(self.feature_names)} feature",
        )
        k, n, p, d = (text if text.startswith("1 ") else f"{text}s" for text in counts)
        decided = "grouping decided on the rows" if self.outcome.aggregation.overruled else None
        sure = decided or f"confidence {self.confidence:.2f}"
        return f"{k} of {n} from {p} over {d} (sizes {', '.join(map(str, sizes))}; {sure})"

    def __repr__(self) -> str:
        return f"<ClusteringResult: {self}>"


def predict_table(model: GlobalModel, table: Table) -> IntArray:
    """The nearest centroid of every row of a table over any subset of the known columns."""
    table = without_empty_columns(table)
    unknown = [name for name in table.given_names if name not in model.space]
    if unknown:
        misses = near_misses({"the model": model.space.names, table.owner: unknown})
        hint = "; ".join(f"{c!r} looks like {a!r}" for a, _, c, _ in misses[:3]) or "drop them"
        raise UnknownFeaturesError(
            f"{len(unknown)} of {len(table.names)} columns are not among the {len(model.space)} that the model knows: "
            f"{quote(unknown)}. Hint: {hint}."
        )
    return model.predict(table.values, table.observed, model.space.index(table.names))
