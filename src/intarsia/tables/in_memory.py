"""A table in memory as its participant uses it: the same interface as a table that is read in batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from intarsia.core.rows import ArrayRows
from intarsia.core.types import FloatArray, IntArray
from intarsia.core.units import Statistics, statistics_of
from intarsia.tables.categories import Category
from intarsia.tables.frame import Table
from intarsia.tables.sample import LIMITS, Limits, canonical_order, quantiles_of
from intarsia.tables.streamed import StreamedRows, StreamedTable


@dataclass(frozen=True, eq=False)
class MemoryTable:
    """All rows of a table, and which of them k-means starts with.

    ``drawn`` are the positions of the sample; ``order`` says which row of the owner's table each row is.
    """

    table: Table
    drawn: IntArray
    order: IntArray | None = None
    in_memory: ClassVar[bool] = True
    _layouts: dict[tuple[tuple[str, tuple[str, ...]], ...], Table] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def owner(self) -> str:
        """The name of the participant."""
        return self.table.owner

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of numbers, sorted."""
        return self.table.names

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of every column of categories."""
        return self.table.levels

    @property
    def counted(self) -> dict[str, dict[str, int]]:
        """The number of rows of each level, for each column of categories."""
        result = {}
        for name, category in self.table.categories.items():
            counts = np.bincount(category.codes[category.codes >= 0], minlength=len(category.levels))
            result[name] = dict(zip(category.levels, counts.tolist(), strict=True))
        return result

    @property
    def filled(self) -> dict[str, int]:
        """The number of observed values of each column, in the owner's order."""
        return {name: int(observed.sum()) for name, observed in self.table.filled.items()}

    def with_levels(self, kept: Mapping[str, Collection[str]]) -> MemoryTable:
        """Return the table with these levels only; a cell with another level is missing."""
        categories = {}
        for name, category in self.table.categories.items():
            levels = tuple(level for level in category.levels if level in kept[name])
            same = levels == category.levels
            categories[name] = category if same else Category(levels, category.with_levels(levels))
        return replace(self, table=replace(self.table, categories=categories), _layouts={})

    def without(self, columns: Collection[str]) -> MemoryTable:
        """Return the table without these columns."""
        return replace(self, table=self.table.without(columns), _layouts={}) if columns else self

    def in_canonical_order(self) -> MemoryTable:
        """Return the table with its rows in an order that depends on their content only, if k-means starts with all."""
        if len(self.drawn) < len(self):
            return self
        order = canonical_order(self.table.in_numbers())
        return replace(self, table=self.table.of_rows(order), order=order, _layouts={})

    def in_given_order(self, labels: IntArray) -> IntArray:
        """Return labels in the order of the owner's table."""
        if self.order is None:
            return labels.astype(np.intp)
        result = np.empty(len(labels), dtype=np.intp)
        result[self.order] = labels
        return result

    def rows(
        self,
        levels: Mapping[str, Sequence[str]] | None = None,
        units: tuple[FloatArray, FloatArray] | None = None,
        *,
        centred: bool = True,
    ) -> MemoryRows:
        """Return all rows as numbers, with an indicator for each of these levels (default: its own), in these units."""
        levels = self.levels if levels is None else levels
        key = tuple((name, tuple(each)) for name, each in sorted(levels.items()))
        if key not in self._layouts:  # only the last layout is kept: a large table should not be in memory twice
            self._layouts.clear()
            self._layouts[key] = self.table.in_numbers(levels)
        return MemoryRows(self._layouts[key], self.drawn, units, centred=centred)


class MemoryRows(ArrayRows):
    """The rows of a table in memory as numbers, in common units."""

    def __init__(
        self, table: Table, drawn: IntArray, units: tuple[FloatArray, FloatArray] | None, *, centred: bool
    ) -> None:
        super().__init__(table.values, table.observed, units=units, centred=centred)
        self._table, self.drawn, self.names = table, drawn, table.names

    @property
    def counts(self) -> IntArray:
        """The number of observed values of each feature."""
        return np.asarray(self._table.observed.sum(axis=0))

    def sample(self) -> Table:
        """The rows that k-means starts with, in the units of the table."""
        return self._table if len(self.drawn) == self.n_rows else self._table.of_rows(self.drawn)

    def statistics(self, way: str | None) -> Statistics:
        """Return the statistics that common units are computed from; quantiles are those of the sample."""
        sampled = way == "robust" and len(self.drawn) < self.n_rows
        result = statistics_of(self._table.values, self._table.observed, None if sampled else way)
        return replace(result, quantiles=quantiles_of(self.sample(), result.mean)) if sampled else result


HeldTable = MemoryTable | StreamedTable
HeldRows = MemoryRows | StreamedRows


def hold(table: Table | StreamedTable, *, all_rows: bool, limits: Limits = LIMITS) -> HeldTable:
    """Return a table as its participant uses it.

    A table that is larger than the sample is clustered on the sample first, wherever it is stored; with ``all_rows`` the
    sample is the whole table. A table in batches was sampled when it was opened.
    """
    if isinstance(table, StreamedTable):
        return table
    n_rows = len(table)
    return MemoryTable(table, np.arange(n_rows) if all_rows else limits.drawn(n_rows, len(table.given_names)))
