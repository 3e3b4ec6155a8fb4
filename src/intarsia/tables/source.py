"""Table sources: the interface of a table that is read in batches, and the registry of types that can be opened.

A new type of table costs one file: a subclass of :class:`Source` (or a function that returns a table in memory) and a
call of :func:`register_source`. Installed packages may name a module that makes this call in the entry point group
``intarsia.sources``; it is imported when a table is of no type known so far.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from intarsia.core.types import FloatArray
from intarsia.exceptions import InputError, SettingError, install, quote
from intarsia.tables.categories import Category, is_blank, level_name, words_in
from intarsia.tables.frame import CATEGORIES, NUMBERS, as_array, as_numbers, columns_of
from intarsia.tables.names import column_names

TEXT = "text"
ENTRY_POINTS = "intarsia.sources"


class Source(ABC):
    """A table outside memory, whose rows can be read again and again in batches, always in the same order.

    A subclass has :attr:`kinds`, ``__len__`` (the number of rows) and :meth:`batches`; the rest follows from them. With
    ``n_jobs``, it is pickled.
    """

    infers_types = False  # whether types of columns are inferred from all cells, as in files that have none

    @property
    @abstractmethod
    def kinds(self) -> Mapping[str, str]:
        """By column ``"numbers"``, ``"text"`` (categories, if it has few levels), ``"categories"``, or another type's
        name: such a column cannot be used, and the name is the reason in the error.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield all rows with these columns (default: all), some thousands at a time.

        A batch is a mapping of column names to lists or arrays, or a pandas, polars or pyarrow table.
        """

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.kinds)

    @property
    def n_bytes(self) -> int:
        """Memory that the table would take as numbers; a large table is not read as a whole."""
        return 8 * len(self) * len(self.columns)

    def fits(self, limit: int) -> bool:
        """Return whether the table takes at most so many bytes as numbers."""
        return self.n_bytes <= limit

    @property
    def doubtful(self) -> Mapping[str, str]:
        """Columns that can be read in two ways, and why; they are not read."""
        return {}

    @property
    def remark(self) -> str | None:
        """What is unusual about the way the source is read, in words."""
        return None

    def line_of_text(self, column: str) -> int | None:  # noqa: ARG002  (for files of text)
        """Return the number of the first line in which a column has a text that is no number; None if nobody knows."""
        return None

    def only(self, columns: Sequence[str]) -> Source:
        """Return the source with these columns only."""
        check_columns(columns, self.columns, "the table")
        return _Selection(self, tuple(columns))

    def as_text(self) -> Source:
        """Return the source with texts in all columns if their types are inferred; otherwise itself."""
        return self

    def read(self, as_stored: Collection[str] = ()) -> Any:  # noqa: ARG002  (for sources that convert)
        """Return all rows as one table in memory; columns ``as_stored`` keep the type that they have in the source."""
        parts = [batch_columns(batch) for batch in self.batches()]
        return {name: [cell for part in parts for cell in part[name]] for name in self.columns}


class _Selection(Source):
    """Some columns of another source."""

    def __init__(self, source: Source, columns: tuple[str, ...]) -> None:
        self._source, self._columns = source, columns
        self.infers_types = source.infers_types

    @property
    def kinds(self) -> Mapping[str, str]:
        return {name: self._source.kinds[name] for name in self._columns}

    def __len__(self) -> int:
        return len(self._source)

    @property
    def doubtful(self) -> Mapping[str, str]:
        return {name: reason for name, reason in self._source.doubtful.items() if name in self._columns}

    @property
    def remark(self) -> str | None:
        return self._source.remark

    def line_of_text(self, column: str) -> int | None:
        return self._source.line_of_text(column)

    def as_text(self) -> Source:
        return _Selection(self._source.as_text(), self._columns)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        return self._source.batches(self._columns if columns is None else columns)


def check_columns(columns: Collection[str], known: Collection[str], owner: str) -> None:
    """Raise an error if a table lacks some of these columns."""
    if missing := [name for name in columns if name not in set(known)]:
        raise InputError(f"{owner} has no column {quote(missing)}. It has {quote(known)}.")


class Format(NamedTuple):
    """A type of table: how it is recognised, and the function that opens it."""

    name: str
    open: Callable[[Any], Any]
    suffixes: tuple[str, ...]
    matches: Callable[[Any], bool] | None

    def fits(self, table: Any) -> bool:
        """Return whether a path ends with one of the suffixes, or the predicate holds."""
        if isinstance(table, str | PathLike) and Path(table).suffix.lower() in self.suffixes:
            return True
        return self.matches is not None and self.matches(table)


_FORMATS: dict[str, Format] = {}


def register_source(
    name: str,
    opener: Callable[[Any], Any],
    *,
    suffixes: Sequence[str] = (),
    matches: Callable[[Any], bool] | None = None,
) -> None:
    """Make a type of table known to Python functions, to the command line and to federated sites.

    Parameters
    ----------
    name : str
        The name of the type, for messages. A type that is registered again is replaced.
    opener : callable
        Called with the path or object that fits; returns a :class:`Source`, or a table in memory of any supported type.
    suffixes : sequence of str
        Endings of paths that fit, such as ``[".sqlite"]``.
    matches : callable, optional
        Returns whether a path or object fits; for what cannot be recognised by a suffix.

    Examples
    --------
    >>> import pandas, intarsia
    >>> intarsia.register_source("stata", pandas.read_stata, suffixes=[".dta"])  # doctest: +SKIP
    """
    if not suffixes and matches is None:
        raise SettingError(f"source {name!r} has neither suffixes nor matches: no table would be opened by it.")
    _FORMATS.pop(name, None)
    _FORMATS[name] = Format(name, opener, tuple(suffix.lower() for suffix in suffixes), matches)


def format_of(table: Any) -> Format | None:
    """Return the registered type that a path or object is of, the latest first; None if no type fits."""
    kind = _registered(table)
    if kind is None and isinstance(table, str | PathLike):
        _import_packages()
        kind = _registered(table)
    return kind


def _registered(table: Any) -> Format | None:
    return next((kind for kind in reversed(_FORMATS.values()) if kind.fits(table)), None)


@cache
def _import_packages() -> None:
    for entry in entry_points(group=ENTRY_POINTS):
        entry.load()


def suffixes() -> list[str]:
    """Return the endings of all supported file types."""
    return [suffix for kind in _FORMATS.values() for suffix in kind.suffixes]


def not_found(path: Path) -> InputError:
    """Return the error about a file that does not exist."""
    return InputError(f"{path} not found. Hint: a relative path starts at the folder in which Python runs.")


@contextmanager
def reading(path: Path, kind: str, hint: str = "") -> Iterator[None]:
    """Replace a reader's own error, whose text may quote values; ``hint`` is one more thing to check."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise not_found(path) from None
    except Exception as error:
        raise InputError(
            f"{path.name} cannot be read as {kind}: {type(error).__name__}. "
            f"Hint: check that the file is complete{hint}, and that its ending fits its type."
        ) from error


def needed(library: str, files: str, extra: str) -> None:
    """Raise an error that says how to install a library that these files need."""
    if find_spec(library) is None:
        raise InputError(f"{files} need {library}. {install(extra)}")


def batch_columns(batch: Any) -> dict[str, Any]:
    """Return the columns of a batch by name."""
    if hasattr(batch, "schema") and hasattr(batch, "to_pydict"):  # pyarrow
        return dict(zip(batch.schema.names, batch.columns, strict=True))
    names = column_names(batch)
    assert names is not None
    return columns_of(batch, names, "batch")


def as_table(batch: Any) -> Any:
    """Return a batch as a table: pyarrow's record batches are of another type than its tables."""
    if not hasattr(batch, "to_struct_array") or hasattr(batch, "to_batches"):
        return batch
    import pyarrow as pa

    return pa.Table.from_batches([batch])


def numbers_of(column: Any) -> FloatArray:
    """Return a batch's column as numbers, NaN for missing values."""
    if is_arrow(column):
        import pyarrow as pa

        if column.type != pa.float64():
            column = column.cast(pa.float64(), safe=False)
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    numbers = as_numbers(as_array(column))
    if numbers is None:
        raise InputError(f"a column of {NUMBERS} holds cells that are not numbers.")
    return numbers


def words_of(column: Any) -> Category:
    """Return a batch's column of texts, booleans or categories as a category with the levels of this batch."""
    if not is_arrow(column):
        words = words_in(as_array(column))
        if words is None:
            raise InputError(f"a column of {TEXT} or {CATEGORIES} holds cells that are neither.")
        return words
    import pyarrow as pa

    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    cells = [None if is_blank(cell) else level_name(cell) for cell in encoded.dictionary.to_pylist()]
    levels = Category.of_words(cells)
    raw = encoded.indices.fill_null(len(cells)).to_numpy(zero_copy_only=False)
    return Category(levels.levels, np.append(levels.codes, -1)[np.asarray(raw, dtype=np.intp)])


def is_arrow(column: Any) -> bool:
    """Return whether a batch's column is an array of pyarrow."""
    return hasattr(column, "dictionary_encode") and hasattr(column, "type")


def is_arrow_number(column: Any) -> bool:
    """Return whether the type of an array of pyarrow is a number."""
    import pyarrow as pa

    types = pa.types
    return bool(types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type))
