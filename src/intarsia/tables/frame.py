"""Tables in memory: read from any library into numbers and categories, and written back.

A table is a pandas, polars or pyarrow table, any other that narwhals reads, or a mapping of column names to arrays.
:class:`Table` keeps columns sorted by name, so that the order in which a participant keeps them never matters. Booleans,
categorical columns and texts with few levels are categories; each level becomes a feature.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib.util import find_spec
from os import PathLike
from typing import Any

import narwhals as nw
import numpy as np

from intarsia.core.blocks import by_rows
from intarsia.core.distances import LARGEST, extent_of
from intarsia.core.features import clashes, indicators
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import (
    DuplicateColumnError,
    EmptyTableError,
    NonFiniteError,
    SettingError,
    TableTypeError,
    quote,
)
from intarsia.tables.categories import Category, is_missing, read_category, unusable_columns
from intarsia.tables.names import check_names, column_names

BACKENDS = ("pandas", "polars", "pyarrow")
NA_OF_R = -(2**31)  # what a missing whole number of R becomes where nothing else can be missing
NUMBERS, CATEGORIES = "numbers", "categories"


@dataclass(frozen=True, eq=False)
class Table:
    """A participant's rows: columns of numbers, sorted by name, with a mask of observed values; and columns of categories.

    ``given_names`` are all columns in the owner's order.
    """

    owner: str
    names: tuple[str, ...]
    given_names: tuple[str, ...]
    values: FloatArray
    observed: BoolArray
    categories: Mapping[str, Category] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def of_rows(self, rows: IntArray) -> Table:
        """Return the table with a selection of the rows, in the order of ``rows``."""
        categories = {name: category.of_rows(rows) for name, category in self.categories.items()}
        return replace(self, values=self.values[rows], observed=self.observed[rows], categories=categories)

    def without(self, columns: Collection[str]) -> Table:
        """Return the table without these columns."""
        kept = np.array([name not in columns for name in self.names], dtype=np.bool_)
        return replace(
            self,
            names=tuple(name for name in self.names if name not in columns),
            given_names=tuple(name for name in self.given_names if name not in columns),
            values=self.values[:, kept],
            observed=self.observed[:, kept],
            categories={name: category for name, category in self.categories.items() if name not in columns},
        )

    def in_given_order(self) -> FloatArray:
        """Return the values of a table of numbers, with columns in the owner's order."""
        assert not self.categories
        return self.values[:, [self.names.index(name) for name in self.given_names]]

    def column(self, name: str) -> Any:
        """Return one column: numbers with NaN for missing values, or a :class:`Category`."""
        return self.categories[name] if name in self.categories else self.values[:, self.names.index(name)]

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of every column of categories."""
        return {name: category.levels for name, category in self.categories.items()}

    @property
    def filled(self) -> dict[str, BoolArray]:
        """By column, in the owner's order, which rows have a value."""
        position = {name: m for m, name in enumerate(self.names)}  # tables may be wide
        return {
            name: self.categories[name].codes >= 0 if name in self.categories else self.observed[:, position[name]]
            for name in self.given_names
        }

    @property
    def is_complete(self) -> bool:
        """Whether there is no missing value."""
        return bool(self.observed.all()) and all((c.codes >= 0).all() for c in self.categories.values())

    def in_numbers(self, levels: Mapping[str, Sequence[str]] | None = None) -> Table:
        """Return the table with every category replaced by an indicator for each of ``levels`` (default: its own).

        All indicators of a cell with another level are 0: it is observed, and has none of these levels.
        """
        if not self.categories:
            return self
        levels = self.levels if levels is None else {name: levels[name] for name in self.categories}
        check_level_names(levels, self.names, self.owner)
        values, masks, names = [self.values], [self.observed], list(self.names)
        for name, category in self.categories.items():
            n_levels = len(levels[name])
            values.append((category.with_levels(levels[name])[:, None] == np.arange(n_levels)).astype(np.float64))
            masks.append(np.repeat((category.codes >= 0)[:, None], n_levels, axis=1))
            names.extend(indicators({name: levels[name]}))
        order = sorted(range(len(names)), key=names.__getitem__)
        observed = np.concatenate(masks, axis=1)[:, order]
        cells = np.where(observed, np.concatenate(values, axis=1)[:, order], np.nan)
        given = tuple(
            feature
            for name in self.given_names
            for feature in (indicators({name: levels[name]}) if name in self.categories else (name,))
        )
        sorted_names = tuple(names[k] for k in order)
        return Table(self.owner, sorted_names, given, np.ascontiguousarray(cells), np.ascontiguousarray(observed))


def check_level_names(levels: Mapping[str, Sequence[str]], names: Sequence[str], owner: str) -> None:
    """Raise an error if a column has the name of the indicator of another column's level."""
    if clash := clashes(levels, names):
        raise DuplicateColumnError(
            f"{len(clash)} column(s) of {owner!r} have the same name as a level of another column: {quote(clash)}. "
            "Hint: rename them."
        )


def is_table(table: Any) -> bool:
    """Return whether :func:`read_table` would take this for one table."""
    return _is_frame(table) or _is_mapping_of_columns(table)


def _is_frame(table: Any) -> bool:
    if isinstance(table, Mapping | np.ndarray | list | tuple | str) or column_names(table) is None:
        return False
    return nw.dependencies.is_into_dataframe(table) or nw.dependencies.is_polars_lazyframe(table)


def _is_mapping_of_columns(table: Any) -> bool:
    named = isinstance(table, Mapping) and all(isinstance(name, str) for name in table)
    return named and bool(table) and all(_is_column(column) for column in table.values())


def _is_column(column: Any) -> bool:
    if isinstance(column, list | tuple | Category | nw.Series) or nw.dependencies.is_polars_series(column):
        return True
    # asking a whole table for its dimensions would turn it into a matrix first
    return column_names(column) is None and hasattr(column, "__array__") and np.ndim(column) == 1


def read_table(table: Any, owner: str, known: Collection[str] = ()) -> Table:
    """Read one participant's table, or say what has to be changed. ``known`` columns are known to hold categories."""
    names = check_table(table, owner)
    numbers: dict[str, Any] = {}
    categories: dict[str, Category] = {}
    refused: dict[str, str] = {}
    for name, column in columns_of(table, names, owner).items():
        # a table's own numbers are cast one column at a time, when their place in the matrix is ready
        values = column if _is_numeric(column) else as_numbers(column)
        read = read_category(column, declared=name in known) if values is None else values
        if isinstance(read, str):
            refused[name] = read
        elif isinstance(read, Category):
            categories[name] = read
        else:
            numbers[name] = read
    if refused:
        raise unusable_columns({owner: refused})
    lengths = {len(column) for column in (*numbers.values(), *categories.values())}
    if len(lengths) > 1:
        raise TableTypeError(f"the columns of {owner!r} have {len(lengths)} different lengths; all must have one.")
    n_rows = max(lengths, default=0)
    check_not_empty(owner, n_rows, len(names))
    values = np.empty((n_rows, len(numbers)))
    for k, name in enumerate(sorted(numbers)):
        values[:, k] = as_numbers(numbers[name])
    return _checked(owner, names, sorted(numbers), values, dict(sorted(categories.items())))


def check_not_empty(owner: str, n_rows: int, n_columns: int) -> None:
    """Raise an error if a table has no rows or no columns."""
    if not n_rows or not n_columns:
        size = f"{n_rows} rows and {n_columns} columns" if n_columns else "no columns"
        raise EmptyTableError(
            f"the table of {owner!r} has {size}. At least one row and one column are needed. "
            "Hint: leave out participants that have no data."
        )


def kinds_of(table: Any, owner: str) -> dict[str, str]:
    """Return by column "numbers", "categories", or the reason why it is neither."""
    kinds = {}
    for name, column in columns_of(table, check_table(table, owner), owner).items():
        if _is_numeric(column) or as_numbers(column) is not None:
            kinds[name] = NUMBERS
        else:
            read = read_category(column, declared=False)
            kinds[name] = CATEGORIES if isinstance(read, Category) else read
    return kinds


def table_of(owner: str, names: Sequence[str], values: FloatArray) -> Table:
    """Return the table of a matrix of numbers, NaN for missing values."""
    assert values.shape[1] == len(names)
    order = sorted(range(len(names)), key=names.__getitem__)
    ordered = np.array(values[:, order], dtype=np.float64, order="C")
    return _checked(owner, names, [names[k] for k in order], ordered, {})


def _checked(
    owner: str, given: Sequence[str], names: Sequence[str], values: FloatArray, categories: Mapping[str, Category]
) -> Table:
    """Return the table of numbers that are sorted by name, after a check of their magnitude."""
    observed = ~np.isnan(values)
    huge = np.zeros(len(names), dtype=np.bool_)
    with np.errstate(invalid="ignore"):
        for block in by_rows(*values.shape):
            huge |= (np.abs(values[block]) > LARGEST).any(axis=0)
    extent = extent_of(values, observed)
    check_magnitudes(owner, names, huge, extent.width)
    if (from_r := extent.low == NA_OF_R).any():
        raise NonFiniteError(
            f"{int(from_r.sum())} column(s) of {owner!r} contain {NA_OF_R}, which stands for NA in R: "
            f"{quote(name for name, bad in zip(names, from_r, strict=True) if bad)}. Hint: in R, "
            "options(reticulate.pandas_use_nullable_dtypes = TRUE) keeps NA; elsewhere, make them missing values."
        )
    return Table(owner, tuple(names), tuple(given), values, observed, categories)


def check_magnitudes(owner: str, names: Sequence[str], huge: BoolArray, spread: FloatArray) -> None:
    """Raise an error if values are too large, or too close together, to compute with."""
    if huge.any():
        raise NonFiniteError(
            f"{int(huge.sum())} column(s) of {owner!r} have values that are infinite (inf) or beyond {LARGEST:g}: "
            f"{quote(name for name, bad in zip(names, huge, strict=True) if bad)}. "
            "Hint: correct them, make them missing values if they are unknown, or use larger units."
        )
    minute = np.asarray((spread > 0) & (spread < 1 / LARGEST))
    if minute.any():
        raise NonFiniteError(
            f"{int(minute.sum())} column(s) of {owner!r} differ by less than {1 / LARGEST:g}, too little to compute with: "
            f"{quote(name for name, bad in zip(names, minute, strict=True) if bad)}. Hint: use smaller units."
        )


def check_table(table: Any, owner: str) -> list[str]:
    """Return the names of a table's columns; raise an error for an object that is not a table with proper names."""
    names = column_names(table)
    if names is None or not is_table(table):
        raise not_a_table(table, owner)
    check_names(names, owner)
    return [str(name) for name in names]  # subclasses of str, such as NumPy's, cannot be sent


def not_a_table(table: Any, owner: str) -> TableTypeError:
    """Return the error about an object that is not a table, with a hint for its type."""
    if isinstance(table, np.ndarray):
        hint = "name the columns, e.g. pandas.DataFrame(array, columns=[...])"
    elif isinstance(table, Mapping):
        hint = "in a mapping, every value must be a list or a one-dimensional array"
    elif isinstance(table, str | PathLike):
        hint = "a text is taken for the path of a file of a supported type"
    else:
        hint = "pass a pandas, polars or pyarrow table, or a mapping of column names to arrays"
    return TableTypeError(
        f"the table of {owner!r} is of type {type(table).__name__}; a table with named columns is needed. Hint: {hint}."
    )


def columns_of(table: Any, names: Sequence[str], owner: str) -> dict[str, Any]:
    """Return columns by name: narwhals series of a table, arrays of a mapping."""
    if isinstance(table, Mapping):
        try:
            return {name: as_array(table[name]) for name in names}
        except Exception as error:
            raise TableTypeError(f"a column of {owner!r} cannot be read ({type(error).__name__}).") from error
    try:
        if _is_pandas_of_floats(table):  # narwhals' questions would be most of the time that a small table takes
            return {name: table[name].to_numpy() for name in names}
        frame = nw.from_native(table)
        frame = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
        return {name: frame.get_column(name) for name in names}
    except Exception as error:
        raise TableTypeError(f"the table of {owner!r} cannot be read ({type(error).__name__}).") from error


def _is_pandas_of_floats(table: Any) -> bool:
    pandas = type(table).__module__.partition(".")[0] == "pandas"
    return pandas and all(kind == np.float64 for kind in table.dtypes)


def as_array(column: Any) -> Any:
    """Return a column of a mapping as an array, unless it is a category or a series already."""
    if isinstance(column, Category | nw.Series):
        return column
    if nw.dependencies.is_polars_series(column):  # whose array of texts has the longest one's width in every row
        return nw.from_native(column, series_only=True)
    if isinstance(column, list | tuple) and any(isinstance(cell, str) for cell in column):
        return np.array(column, dtype=object)  # numpy would turn None into a text
    if isinstance(column, np.ma.MaskedArray):
        return np.ma.filled(column.astype(np.float64), np.nan)
    return np.asarray(column)


def _is_numeric(column: Any) -> bool:
    """Return whether a table's own type of this column is a number."""
    return isinstance(column, nw.Series) and column.dtype.is_numeric()


def as_numbers(column: Any) -> FloatArray | None:
    """Return a column as numbers, NaN for missing values; None if it holds something else."""
    if isinstance(column, nw.Series):
        if _is_numeric(column):
            return _cast(column)
        column = column.to_numpy() if column.dtype == nw.Object else None
    if column is None or isinstance(column, Category) or column.ndim != 1:
        return None
    if column.dtype.kind in "iuf":
        with np.errstate(over="ignore"):
            return np.asarray(column, dtype=np.float64)
    if column.dtype.kind == "O":  # objects may be numbers and missing values, but not texts that look like numbers
        cells = [np.nan if cell is None or type(cell).__name__ == "NAType" else cell for cell in column.tolist()]
        numbers = all(
            isinstance(cell, int | float | np.number | Decimal) and not isinstance(cell, bool) for cell in cells
        )
        return np.array([_float(cell) for cell in cells]) if numbers else None
    return None


def _cast(column: nw.Series[Any]) -> FloatArray:
    try:
        # doubles with NaN for missing values need no cast, which would be most of the time that a small table takes
        plain = column.to_numpy() if column.dtype == nw.Float64 else None
        if plain is not None and plain.dtype == np.float64:
            return np.asarray(plain)
        return np.asarray(column.cast(nw.Float64).fill_null(float("nan")).to_numpy(), dtype=np.float64)
    except Exception:  # noqa: BLE001  (pyarrow refuses whole numbers that a float cannot hold exactly, and quotes them)
        return np.array([np.nan if cell is None else _float(cell) for cell in column.to_list()])


def _float(cell: Any) -> float:
    try:
        return float(cell)
    except OverflowError:
        return float("inf")


def native_table(columns: Mapping[str, Any], backend: str) -> Any:
    """Return columns as a table of an installed library."""
    if backend not in BACKENDS:
        raise SettingError(f"backend must be one of {BACKENDS}. Got {backend!r} instead.")
    if find_spec(backend) is None:
        raise SettingError(f"backend={backend!r} needs {backend}, which is not installed. Hint: pip install {backend}.")
    frame: Any = nw.from_dict(dict(columns), backend=backend)  # type: ignore[arg-type]  # checked just above
    return frame.to_native()


def only_columns(table: Any, names: Sequence[str]) -> Any:
    """Return the table with these columns only."""
    if isinstance(table, Mapping):
        return {name: table[name] for name in names}
    return nw.from_native(table).select(*names).to_native()


def cells_of(table: Any, name: str) -> list[Any]:
    """Return the cells of one column, None for missing values."""
    column = table[name] if isinstance(table, Mapping) else columns_of(table, [name], "table")[name]
    return [None if is_missing(cell) else cell for cell in column]
