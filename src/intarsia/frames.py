"""Tables in: the one gate that worries about table kinds, names, order, types and gaps.

pandas, polars, pyarrow and whatever else narwhals reads, or a plain mapping of column names to arrays. Inside, columns
are in the order of their names, so that the order in which somebody keeps them can never matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from intarsia.core.types import BoolArray, FloatArray
from intarsia.exceptions import (
    DuplicateColumnError,
    EmptyTableError,
    MissingCellsError,
    NonFiniteError,
    NonNumericError,
    TableTypeError,
    UnnamedColumnError,
    quote,
)


@dataclass(frozen=True)
class Table:
    """Rows as numbers, with what is observed; columns sorted by name. ``given_names`` keeps the owner's order."""

    owner: str
    names: tuple[str, ...]
    given_names: tuple[str, ...]
    values: FloatArray
    observed: BoolArray

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_complete(self) -> bool:
        """Whether no cell is empty."""
        return bool(self.observed.all())


def is_table(thing: Any) -> bool:
    """Whether :func:`read_table` would take it for one table."""
    return _as_frame(thing) is not None or _is_columns(thing)


def _is_columns(thing: Any) -> bool:
    plain = isinstance(thing, Mapping) and all(isinstance(name, str) for name in thing)
    return plain and bool(thing) and all(_is_column(column) for column in thing.values())


def _is_column(thing: Any) -> bool:
    return isinstance(thing, list | tuple | np.ndarray) and np.ndim(thing) == 1


def _as_frame(thing: Any) -> nw.DataFrame[Any] | None:
    if isinstance(thing, Mapping | np.ndarray | list | tuple | str):
        return None
    try:
        frame = nw.from_native(thing)
    except (TypeError, nw.exceptions.NarwhalsError):
        return None
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def read_table(thing: Any, owner: str) -> Table:
    """Read one participant's table, or say what stands in the way."""
    columns = _native_names(thing)
    _check_names(columns, owner)
    frame = _as_frame(thing)
    if frame is not None:
        arrays = {name: _numbers(frame[name], name, owner) for name in columns}
    elif _is_columns(thing):
        arrays = {name: _numbers_of_array(np.asarray(thing[name]), name, owner) for name in columns}
    else:
        raise _unknown_kind(thing, owner)
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        raise TableTypeError(f"the columns of {owner!r} have {len(lengths)} different lengths; all must have one.")
    if not lengths or 0 in lengths:
        raise EmptyTableError(
            f"the table of {owner!r} has {max(lengths, default=0)} rows and {len(columns)} columns. "
            "At least one of each is needed. Hint: leave out participants that have no data."
        )
    return table_of(owner, columns, np.column_stack([arrays[name] for name in columns]))


def table_of(owner: str, names: Sequence[str], values: FloatArray) -> Table:
    """A table from a matrix of numbers, NaN where a cell is empty."""
    infinite = np.asarray(np.isinf(values).any(axis=0))
    if infinite.any():
        raise NonFiniteError(
            f"{int(infinite.sum())} column(s) of {owner!r} hold infinite cells: "
            f"{quote(name for name, bad in zip(names, infinite, strict=True) if bad)}. "
            "Hint: replace them, or leave them empty if the value is unknown."
        )
    order = sorted(range(len(names)), key=names.__getitem__)
    values = np.ascontiguousarray(values[:, order], dtype=np.float64)
    return Table(owner, tuple(names[k] for k in order), tuple(names), values, ~np.isnan(values))


def settle_missing(table: Table, missing: str) -> Table:
    """Refuse empty cells (``missing="error"``), or keep them and drop the columns that have nothing else."""
    if table.is_complete:
        return table
    share = 1.0 - table.observed.mean(axis=0)
    gappy = [f"{name} ({part:.1%})" for name, part in zip(table.names, share, strict=True) if part > 0]
    if missing == "error":
        raise MissingCellsError(
            f"{len(gappy)} of {len(table.names)} columns of {table.owner!r} have empty cells (share of rows): "
            f"{quote(gappy)}. Hint: missing='observed' clusters on the cells that are there; "
            "or fill or drop them before."
        )
    blank = int((~table.observed.any(axis=1)).sum())
    if blank:
        raise MissingCellsError(
            f"{blank} of {len(table)} rows of {table.owner!r} have no filled cell at all, so nothing tells their cluster. "
            "Hint: drop them."
        )
    filled = np.asarray(table.observed.any(axis=0))
    if filled.all():
        return table
    names = tuple(name for name, some in zip(table.names, filled, strict=True) if some)
    given = tuple(name for name in table.given_names if name in names)
    return Table(table.owner, names, given, table.values[:, filled], table.observed[:, filled])


def _native_names(thing: Any) -> list[Any]:
    """The names as they are, before narwhals gets to refuse them in its own words."""
    if isinstance(thing, Mapping):
        return list(thing)
    if hasattr(thing, "column_names"):  # pyarrow keeps the data under `columns`
        return list(thing.column_names)
    if hasattr(thing, "collect_schema"):  # polars, lazy or not
        return list(thing.collect_schema().names())
    names = getattr(thing, "columns", ())
    return [] if callable(names) else list(names)


def _check_names(names: Sequence[Any], owner: str) -> None:
    unnamed = [k for k, name in enumerate(names) if not isinstance(name, str) or not name.strip()]
    if unnamed:
        raise UnnamedColumnError(
            f"{len(unnamed)} of {len(names)} columns of {owner!r} have no name (at positions {quote(unnamed)}). "
            "Columns are matched across tables by name, so each needs one that is text and not blank. "
            "Hint: set the table's column names."
        )
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DuplicateColumnError(
            f"{len(twice)} column name(s) of {owner!r} occur more than once: {quote(twice)}. "
            "Hint: rename or drop the copies."
        )


def _numbers(column: nw.Series[Any], name: str, owner: str) -> FloatArray:
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        return np.asarray(column.cast(nw.Float64).fill_null(float("nan")).to_numpy(), dtype=np.float64)
    return _numbers_of_array(column.to_numpy(), name, owner, kind=str(column.dtype))


def _numbers_of_array(array: Any, name: str, owner: str, kind: str | None = None) -> FloatArray:
    array = np.asarray(array)
    if array.dtype.kind in "biuf":
        return np.asarray(array, dtype=np.float64)
    if (
        array.dtype.kind == "O"
    ):  # numbers and None in a column of objects are fine, texts that look like numbers are not
        plain = [np.nan if cell is None else cell for cell in array.tolist()]
        if all(isinstance(cell, int | float | np.integer | np.floating) for cell in plain):
            return np.array(plain, dtype=np.float64)
    raise NonNumericError(
        f"column {name!r} of {owner!r} is of type {kind or array.dtype}, not a number. "
        "Hint: drop it, or turn categories into 0/1 columns of their own."
    )


def _unknown_kind(thing: Any, owner: str) -> TableTypeError:
    hint = (
        "name the columns, e.g. pandas.DataFrame(array, columns=[...])"
        if isinstance(thing, np.ndarray)
        else ("pass a pandas, polars or pyarrow table, or a mapping of column names to arrays")
    )
    return TableTypeError(
        f"the table of {owner!r} is a {type(thing).__name__}, which has no named columns. Hint: {hint}."
    )
