"""Tables as a private study declares them: what a cell becomes depends on this cell and on what is declared, on no other.

Types are not inferred, no column is dropped, and no cell is refused: a row that changed other rows, the columns, or whether
there is an answer would be disclosed. A cell that is not what its column is declared to hold is missing.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.core.types import FloatArray
from intarsia.core.units import Statistics
from intarsia.exceptions import EmptyTableError, SettingError, TableTypeError, quote
from intarsia.tables.categories import Category, is_blank, level_name
from intarsia.tables.frame import CATEGORIES, NUMBERS, Table, as_numbers, check_level_names, check_table, columns_of
from intarsia.tables.names import check_names
from intarsia.tables.number_texts import MINUS
from intarsia.tables.source import Source, batch_columns, is_arrow, is_arrow_number, numbers_of
from intarsia.tables.streamed import StreamedTable

_FAR = 1e6  # ranges beyond its bounds that a value can be: enough to count it as outside, and nothing overflows
_TRUTH = {"true": 1.0, "false": 0.0}


def read_declared(table: Any, owner: str, privacy: DifferentialPrivacy) -> Table | StreamedTable:
    """Return a table, or a source that is read in batches, with the columns that a private study declares.

    Errors are about names only, not about cells. There may be no row.
    """
    names = table.columns if isinstance(table, Source) else check_table(table, owner)
    check_names(names, owner)
    if not names:
        raise EmptyTableError(f"the table of {owner!r} has no columns. At least one is needed.")
    privacy.check_declared(owner, names)
    levels = {name: tuple(privacy.levels[name]) for name in sorted(names) if name in privacy.levels}
    numbers = tuple(sorted(name for name in names if name not in levels))
    check_level_names(levels, numbers, owner)
    for name, each in levels.items():
        _positions(name, each)
    if isinstance(table, Source):
        return _streamed(_Declared(table, privacy), owner, numbers, levels)
    columns = _converted(columns_of(table, names, owner), privacy)
    if len({len(column) for column in columns.values()}) > 1:
        raise TableTypeError(f"the columns of {owner!r} have different lengths; all must have one.")
    n_rows = len(next(iter(columns.values())))
    values = np.column_stack([columns[name] for name in numbers]) if numbers else np.zeros((n_rows, 0))
    categories = {name: columns[name] for name in levels}
    return Table(owner, numbers, tuple(names), values, ~np.isnan(values), categories)


def read_texts(source: Source, privacy: DifferentialPrivacy, as_stored: Collection[str] = ()) -> dict[str, Any]:
    """Return all rows of a source of texts: columns that are declared as they are, others and those ``as_stored`` as texts.

    They are converted batch by batch: the texts of declared columns are not in memory at once.
    """
    known = {*privacy.bounds, *privacy.levels} - {*as_stored}
    parts: dict[str, list[Any]] = {name: [] for name in source.columns if name in known}
    others: list[nw.DataFrame[Any]] = []
    for batch in source.batches():
        frame = nw.from_native(_framed(batch), eager_only=True)
        for name, column in _converted({name: frame.get_column(name) for name in parts}, privacy).items():
            parts[name].append(column)
        others.append(frame.drop(*parts))
    rest = nw.concat(others)
    return {name: _joined(parts[name]) if name in parts else rest.get_column(name) for name in source.columns}


def _framed(batch: Any) -> Any:
    """Return a batch as a table of polars if it is a mapping."""
    if not isinstance(batch, Mapping):
        return batch
    import polars as pl

    return pl.DataFrame(
        {name: cells.to_native() if hasattr(cells, "to_native") else cells for name, cells in batch.items()}
    )


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], Category):
        return Category(parts[0].levels, np.concatenate([part.codes for part in parts]))
    return np.concatenate(parts)


class _Declared(Source):
    """The columns of another source as they are declared."""

    def __init__(self, source: Source, privacy: DifferentialPrivacy) -> None:
        self._source, self._privacy = source, privacy

    @property
    def kinds(self) -> Mapping[str, str]:
        return {name: CATEGORIES if name in self._privacy.levels else NUMBERS for name in self._source.columns}

    def __len__(self) -> int:
        return len(self._source)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        for batch in self._source.batches(columns):
            yield _converted(batch_columns(batch), self._privacy)


def _streamed(
    source: Source, owner: str, numbers: tuple[str, ...], levels: Mapping[str, tuple[str, ...]]
) -> StreamedTable:
    """Return a table that is read in batches, without a first pass: statistics of rows are not used, so they are void."""
    zeros, infinite = np.zeros(len(numbers)), np.full(len(numbers), np.inf)
    nobody = np.arange(0)
    sample = Table(
        owner, numbers, source.columns, np.zeros((0, len(numbers))), np.zeros((0, len(numbers)), dtype=np.bool_),
        {name: Category(each, nobody) for name, each in levels.items()},
    )  # fmt: skip
    counted = {name: dict.fromkeys(each, 0) for name, each in levels.items()}
    void = Statistics(zeros, zeros, zeros, -infinite, infinite)
    return StreamedTable(source, owner, numbers, source.columns, void, counted, 0, nobody, sample)


def _converted(columns: Mapping[str, Any], privacy: DifferentialPrivacy) -> dict[str, Any]:
    """Return columns of numbers as arrays, NaN for missing values, and the others as categories with the declared levels."""
    return {
        name: _category(column, name, tuple(privacy.levels[name]))
        if name in privacy.levels
        else _bounded(column, *privacy.bounds[name])
        for name, column in columns.items()
    }


def _bounded(column: Any, low: float, high: float) -> FloatArray:
    values = _typed_numbers(column)
    if values is None:
        numbers = [_number(cell) for cell in _cells(column)]
        values = np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)
    far = _FAR * (high - low)
    return np.clip(np.where(np.isfinite(values), values, np.nan), low - far, high + far)


def _category(column: Any, name: str, levels: tuple[str, ...]) -> Category:
    if isinstance(column, Category):  # of a file that was read as declared
        return Category(levels, column.with_levels(levels))
    position, numbers = _positions(name, levels), _typed_numbers(column)
    if numbers is not None:
        different, at = np.unique(numbers, return_inverse=True)
        codes = np.array([position.get(_word(cell), -1) for cell in different.tolist()], dtype=np.intp)[at]
        return Category(levels, codes)
    cells, known = _cells(column), dict[Any, int]()
    for key, cell in ((_key(cell), cell) for cell in cells):
        if key not in known:
            known[key] = position.get(_word(cell), -1)
    return Category(levels, np.array([known[_key(cell)] for cell in cells], dtype=np.intp))


def _positions(name: str, levels: tuple[str, ...]) -> dict[str | None, int]:
    """Return where each level is, by the word that a cell of this level has."""
    words = [_word(level) for level in levels]
    if len(set(words)) < len(words) or None in words:
        raise SettingError(
            f"the declared levels of column {quote([name])} cannot be told apart: each must be a text that is not blank, "
            "and a number may be listed once (1, 1.0 and true are the same)."
        )
    return {word: k for k, word in enumerate(words)}


def _typed_numbers(column: Any) -> FloatArray | None:
    """Return a column whose type is a number; None for any other type."""
    if is_arrow(column):
        return numbers_of(column) if is_arrow_number(column) else None
    if isinstance(column, nw.Series):
        return as_numbers(column) if column.dtype.is_numeric() else None
    is_number = isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "iuf"
    return as_numbers(column) if is_number else None


def _cells(column: Any) -> list[Any]:
    for way in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, way):
            cells: list[Any] = getattr(column, way)()
            return cells
    return list(column)


def _key(cell: Any) -> Any:
    if type(cell) is str:
        return cell
    return type(cell), cell if isinstance(cell, int) else str(cell)  # Python refuses to write very long integers


def _number(cell: Any) -> float | None:
    """Return a cell as a number, whatever its type; None if it is not one."""
    if isinstance(cell, str) and cell.strip().casefold() in _TRUTH:
        return _TRUTH[cell.strip().casefold()]
    try:
        return float(cell.replace(MINUS, "-") if isinstance(cell, str) else cell)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None


def _word(cell: Any) -> str | None:
    """Return the level of a cell: the same for a number, the text of this number, and a truth value; None if missing."""
    if is_blank(cell):
        return None
    number = _number(cell)
    if number is None:
        return unicodedata.normalize("NFC", str(cell))
    return None if math.isnan(number) else level_name(number)
