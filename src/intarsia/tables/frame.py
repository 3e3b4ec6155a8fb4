"""Tables in: the one gate that worries about table kinds, names, order, types and gaps.

pandas, polars, pyarrow and whatever else narwhals reads, or a plain mapping of column names to arrays. Inside, columns
are in the order of their names, so that the order in which somebody keeps them can never matter. Numbers are numbers;
booleans, categories and texts with few levels are categories, each level of which becomes a feature of its own.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
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
    MissingCellsError,
    NonFiniteError,
    NonNumericError,
    SettingError,
    TableTypeError,
    UnnamedColumnError,
    quote,
)

MOST_LEVELS = 50  # a column with more is free text or an id
BACKENDS = ("pandas", "polars", "pyarrow")
_KINDS = {
    "str": "texts",
    "int": "numbers",
    "float": "numbers",
    "bool": "truth values",
    "date": "dates",
    "datetime": "dates",
}
PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # what pyarrow calls the index of a table that came from pandas


@dataclass(frozen=True, eq=False)
class Category:
    """A column of categories: its levels, sorted, and which of them each row has; −1 where the cell is empty."""

    levels: tuple[str, ...]
    codes: IntArray

    def __len__(self) -> int:
        return len(self.codes)

    def tolist(self) -> list[str | None]:
        """The level of every row, None where the cell is empty."""
        return [None if code < 0 else self.levels[code] for code in self.codes]

    def of_rows(self, rows: IntArray) -> Category:
        """The same column for some of the rows."""
        return Category(self.levels, self.codes[rows])


@dataclass(frozen=True, eq=False)
class Table:
    """Rows as numbers, with what is observed, columns sorted by name; and columns of categories, which are no numbers yet.

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
        """Some of the rows, or the same rows in another order."""
        categories = {name: category.of_rows(rows) for name, category in self.categories.items()}
        return replace(self, values=self.values[rows], observed=self.observed[rows], categories=categories)

    def in_given_order(self) -> FloatArray:
        """The cells of a table of numbers, with columns as their owner keeps them."""
        assert not self.categories
        return self.values[:, [self.names.index(name) for name in self.given_names]]

    def column(self, name: str) -> Any:
        """One column: numbers with NaN, or a :class:`Category`."""
        return self.categories[name] if name in self.categories else self.values[:, self.names.index(name)]

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of every column of categories."""
        return {name: category.levels for name, category in self.categories.items()}

    @property
    def filled(self) -> dict[str, BoolArray]:
        """By column, in the owner's order, which cells are filled."""
        position = {name: m for m, name in enumerate(self.names)}  # tables may be wide
        return {
            name: self.categories[name].codes >= 0 if name in self.categories else self.observed[:, position[name]]
            for name in self.given_names
        }

    @property
    def is_complete(self) -> bool:
        """Whether no cell is empty."""
        return bool(self.observed.all()) and all((c.codes >= 0).all() for c in self.categories.values())

    def in_numbers(self, levels: Mapping[str, Sequence[str]] | None = None) -> Table:
        """The table with an indicator for each of these levels (default: its own) in the place of every category.

        Where a cell is filled with some other level, all of its indicators are 0: seen not to be any of them.
        """
        if not self.categories:
            return self
        levels = self.levels if levels is None else {name: levels[name] for name in self.categories}
        if clash := clashes(levels, self.names):
            raise DuplicateColumnError(
                f"{len(clash)} column(s) of {self.owner!r} are called like a level of another column: {quote(clash)}. "
                "Hint: rename them."
            )
        parts, there, names = [self.values], [self.observed], list(self.names)
        for name, category in self.categories.items():
            position = {level: k for k, level in enumerate(levels[name])}
            code = np.array([position.get(level, -1) for level in category.levels] + [-1], dtype=np.intp)[
                category.codes
            ]
            parts.append((code[:, None] == np.arange(len(position))).astype(np.float64))
            there.append(np.repeat((category.codes >= 0)[:, None], len(position), axis=1))
            names.extend(indicators({name: levels[name]}))
        order = sorted(range(len(names)), key=names.__getitem__)
        observed = np.concatenate(there, axis=1)[:, order]
        values = np.where(observed, np.concatenate(parts, axis=1)[:, order], np.nan)
        sorted_names = tuple(names[k] for k in order)
        given = tuple(
            feature
            for name in self.given_names
            for feature in (indicators({name: levels[name]}) if name in self.categories else (name,))
        )
        return Table(self.owner, sorted_names, given, np.ascontiguousarray(values), np.ascontiguousarray(observed))


def is_table(thing: Any) -> bool:
    """Whether :func:`read_table` would take it for one table."""
    return _is_frame(thing) or _is_columns(thing)


def _is_frame(thing: Any) -> bool:
    if isinstance(thing, Mapping | np.ndarray | list | tuple | str) or column_names(thing) is None:
        return False
    return nw.dependencies.is_into_dataframe(thing) or nw.dependencies.is_polars_lazyframe(thing)


def _is_columns(thing: Any) -> bool:
    plain = isinstance(thing, Mapping) and all(isinstance(name, str) for name in thing)
    return plain and bool(thing) and all(_is_column(column) for column in thing.values())


def _is_column(thing: Any) -> bool:
    if isinstance(thing, list | tuple | Category | nw.Series):
        return True
    # asking a whole table for its dimensions would turn it into a matrix first
    return column_names(thing) is None and hasattr(thing, "__array__") and np.ndim(thing) == 1


def read_table(thing: Any, owner: str, known: Collection[str] = ()) -> Table:
    """Read one participant's table, or say what stands in the way. ``known`` columns are known to hold categories."""
    names = check_table(thing, owner)
    arrays: dict[str, Any] = {}
    categories: dict[str, Category] = {}
    refused: dict[str, str] = {}
    for name, column in _columns(thing, names, owner).items():
        # a table's own numbers are cast one column at a time, when there is a place for them
        numbers = column if _is_numeric(column) else _numbers(column)
        read = _category(column, known=name in known) if numbers is None else numbers
        if isinstance(read, str):
            refused[name] = read
        elif isinstance(read, Category):
            categories[name] = read
        else:
            arrays[name] = read
    if refused:
        raise not_usable(refused, owner)
    lengths = {len(column) for column in (*arrays.values(), *categories.values())}
    if len(lengths) > 1:
        raise TableTypeError(f"the columns of {owner!r} have {len(lengths)} different lengths; all must have one.")
    n_rows = max(lengths, default=0)
    if not n_rows:
        have = f"{n_rows} rows and {len(names)} columns" if names else "no columns"
        raise EmptyTableError(
            f"the table of {owner!r} has {have}. At least one row and one column are needed. "
            "Hint: leave out participants that have no data."
        )
    values = np.empty((n_rows, len(arrays)))
    for k, name in enumerate(sorted(arrays)):
        values[:, k] = _numbers(arrays[name])
    return _table(owner, names, sorted(arrays), values, dict(sorted(categories.items())))


def kinds_of(thing: Any, owner: str) -> dict[str, str]:
    """By column "numbers", "categories", or what stands in the way of either."""
    found = {}
    for name, column in _columns(thing, check_table(thing, owner), owner).items():
        numbers = _is_numeric(column) or _numbers(column) is not None
        read = "numbers" if numbers else _category(column, known=False)
        found[name] = "categories" if isinstance(read, Category) else read
    return found


def table_of(owner: str, names: Sequence[str], values: FloatArray) -> Table:
    """A table from a matrix of numbers, NaN where a cell is empty."""
    assert values.shape[1] == len(names)
    order = sorted(range(len(names)), key=names.__getitem__)
    ordered = np.array(values[:, order], dtype=np.float64, order="C")
    return _table(owner, names, [names[k] for k in order], ordered, {})


def _table(
    owner: str, given: Sequence[str], names: Sequence[str], values: FloatArray, categories: Mapping[str, Category]
) -> Table:
    """A table of numbers in the order of their names, unless some are too large or too close."""
    observed = ~np.isnan(values)
    _check_magnitude(owner, names, values, observed)
    return Table(owner, tuple(names), tuple(given), values, observed, categories)


def _check_magnitude(owner: str, names: Sequence[str], values: FloatArray, observed: BoolArray) -> None:
    huge = np.zeros(len(names), dtype=np.bool_)
    with np.errstate(invalid="ignore"):
        for some in by_rows(*values.shape):
            huge |= (np.abs(values[some]) > LARGEST).any(axis=0)
    check_magnitudes(owner, names, huge, extent_of(values, observed).width)


def check_magnitudes(owner: str, names: Sequence[str], huge: BoolArray, spread: FloatArray) -> None:
    """Refuse columns with cells that are too large, or so close together that nothing can be computed with them."""
    if huge.any():
        raise NonFiniteError(
            f"{int(huge.sum())} column(s) of {owner!r} hold cells that are infinite (inf) or beyond {LARGEST:g}: "
            f"{quote(name for name, bad in zip(names, huge, strict=True) if bad)}. "
            "Hint: replace them, leave them empty if the value is unknown, or use larger units."
        )
    minute = np.asarray((spread > 0) & (spread < 1 / LARGEST))
    if minute.any():
        raise NonFiniteError(
            f"{int(minute.sum())} column(s) of {owner!r} differ by less than {1 / LARGEST:g}, too little to compute with: "
            f"{quote(name for name, bad in zip(names, minute, strict=True) if bad)}. Hint: use smaller units."
        )


def settle_missing(table: Table, missing: str) -> Table:
    """Refuse empty cells (``missing="error"``), or keep them and drop the columns that have nothing else."""
    if table.is_complete:
        return table
    filled = table.filled
    if missing == "error":
        raise empty_cells(table.owner, {name: float(there.mean()) for name, there in filled.items()})
    blank = int((~np.column_stack(list(filled.values())).any(axis=1)).sum())
    if blank:
        raise blank_rows(table.owner, blank, len(table))
    return without_empty_columns(table)


def empty_cells(owner: str, share: Mapping[str, float]) -> MissingCellsError:
    """The error about empty cells where none may be, from the share of filled cells of every column."""
    gappy = [f"{name} ({1.0 - part:.1%})" for name, part in share.items() if part < 1]
    return MissingCellsError(
        f"{len(gappy)} of {len(share)} columns of {owner!r} have empty cells (NaN; share of rows): "
        f"{quote(gappy)}. Hint: missing='observed' clusters on the cells that are there; "
        "missing='impute' fills them, missing='drop' leaves such rows out, for a local algorithm of your own."
    )


def blank_rows(owner: str, blank: int, n_rows: int) -> MissingCellsError:
    """The error about rows in which nothing is filled."""
    return MissingCellsError(
        f"{blank} of {n_rows} rows of {owner!r} have no filled cell at all, so nothing tells their cluster. "
        "Hint: drop them, in pandas with dropna(how='all')."
    )


def gaps(filled: Mapping[str, BoolArray]) -> list[str]:
    """Columns with empty cells, and the share of rows where they are."""
    share = {name: 1.0 - float(there.mean()) for name, there in filled.items()}
    return [f"{name} ({part:.1%})" for name, part in share.items() if part > 0]


def without_empty_columns(table: Table, fewest: int = 1) -> Table:
    """A column that is all gaps, or has fewer filled cells than this, is one that the owner does not have."""
    empty = {name for name, there in table.filled.items() if there.sum() < fewest}
    if not empty:
        return table
    kept = np.array([name not in empty for name in table.names], dtype=np.bool_)
    return Table(
        table.owner,
        tuple(name for name in table.names if name not in empty),
        tuple(name for name in table.given_names if name not in empty),
        table.values[:, kept],
        table.observed[:, kept],
        {name: category for name, category in table.categories.items() if name not in empty},
    )


def column_names(thing: Any) -> list[Any] | None:
    """The names as they are, before narwhals gets to refuse them in its own words; None for what has none."""
    if isinstance(thing, Mapping):
        return list(thing)
    if hasattr(thing, "column_names"):  # pyarrow keeps the data under `columns`, and a pandas index among them
        return [name for name in thing.column_names if not PANDAS_INDEX.fullmatch(str(name))]
    if hasattr(thing, "collect_schema"):  # polars, lazy or not
        return list(thing.collect_schema().names())
    names = getattr(thing, "columns", None)
    return None if names is None or callable(names) or isinstance(names, str) else list(names)


def _columns(thing: Any, names: Sequence[str], owner: str) -> dict[str, Any]:
    if isinstance(thing, Mapping):
        try:
            return {name: _plain_array(thing[name]) for name in names}
        except Exception as error:
            raise TableTypeError(f"a column of {owner!r} cannot be read ({type(error).__name__}).") from error
    try:
        if _is_pandas_of_floats(thing):  # nothing to be asked of it; for a small table that is what takes time
            return {name: thing[name].to_numpy() for name in names}
        frame = nw.from_native(thing)
        frame = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
        return {name: frame.get_column(name) for name in names}
    except Exception as error:
        raise TableTypeError(f"the table of {owner!r} cannot be read ({type(error).__name__}).") from error


def _is_pandas_of_floats(thing: Any) -> bool:
    pandas = type(thing).__module__.partition(".")[0] == "pandas"
    return pandas and all(kind == np.float64 for kind in thing.dtypes)


def native_table(columns: Mapping[str, Any], backend: str) -> Any:
    """Columns as a table of an installed library."""
    if backend not in BACKENDS:
        raise SettingError(f"backend must be one of {BACKENDS}. Got {backend!r} instead.")
    if find_spec(backend) is None:
        raise SettingError(f"backend={backend!r} needs {backend}, which is not installed. Hint: pip install {backend}.")
    frame: Any = nw.from_dict(dict(columns), backend=backend)  # type: ignore[arg-type]  # checked just above
    return frame.to_native()


def without_column(thing: Any, name: str) -> Any:
    """The table without one of its columns."""
    if isinstance(thing, Mapping):
        return {other: column for other, column in thing.items() if other != name}
    return nw.from_native(thing).drop(name).to_native()


def cells_of(thing: Any, name: str) -> list[Any]:
    """One column's cells, whatever they are; None where empty."""
    whole = isinstance(thing, Mapping)
    cells = list(thing[name]) if whole else _columns(thing, [name], "table")[name].to_list()
    return [None if _is_empty(cell) else cell for cell in cells]


def _is_empty(cell: Any) -> bool:
    if cell is None:
        return True
    try:
        return bool(cell != cell)  # NaN, NaT  # noqa: PLR0124
    except (TypeError, ValueError):  # pandas' NA does not say whether it equals itself
        return True


def check_table(thing: Any, owner: str) -> list[str]:
    """The names of a table's columns, or an error about what is no table or has no proper names."""
    names = column_names(thing)
    if names is None or not is_table(thing):
        raise _unknown_kind(thing, owner)
    check_names(names, owner)
    return names


def is_writable(text: str) -> bool:
    """Whether a text can be written and sent; halves of characters (surrogates) cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_names(names: Sequence[Any], owner: str) -> None:
    """Refuse columns without a proper name, or with another's."""
    unnamed = [k for k, name in enumerate(names) if not isinstance(name, str) or not name.strip()]
    if unnamed:
        raise UnnamedColumnError(
            f"{len(unnamed)} of {len(names)} columns of {owner!r} have no name that is text and not blank (at positions "
            f"{quote(unnamed)}). Columns are matched across tables by name. Hint: set the table's column names."
        )
    if odd := [name for name in names if not is_writable(name)]:
        raise UnnamedColumnError(
            f"{len(odd)} column name(s) of {owner!r} hold halves of characters, which no file can: {quote(odd)}. "
            "Hint: rename them; was a file read in another encoding?"
        )
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DuplicateColumnError(
            f"{len(twice)} column name(s) of {owner!r} occur more than once: {quote(twice)}. "
            "Hint: rename or drop the copies."
        )


def _is_numeric(column: Any) -> bool:
    """Whether a table says of its column that it holds numbers."""
    return isinstance(column, nw.Series) and column.dtype.is_numeric()


def _numbers(column: Any) -> FloatArray | None:
    """A column as numbers, NaN where it is empty; None if it is something else."""
    if isinstance(column, nw.Series):
        if _is_numeric(column):
            return _cast(column)
        column = column.to_numpy() if column.dtype == nw.Object else None
    if column is None or isinstance(column, Category) or column.ndim != 1:
        return None
    if column.dtype.kind in "iuf":
        with np.errstate(over="ignore"):
            return np.asarray(column, dtype=np.float64)
    if column.dtype.kind == "O":  # numbers and blanks among objects are fine, texts that look like numbers are not
        plain = [np.nan if cell is None or type(cell).__name__ == "NAType" else cell for cell in column.tolist()]
        numbers = all(
            isinstance(cell, int | float | np.number | Decimal) and not isinstance(cell, bool) for cell in plain
        )
        return np.array([_float(cell) for cell in plain]) if numbers else None
    return None


def _category(column: Any, *, known: bool) -> Category | str:
    """A column as categories, or why it is none: the kind of its cells, never what is in them."""
    if isinstance(column, Category):  # it has been through here before
        return column
    cells, declared = _cells(column)
    if cells is None:
        return _kind_of(column)
    declared = declared or known
    filled = [cell for cell in cells if cell is not None]
    truths, texts = (all(isinstance(cell, kind) for cell in filled) for kind in (bool | np.bool_, str))
    if not declared and not truths and not texts:
        kinds = sorted({_KINDS.get(type(cell).__name__, type(cell).__name__) for cell in filled})
        return " and ".join(kinds) + (" mixed" if len(kinds) > 1 else "")
    words = [None if cell is None else level_of(cell) for cell in cells]
    levels = tuple(sorted({word for word in words if word is not None}))
    problem = no_levels(Counter(word for word in words if word is not None), texts=not declared and not truths)
    position = {level: k for k, level in enumerate(levels)}
    codes = np.array([-1 if word is None else position[word] for word in words], dtype=np.intp)
    return problem or Category(levels, codes)


def no_levels(counts: Mapping[str, int], *, texts: bool) -> str | None:
    """Why words, each found so often, are not the levels of a category; of plain ``texts`` more is asked than of what is
    declared to be one.
    """
    filled = sum(counts.values())
    if not all(map(is_writable, counts)):
        return "texts with halves of characters, which no file can hold"
    if texts and filled:
        strange = {level for level in counts if not _looks_like_a_number(level)}
        numbers = sum(n for level, n in counts.items() if level not in strange)
        if 2 * numbers > filled:
            return "numbers stored as text" + (f", with {len(strange)} other text(s) among them" if strange else "")
    if len(counts) > MOST_LEVELS:
        return f"{len(counts)} different levels, more than {MOST_LEVELS}"
    if texts and filled and 2 * len(counts) > filled and (len(counts) > 2 or len(counts) == filled):
        return f"{len(counts)} different texts in {filled} rows"
    return None


def _cells(column: Any) -> tuple[list[Any] | None, bool]:
    """The cells of a column that may hold categories, None where empty, and whether its type says so."""
    declared = False
    if isinstance(column, nw.Series):
        declared = any(column.dtype == kind for kind in (nw.Categorical, nw.Enum, nw.Boolean))
        if not declared and not any(column.dtype == kind for kind in (nw.String, nw.Object, nw.Unknown)):
            return None, declared
        column = column.to_list()
    elif column.dtype.kind in "bUO" and column.ndim == 1:
        column = column.tolist()
    else:
        return None, declared
    blank = [_is_empty(cell) or (isinstance(cell, str) and not cell.strip()) for cell in column]
    return [None if empty else cell for cell, empty in zip(column, blank, strict=True)], declared


def level_of(cell: Any) -> str:
    """A level's name: whole numbers are written the same whether gaps have made them floats or not."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return unicodedata.normalize("NFC", str(cell))


def _looks_like_a_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _plain_array(column: Any) -> Any:
    if isinstance(column, Category | nw.Series):
        return column
    if isinstance(column, list | tuple) and any(isinstance(cell, str) for cell in column):
        return np.array(column, dtype=object)  # or numpy would spell out its gaps
    if isinstance(column, np.ma.MaskedArray):
        return np.ma.filled(column.astype(np.float64), np.nan)
    return np.asarray(column)


def _cast(column: nw.Series[Any]) -> FloatArray:
    try:
        # numbers as we want them, with NaN in gaps, come out at once; the detour would be most of reading a small table
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


def _kind_of(column: Any) -> str:
    """The bare name of a column's type: categories and the like are data."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "SU":
        return "text"
    return re.split(r"[^A-Za-z0-9_]", str(column.dtype), maxsplit=1)[0]


def not_usable(kinds: Mapping[str, str], owner: str) -> NonNumericError:
    """The error about columns that are neither numbers nor categories."""
    columns = [f"{name} ({kind})" for name, kind in kinds.items()]
    words = " ".join(kinds.values()).lower()
    hints = ["drop ids and free text"]
    if "different" in words:
        hints.append("join rare levels; make a small table's column a pandas or polars categorical")
    if "number" in words:
        hints.append(
            "convert them to numbers, in pandas with to_numeric(column, errors='coerce') or read_csv(..., na_values=...), "
            "or to a categorical if they are codes"
        )
    if any(kind.lower().startswith(("date", "time", "duration", "period")) for kind in kinds.values()):
        hints.append("turn dates into numbers, such as days since a fixed day")
    return NonNumericError(
        f"{len(columns)} column(s) of {owner!r} are neither numbers nor categories: {quote(columns)}. "
        f"Hint: {'; '.join(hints)}."
    )


def _unknown_kind(thing: Any, owner: str) -> TableTypeError:
    if isinstance(thing, np.ndarray):
        hint = "name the columns, e.g. pandas.DataFrame(array, columns=[...])"
    elif isinstance(thing, Mapping):
        hint = "in a mapping, every value must be a list or a one-dimensional array"
    elif isinstance(thing, str | PathLike):
        hint = "only Parquet files, and folders of them, are read from a path; read others with pandas or polars first"
    else:
        hint = "pass a pandas, polars or pyarrow table, or a mapping of column names to arrays"
    kind = type(thing).__name__
    return TableTypeError(
        f"the table of {owner!r} is a {kind}, not a table with named columns that we know. Hint: {hint}."
    )
