"""The one door for tables: from whatever a caller gives to what a participant holds.

The command line, the estimators and federated sites open tables here. :func:`open_table` takes a path, a registered
source, a table of any library or a mapping of arrays; whether a table is read as a whole or in batches is decided here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from intarsia.core.distances import LARGEST
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.core.types import FloatArray
from intarsia.exceptions import InputError, NonNumericError, SettingError, TableTypeError, quote
from intarsia.tables.arrow import is_stream, read_stream
from intarsia.tables.categories import NUMBERS_AS_TEXT, unusable_columns, words_in
from intarsia.tables.csv import CsvFile, open_csv
from intarsia.tables.declared import read_declared, read_texts
from intarsia.tables.excel import EXCEL
from intarsia.tables.frame import (
    CATEGORIES,
    NUMBERS,
    Table,
    as_numbers,
    columns_of,
    is_table,
    kinds_of,
    not_a_table,
    only_columns,
    read_table,
)
from intarsia.tables.missing import settle_missing
from intarsia.tables.names import check_participants, column_names, is_valid_text
from intarsia.tables.reading import PLAIN, Reading, prepared
from intarsia.tables.source import Source, as_table, batch_columns, check_columns, format_of, suffixes
from intarsia.tables.streamed import StreamedTable
from intarsia.tables.survey import kinds_in, levels_in, open_stream

AnyTable = Table | StreamedTable
MEMORY_LIMIT = 1 << 28  # bytes of numbers: a larger source is read in batches
LIMIT_VARIABLE = "INTARSIA_MEMORY_LIMIT"
LONGEST_NAME = 200  # bytes of a participant's name: most file systems allow 255, with ".csv", some fewer
NEED_ALL_ROWS = ("impute", "drop")  # settings of ``missing`` that need all rows in memory
_FEWEST_ROWS = 10  # fewer numbers may increase by chance


@dataclass(frozen=True)
class Ids:
    """The column of row IDs: in memory, or read in batches when it is written."""

    column: Any

    def chunks(self) -> Iterator[Any]:
        """Yield the column in the type that its table has: in one piece, or batch by batch."""
        if isinstance(self.column, Source):
            for batch in self.column.batches():
                yield from batch_columns(batch).values()
        else:
            yield self.column

    def __iter__(self) -> Iterator[Any]:
        """Yield the ID of every row."""
        for chunk in self.chunks():
            yield from chunk.to_pylist() if hasattr(chunk, "to_pylist") else chunk


@dataclass(frozen=True)
class Opened:
    """A participant's table, as far as it takes part, and the column of its row IDs.

    ``table`` is a :class:`~intarsia.tables.source.Source` if it is read in batches, otherwise a table in memory.
    ``all_columns`` are its columns before any were left out. If types are ``inferred`` from all its cells, no private study
    can use it. ``remark`` says what is unusual about the way it was read, ``doubtful`` why columns cannot be.
    """

    owner: str
    table: Any
    columns: tuple[str, ...]
    all_columns: tuple[str, ...]
    ids: Ids | None = None
    inferred: bool = False
    remark: str | None = None
    doubtful: Mapping[str, str] = field(default_factory=dict)
    line_of_text: Callable[[str], int | None] | None = None

    @property
    def is_streamed(self) -> bool:
        """Whether the table is read in batches."""
        return isinstance(self.table, Source)

    @property
    def n_rows(self) -> int | None:
        """The number of rows; None if no column is left."""
        if self.is_streamed:
            return len(self.table)
        columns = columns_of(self.table, self.columns[:1], self.owner)
        return next(map(len, columns.values()), None)

    def only(self, columns: Sequence[str]) -> Opened:
        """Return the table with these columns only."""
        check_columns(columns, self.columns, repr(self.owner))
        if tuple(columns) == self.columns:
            return self
        table = self.table.only(columns) if self.is_streamed else only_columns(self.table, columns)
        return replace(self, table=table, columns=tuple(columns))

    def as_ids(self) -> Ids:
        """Return the only column of this table as row IDs."""
        if self.is_streamed:
            return Ids(self.table)
        (column,) = columns_of(self.table, self.columns, self.owner).values()
        return Ids(column.to_native() if hasattr(column, "to_native") else column)

    def hold(self, missing: str = "observed", declared: DifferentialPrivacy | None = None) -> AnyTable:
        """Return what a participant holds: all rows in memory, or the statistics of one pass over them.

        In a private study columns are read as they are ``declared``, whatever their cells are; a file without types must
        have been opened so.
        """
        if self.all_columns and not self.columns:
            raise InputError(f"no column of {self.owner!r} is left to take part.")
        if declared is not None:
            if self.inferred:  # one cell may have changed others
                raise ValueError(
                    "A private table must be opened as it is declared. Hint: open_table(…, declared=privacy)."
                )
            return read_declared(self.table, self.owner, declared)
        self.check_read()
        try:
            if self.is_streamed:
                return open_stream(self.table, self.owner, missing)
            return settle_missing(read_table(self.table, self.owner), missing)
        except NonNumericError as error:
            if self.line_of_text is None or not error.columns:
                raise
            refused = error.columns[self.owner]
        raise unusable_columns({self.owner: self._with_lines(refused)})

    def check_read(self) -> None:
        """Raise an error about all columns that cannot be used if some can be read in two ways."""
        if any(name in self.doubtful for name in self.columns):
            kinds = self.kinds()
            refused = {name: kind for name, kind in kinds.items() if kind not in {NUMBERS, CATEGORIES}}
            raise unusable_columns({self.owner: refused})

    def kinds(self) -> dict[str, str]:
        """Return by column "numbers", "categories", or the reason why it is neither."""
        if not self.columns:
            return {}
        kinds = kinds_in(self.table, self.owner) if self.is_streamed else kinds_of(self.table, self.owner)
        kinds |= {name: self.doubtful[name] for name in self.columns if name in self.doubtful}
        return self._with_lines(kinds)

    def _with_lines(self, reasons: Mapping[str, str]) -> dict[str, str]:
        """Return reasons why columns cannot be used with the number of the line in which it shows first."""
        told, line_of_text = dict(reasons), self.line_of_text
        if line_of_text is None:
            return told
        for name, reason in reasons.items():
            if reason.startswith(f"{NUMBERS_AS_TEXT}, ") and (line := line_of_text(name)):
                told[name] = f"{reason}, first in line {line}"
        return told

    def row_id_columns(self) -> list[str]:
        """Return the columns that look like row IDs: whole numbers that increase with every row (of the first batch)."""
        table: Any = next(self.batches(), {})
        columns = columns_of(table, self.columns, self.owner) if self.columns else {}
        return [name for name, column in columns.items() if _looks_like_row_ids(as_numbers(column))]

    def moments(self) -> dict[str, tuple[float, float, float]]:
        """Return count, mean and sum of squared deviations of each column of numbers (of the first batch)."""
        table: Any = next(self.batches(), {})
        columns = columns_of(table, self.columns, self.owner) if self.columns else {}
        numbers = {name: as_numbers(column) for name, column in columns.items()}
        return {name: moments_of(values) for name, values in numbers.items() if values is not None}

    def level_counts(self, columns: Sequence[str]) -> dict[str, dict[str, int]]:
        """Return by column of categories, of these, the number of rows with each level."""
        if self.is_streamed:
            return {name: dict(counts) for name, counts in levels_in(self.table, self.owner).items() if name in columns}
        named = {name: words_in(column) for name, column in columns_of(self.table, columns, self.owner).items()}
        return {name: words.counts for name, words in named.items() if words is not None}

    def batches(self) -> Iterator[Any]:
        """Yield all rows as tables in memory: one, or one per batch."""
        yield from map(as_table, self.table.batches()) if self.is_streamed else (self.table,)


def _looks_like_row_ids(values: Any) -> bool:
    if values is None or len(values) < _FEWEST_ROWS:
        return False
    return bool((values[1:] > values[:-1]).all() and (values % 1 == 0).all())


def moments_of(values: FloatArray) -> tuple[float, float, float]:
    """Return count, mean and sum of squared deviations of the observed values; count is 0 if some are too large."""
    observed = values[~np.isnan(values)]
    if not len(observed) or np.abs(observed).max() > LARGEST:
        return 0.0, 0.0, 0.0
    mean = float(observed.mean())
    return float(len(observed)), mean, float(np.square(observed - mean).sum())


def open_table(
    table: Any,
    owner: str,
    *,
    id_column: str | None = None,
    columns: Sequence[str] | None = None,
    leave_out: Collection[str] = (),
    all_rows: bool = False,
    memory_limit: int | None = None,
    declared: DifferentialPrivacy | None = None,
    how: Reading = PLAIN,
    id_optional: bool = False,
) -> Opened:
    """Open one participant's table.

    Parameters
    ----------
    table : path, Source, table or mapping
        A path or object of a registered type, a table of any library that narwhals reads, or a mapping of column names
        to arrays. A table that was opened before is returned as it is.
    owner : str
        The participant's name, for messages.
    id_column : str, optional
        The column of row IDs. It takes no part in the clustering.
    columns : sequence of str, optional
        The columns that take part. Default: all.
    leave_out : collection of str
        Columns that take no part, if the table has them.
    all_rows : bool
        Read all rows into memory, however large the table is.
    memory_limit : int, optional
        A source that would take more bytes as numbers is read in batches. Default: the environment variable
        ``INTARSIA_MEMORY_LIMIT``, or 256 MiB.
    declared : DifferentialPrivacy, optional
        What a private study declares. Types of columns are then not inferred from cells: in a file without types every cell
        is read by itself.
    how : Reading
        What the participant says about its table: notation, dates and new names of columns.
    id_optional : bool
        The table may lack the column of row IDs.
    """
    if isinstance(table, Opened):
        return table
    if declared is not None:
        _check_typed(table, owner)
    opened = _open(table, owner, how)
    if declared is not None and isinstance(opened, CsvFile):
        opened.check_certain()
    inferred = isinstance(opened, Source) and opened.infers_types
    numbers = () if declared is None or not inferred else tuple(declared.bounds)
    opened = prepared(opened, owner, how, strict=declared is None, numbers=numbers)
    declared = declared if inferred else None  # of all others, types are known
    if declared is not None:
        opened, inferred = opened.as_text(), False
    notes: dict[str, Any] = {}
    if isinstance(opened, Source):
        notes = {"remark": opened.remark, "doubtful": opened.doubtful, "line_of_text": opened.line_of_text}
        if all_rows or opened.fits(_memory_limit() if memory_limit is None else memory_limit):
            as_stored = () if id_column is None or id_column not in opened.columns else (id_column,)
            opened = opened.read(as_stored) if declared is None else read_texts(opened, declared, as_stored)
    names = opened.columns if isinstance(opened, Source) else column_names(opened)
    if names is None:
        raise not_a_table(opened, owner)
    id_column = None if id_optional and id_column not in names else id_column
    whole = Opened(owner, opened, tuple(names), tuple(names), inferred=inferred, **notes)
    ids = None if id_column is None else _ids(whole, id_column)
    left_out = {id_column, *leave_out}
    return replace(whole.only([name for name in columns or names if name not in left_out]), ids=ids)


def _ids(whole: Opened, column: str) -> Ids:
    """Return a column as row IDs, as they stand in the table: 007 is not 7, nor is 1.50 the same as 1.5."""
    chosen = whole.only([column])
    return replace(chosen, table=chosen.table.as_text()).as_ids() if chosen.is_streamed else chosen.as_ids()


def _check_typed(table: Any, owner: str) -> None:
    """Refuse a spreadsheet in a private study: one cell can decide what the reader makes of others."""
    kind = None if isinstance(table, Source) or is_table(table) else format_of(table)
    if kind is not None and kind.name == EXCEL:
        raise InputError(
            f"the table of {owner!r} is a spreadsheet, which cannot be used with differential privacy: the type of its "
            "columns is guessed from cells. Hint: save the sheet as CSV or Parquet."
        )


def _open(table: Any, owner: str, how: Reading) -> Any:
    if isinstance(table, Source) or is_table(table):
        return table
    if is_stream(table):
        return read_stream(table)
    kind = format_of(table)
    if kind is not None:
        if kind.open is open_csv:
            return open_csv(table, decimal=how.decimal, encoding=how.encoding, owner=owner)
        return kind.open(table)
    if isinstance(table, str | os.PathLike) and exists(table):
        raise _unsupported([str(table)])
    raise not_a_table(table, owner)


def _memory_limit() -> int:
    text = os.environ.get(LIMIT_VARIABLE, str(MEMORY_LIMIT))
    if not text.isdecimal():
        raise SettingError(f"{LIMIT_VARIABLE} must be a number of bytes. Got {text!r} instead.")
    return int(text)


def needs_all_rows(missing: Any, local: Any = None) -> bool:
    """Return whether these settings of a participant need all rows in memory."""
    return local is not None or missing in NEED_ALL_ROWS


def is_openable(table: Any) -> bool:
    """Return whether this is one table for :func:`open_table`, of whatever type."""
    return isinstance(table, Opened | Source) or is_table(table) or is_stream(table) or format_of(table) is not None


def check_commas(path: str, owner: str, how: Reading) -> None:
    """Raise an error if a file has decimal commas that are not declared: a private study takes such cells as missing."""
    table = _open(path, owner, how)
    if isinstance(table, CsvFile) and how.decimal is None and table.has_commas:
        raise InputError(
            f"the table of {owner!r} has numbers with decimal commas, and in a private study nothing is inferred from "
            f"cells. Hint: --decimal {owner}=,"
        )


def named_paths(arguments: Sequence[str]) -> dict[str, str]:
    """Return participants and the locations of their tables from arguments ``path`` or ``name=path``.

    A participant is named like its file if no name is given. All faults of one type are named at once.
    """
    pairs = [_name_and_location(text) for text in arguments]
    if missing := [location for _, location in pairs if not exists(location)]:
        raise InputError(f"{len(missing)} file(s) not found: {quote(missing)}.")
    if unsupported := [location for _, location in pairs if format_of(location) is None]:
        raise _unsupported(unsupported)
    names = [name for name, _ in pairs]
    if invalid := [name for name in names if not name.strip() or set(name) & set("/\\\0") or not is_valid_text(name)]:
        raise InputError(f"{len(invalid)} participant name(s) cannot be file names: {quote(invalid)}.")
    if long := [name for name in names if len(name.encode()) > LONGEST_NAME]:
        raise InputError(
            f"{len(long)} participant name(s) have more than {LONGEST_NAME} bytes: {quote(long)}. Labels are written to "
            "files of these names. Hint: shorter names, as in clinic-a=data/a.csv."
        )
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"{len(repeated)} participant name(s) occur more than once: {quote(repeated)}. "
            "Hint: name them, as in clinic-a=data/a.csv."
        )
    check_participants(names)
    return dict(pairs)


def _name_and_location(text: str) -> tuple[str, str]:
    name, equals, location = text.partition("=")
    if not equals or exists(text):
        return Path(text).stem, text
    return name, location


def exists(location: str | os.PathLike[str]) -> bool:
    """Return whether a text is the path of a file or folder."""
    try:
        return bool(str(location)) and (Path(location).is_file() or Path(location).is_dir())
    except (OSError, ValueError):  # a text that cannot be a path
        return False


def _unsupported(locations: Sequence[str]) -> InputError:
    if folders := [location for location in locations if Path(location).is_dir()]:
        return InputError(f"{len(folders)} folder(s) contain no Parquet files: {quote(folders)}.")
    names = [Path(location).name for location in locations]
    return TableTypeError(
        f"unsupported file type of {len(names)} file(s): {quote(names)}. Supported are {', '.join(suffixes())}."
    )
