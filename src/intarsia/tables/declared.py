"""Columns as a study declares them, whatever their cells are: one odd cell must not change the kind of a column."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from intarsia.core.types import FloatArray
from intarsia.tables.categories import Category
from intarsia.tables.frame import Table
from intarsia.tables.streamed import StreamedTable


def with_declared_kinds(
    table: Table | StreamedTable, numbers: Collection[str], categories: Collection[str]
) -> Table | StreamedTable:
    """Return the table with these columns of numbers and categories; a cell that is not of its column's kind is missing.

    A table that is read in batches has the kinds that its file says, and stays as it is.
    """
    if isinstance(table, StreamedTable):
        return table
    to_numbers = [name for name in table.categories if name in numbers]
    to_levels = [name for name in table.names if name in categories]
    if not to_numbers and not to_levels:
        return table
    columns = {name: table.values[:, k] for k, name in enumerate(table.names) if name not in to_levels}
    columns |= {name: _numbers(table.categories[name]) for name in to_numbers}
    kept = {name: each for name, each in table.categories.items() if name not in to_numbers}
    kept |= {name: Category.of_words(_words(table.values[:, table.names.index(name)])) for name in to_levels}
    names = tuple(sorted(columns))
    values = np.column_stack([columns[name] for name in names]) if names else np.zeros((len(table), 0))
    return replace(table, names=names, values=values, observed=~np.isnan(values), categories=dict(sorted(kept.items())))


def _numbers(category: Category) -> FloatArray:
    values = np.full(len(category.levels) + 1, np.nan)
    for k, level in enumerate(category.levels):
        try:
            values[k] = float(level)
        except ValueError:
            continue
    return np.where(np.isfinite(values), values, np.nan)[category.codes]


def _words(column: FloatArray) -> list[str | None]:
    return [None if np.isnan(cell) else f"{cell:.15g}" for cell in column]
