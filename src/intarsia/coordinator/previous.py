"""The model that a repeated study starts from: as plain values that a job can carry, and over the present features."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from intarsia.coordinator.columns import TableColumns
from intarsia.core.features import FeatureSpace, indicators
from intarsia.core.types import FloatArray
from intarsia.core.units import CommonUnits
from intarsia.results.outcome import GlobalModel, problem_of_names

Numbers = tuple[float, ...]
Table = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class PreviousModel:
    """A global model as plain values.

    ``made`` is when its run started: the same model from another run starts another run. An entry that nobody knows has the
    count 0. A cluster without any entry is gone, and keeps its number.
    """

    made: str
    features: tuple[str, ...]
    levels: dict[str, tuple[str, ...]]
    units: str | None
    metric: str
    shift: Numbers
    scale: Numbers
    low: Numbers
    high: Numbers
    values: Table
    counts: Table
    variances: Table
    cells: Table
    weights: Numbers | None = None
    names: tuple[str, ...] = ()  # of clusters

    def __post_init__(self) -> None:
        """Raise a ValueError unless all parts have the same features and clusters: a job may come from anybody."""
        d, k = len(self.features), len(self.values)
        rows = (*self.values, *self.counts, *self.variances, *self.cells, self.shift, self.scale, self.low, self.high)
        same = all(len(row) == d for row in rows) and all(
            len(t) == k for t in (self.counts, self.variances, self.cells)
        )
        if not same or not d or not k or (self.weights is not None and len(self.weights) != k):
            raise ValueError("the parts of the previous model do not fit each other")
        if (problem := problem_of_names(self.names, k)) is not None:
            raise ValueError(problem)

    @classmethod
    def of(cls, model: GlobalModel, made: str) -> PreviousModel:
        """Return the plain values of a model."""
        return cls(
            made,
            model.space.names,
            {column: tuple(levels) for column, levels in model.levels.items()},
            model.units,
            str(model.metric),
            _numbers(model.shift),
            _numbers(model.scale),
            _numbers(model.extent.low),
            _numbers(model.extent.high),
            _table(model.centroids.values),
            _table(model.centroids.counts),
            _table(model.variances),
            _table(model.cells),
            None if model.weights is None else _numbers(model.weights),
            model.names,
        )

    @property
    def table_columns(self) -> TableColumns:
        """The columns that the model has."""
        of_levels = set(indicators(self.levels))
        return TableColumns(tuple(name for name in self.features if name not in of_levels), self.levels)

    def only(self, columns: Collection[str]) -> TableColumns:
        """Return those of the model's columns that are among these."""
        numbers, levels, _ = self.table_columns
        return TableColumns(
            tuple(name for name in numbers if name in columns),
            {name: each for name, each in levels.items() if name in columns},
        )

    def units_in(self, space: FeatureSpace, units: CommonUnits) -> CommonUnits:
        """Return these units, with the model's own for all features that it has."""
        here, there = self.places(space)
        shift, scale = units.shift.copy(), units.scale.copy()
        shift[here], scale[here] = np.array(self.shift)[there], np.array(self.scale)[there]
        return CommonUnits(shift, scale, self.units)

    def places(self, space: FeatureSpace) -> tuple[list[int], list[int]]:
        """Return the positions of the common features in a space, and in the model."""
        position = {name: m for m, name in enumerate(self.features)}
        here = [m for m, name in enumerate(space.names) if name in position]
        return here, [position[space.names[m]] for m in here]


def _numbers(values: FloatArray) -> Numbers:
    return tuple(np.nan_to_num(np.asarray(values, dtype=np.float64)).tolist())


def _table(values: FloatArray) -> Table:
    return tuple(map(_numbers, values))
