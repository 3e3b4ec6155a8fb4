"""Rows in memory that a local clusterer is given, and how they are prepared for one that cannot use missing values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from intarsia.core.features import FeatureSpace
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.core.units import deviation_of, in_units
from intarsia.exceptions import MissingCellsError, quote
from intarsia.tables.in_memory import HeldTable

NOISE, LEFT_OUT = -1, -2  # labels of rows that are in no cluster, and of rows that were not clustered


class Units(NamedTuple):
    """(x − shift) / scale for every feature."""

    shift: FloatArray
    scale: FloatArray


def units_of(shift: FloatArray, scale: FloatArray) -> Units | None:
    """Return units; None if they are those of the table."""
    return Units(shift, scale) if shift.any() or (scale != 1.0).any() else None


def own_moments(table: HeldTable) -> dict[str, tuple[float, float]]:
    """Return mean and standard deviation of each numeric column, which common units must fit."""
    rows = table.rows()
    moments, index = rows.statistics(None), FeatureSpace(rows.names).index(table.names)
    pairs = zip(moments.mean[index].tolist(), deviation_of(moments)[index].tolist(), strict=True)
    return dict(zip(table.names, pairs, strict=True))


class Sample(NamedTuple):
    """Rows to be clustered: numbers, which of them are observed, and the share of observed values of each column.

    ``groups`` are the features of each category. Rows are converted to ``units`` when they are asked for, and are not kept:
    a large table should not be in memory more often than necessary.
    """

    cells: FloatArray
    observed: BoolArray
    filled: Mapping[str, float]
    groups: tuple[IntArray, ...] = ()
    units: Units | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.cells)

    @property
    def complete(self) -> bool:
        """Whether no value is missing."""
        return bool(self.observed.all())

    @property
    def values(self) -> FloatArray:
        """All rows in their units."""
        return self.cells if self.units is None else in_units(self.cells, *self.units)

    def copied_values(self) -> FloatArray:
        """All rows in their units, in a new array that the caller may change."""
        return self.cells.copy() if self.units is None else self.values

    def values_of(self, rows: IntArray) -> FloatArray:
        """Return these rows in their units."""
        return self._replace(cells=self.cells[rows]).values

    def columns(self, which: slice | int) -> FloatArray:
        """Return one or several features in their units."""
        cells = self.cells[:, which]
        return cells if self.units is None else in_units(cells, *(part[which] for part in self.units))


@dataclass(frozen=True)
class MissingValues:
    """How a participant treats missing values before it clusters.

    With ``how="impute"`` the clusterer gets the column's mean in the place of a missing value, with "drop" only the rows
    without one. Either way summaries describe observed values only. ``discreet`` omits numbers of rows from errors, because
    errors are sent to the coordinator.
    """

    how: str = "observed"
    discreet: bool = False

    def used(self, rows: Sample) -> IntArray:
        """Return the positions of the rows that are clustered."""
        if self.how != "drop" or rows.complete:
            return np.arange(rows.n_rows)
        complete = np.flatnonzero(rows.observed.all(axis=1))
        if not len(complete):
            raise MissingCellsError(
                f"missing='drop' leaves none of {'the' if self.discreet else rows.n_rows} rows: every row has a missing "
                f"value ({self.described(rows.filled)}). Hint: drop the columns with most missing values, or use "
                "missing='observed'."
            )
        return complete

    def prepared(self, rows: Sample) -> tuple[Sample, IntArray]:
        """Return the rows that the clusterer gets, and their positions."""
        used = self.used(rows)
        if len(used) < rows.n_rows:
            return rows._replace(cells=rows.values_of(used), observed=rows.observed[used], units=None), used
        if self.how == "impute" and not rows.complete:
            values, missing = rows.copied_values(), ~rows.observed
            values[missing] = 0.0
            mean = values.sum(axis=0) / np.maximum(rows.observed.sum(axis=0), 1)
            np.copyto(values, mean, where=missing)
            return rows._replace(cells=values, observed=np.ones_like(missing), units=None), used
        return rows, used

    def described(self, filled: Mapping[str, float]) -> str:
        """Return the names of the columns with missing values, and where allowed the share of rows without a value."""
        if self.discreet:
            return f"columns: {quote([name for name, share in filled.items() if share < 1])}"
        shares = [f"{name} ({1.0 - share:.1%})" for name, share in filled.items() if share < 1]
        return f"columns, share of rows: {quote(shares)}"


def for_all_rows(labels: IntArray, used: IntArray, n_rows: int) -> IntArray:
    """Return labels of all rows from those of the rows that were clustered."""
    if len(used) == n_rows:
        return labels
    result = np.full(n_rows, LEFT_OUT, dtype=np.intp)
    result[used] = labels
    return result
