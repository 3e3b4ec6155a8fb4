"""CSV files: numbers go straight into their matrix, and the text of a large file is never in memory at once.

The type of a column is inferred from all rows, as polars would: the file is parsed twice, for types and for values, or
once more in every pass if it is read in batches. Encodings are told apart in ``csv_text``, notations of numbers in
``local_numbers``. For a private study nothing is inferred: all columns are texts, because one cell may change the type of a
column, and polars fails at some cells of the type that it inferred.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from intarsia.exceptions import InputError, SettingError
from intarsia.tables.csv_columns import joint, stacked, whole_numbers
from intarsia.tables.csv_records import LONGEST_RECORD, first_record, records, separator_in
from intarsia.tables.csv_shape import Shape, line_of_text, shape_of, without_names
from intarsia.tables.csv_text import UTF_8, open_text, state_of
from intarsia.tables.frame import CATEGORIES, NUMBERS
from intarsia.tables.local_numbers import (
    COMMA,
    POINT,
    SUSPECT,
    Evidence,
    Notation,
    Notations,
    check_decimal,
    evidence_of,
    settle,
)
from intarsia.tables.names import check_header
from intarsia.tables.source import TEXT, Source, needed, reading, register_source

if TYPE_CHECKING:
    import polars as pl

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", ".", "-")
PIECE = 1 << 23  # bytes of text that are parsed at a time
_TABS = (".tsv", ".tab")
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


class CsvFile(Source):
    """A CSV file. Its separator is the most frequent of ; , tab and | in the first line.

    ``encoding`` and ``decimal`` are taken where the file itself does not decide.
    """

    infers_types = True

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        separator: str | None = None,
        decimal: str | None = None,
        encoding: str | None = None,
        owner: str | None = None,
        piece: int = PIECE,
        longest_record: int = LONGEST_RECORD,
    ) -> None:
        self._path, self._piece, self._longest = Path(path), piece, longest_record
        self._decimal, self._owner = decimal, owner or self._path.stem
        with self._reading():
            self._text = open_text(self._path, encoding)
            self._state = state_of(self._path)
            header = first_record(self._text, longest_record)
        tabs = "\t" if self._path.suffix.lower() in _TABS else None
        self._separator = separator or self._text.separator or tabs or separator_in(header)
        self._check_header(header)

    def check_certain(self) -> None:
        """Raise an error if the encoding was guessed: in a private study one row must not decide how others are read."""
        if self._text.is_guessed:
            raise InputError(
                f"{self._path.name} is not UTF-8, and in a private study its encoding is not guessed from its rows. "
                "Hint: --encoding windows-1252, or the encoding that it has."
            )

    @property
    def has_commas(self) -> bool:
        """Whether columns have decimal commas, which a private study reads only where they are declared."""
        return any(each.decimal == COMMA for each in self._notations.columns.values())

    def _check_header(self, header: bytes) -> None:
        """Raise an error if a name is too long or occurs twice: polars would rename the second."""
        import polars as pl

        with self._reading():
            cells = (
                pl.read_csv(header, separator=self._separator, has_header=False, infer_schema_length=0)
                if header.strip()
                else None
            )
        if cells is None:
            raise InputError(
                f"{self._path.name} is empty: it needs a header and rows. Hint: was it written completely?"
            )
        names = [name or "" for name in cells.row(0)]
        named = len(names)
        while named and not names[named - 1].strip():
            named -= 1
        self._n_unnamed = len(names) - named if named else 0
        check_header(names[:named] or names, self._path.name)

    def _reading(self) -> AbstractContextManager[None]:
        return reading(self._path, "csv", ", that quotation marks inside cells are doubled")

    @property
    def kinds(self) -> Mapping[str, str]:
        """By column "numbers", "categories" (of booleans), "text", or why its numbers cannot be read."""
        return {
            name: self.doubtful.get(name)
            or (NUMBERS if kind.is_numeric() else CATEGORIES if str(kind) == "Boolean" else TEXT)
            for name, kind in self._types.items()
        }

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._names)

    @property
    def doubtful(self) -> Mapping[str, str]:
        """Columns of numbers that can be read in two ways, and why."""
        return self._notations.doubtful if self.infers_types else {}

    @property
    def remark(self) -> str | None:
        """How the file is read, in words; None if it is CSV as everybody writes it."""
        numbers = self._notations.words() if self.infers_types else []
        shape = self._shape.words() if self.infers_types else []
        words = [] if self._text.codec == UTF_8 else [self._text.encoding]
        separated = [f"separated by {_SEPARATORS[self._separator]}"] if self._separator in _SEPARATORS else []
        return "; ".join([*words, *separated, *numbers, *shape]) if words or numbers or shape else None

    @cached_property
    def _n_rows(self) -> int:
        return sum(self._parse(text, infer_schema_length=0, columns=[0]).height for text in self._pieces())

    def __len__(self) -> int:
        with self._reading():
            return self._n_rows

    def fits(self, limit: int) -> bool:
        """Return whether the table takes at most so many bytes as numbers. A cell takes at least one byte of the file."""
        return 8 * self._state[0] <= limit or super().fits(limit)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield all rows, some thousands at a time, as polars tables."""
        import polars as pl

        types = {name: pl.Float64() if kind.is_integer() else kind for name, kind in self._types.items()}
        with self._reading():
            yield from self._parsed(types, self._columns_read if self.infers_types else {}, columns)

    def _parsed(
        self, types: Mapping[str, pl.DataType], notations: Mapping[str, Notation], columns: Sequence[str] | None = None
    ) -> Iterator[pl.DataFrame]:
        import polars as pl

        types = {**types, **{name: pl.String() for name in notations}}
        chosen = None if columns is None else [name for name in self._names if name in set(columns)]
        numbers = [each.expression(name) for name, each in notations.items() if chosen is None or name in chosen]
        for text in self._pieces():
            piece = self._parse(text, schema_overrides=types, infer_schema_length=0, columns=chosen)
            del text
            piece = piece.with_columns(numbers)
            yield piece.select(self._names if columns is None else columns)
            del piece
        self._check_unchanged()

    def as_text(self) -> CsvFile:
        """Return the file with texts in all columns: only its header is looked at."""
        import polars as pl

        texts = copy(self)
        texts.infers_types = False
        texts.__dict__["_types"] = {name: pl.String() for name in texts._names}  # noqa: SLF001  (of the same class)
        return texts

    def read(self, as_stored: Collection[str] = ()) -> dict[str, Any]:
        """Return columns by name: arrays of numbers, polars' own type for all others and for columns ``as_stored``."""
        import polars as pl

        with self._reading():
            try:
                return self._read(as_stored)
            except pl.exceptions.ComputeError:
                whole = [name for name, kind in self._types.items() if kind.is_integer()]
                if not whole:
                    raise
                # polars takes digits for an integer, however many there are, and then fails
                self._types |= {name: pl.String() if name in as_stored else pl.Float64() for name in whole}
                return self._read(as_stored)

    def _read(self, as_stored: Collection[str]) -> dict[str, Any]:
        import polars as pl

        stored = {name for name in as_stored if self._types[name].is_integer()}
        types = self._types | {name: pl.String() for name in stored}
        read = self._columns_read if self.infers_types else {}
        numbers = [name for name, kind in self._types.items() if kind.is_numeric() and name not in as_stored]
        parts, others = [], []
        for piece in self._parsed(types, {name: each for name, each in read.items() if name not in as_stored}):
            parts.append(
                piece.select(pl.col(numbers).cast(pl.Float64)).to_numpy() if numbers else np.empty((piece.height, 0))
            )
            others.append(piece.drop(numbers))
        values, rest = stacked(parts, len(numbers)), pl.concat(others)
        rest = rest.with_columns(whole_numbers(rest[name]) for name in stored)
        position = {name: k for k, name in enumerate(numbers)}
        return {
            name: values[:, position[name]] if name in position else nw.from_native(rest[name], series_only=True)
            for name in self._types
        }

    @property
    def _names(self) -> list[str]:
        """The names of the columns, without those at the end that have neither name nor value, which spreadsheets leave."""
        names = self._header_names
        last = names[len(names) - self._n_unnamed :]
        first = len(names) - len(last) + 1
        if self.infers_types and (filled := [k for k, name in enumerate(last, first) if self._surveyed[0][name]]):
            raise without_names(self._owner, self._path.name, filled, len(names))
        return names[: len(names) - len(last)]

    @cached_property
    def _header_names(self) -> list[str]:
        with self._reading():
            header = next(self._pieces(), None)
            return [] if header is None else self._parse(header, infer_schema_length=0, n_rows=0).columns

    @cached_property
    def _columns_read(self) -> Mapping[str, Notation]:
        """The columns of numbers in another notation than that of a CSV file."""
        return {name: each for name, each in self._notations.columns.items() if each != Notation()}

    @cached_property
    def _types(self) -> dict[str, pl.DataType]:
        """The type of every column, over all pieces in which it has a value."""
        import polars as pl

        types = {name: joint(self._surveyed[0][name]) for name in self._names}
        stored = {name: pl.String() for name in self._notations.doubtful}
        return types | {name: pl.Float64() for name in self._columns_read} | stored

    @cached_property
    def _notations(self) -> Notations:
        """How the numbers of all columns are written: looked at once more where a column may have another notation."""
        types, suspects = self._surveyed
        floats = {name for name, kinds in types.items() if any(kind.is_float() for kind in kinds)}
        is_plain = not suspects and self._decimal != COMMA
        is_local = self._separator == ";" or self._text.codec.startswith("utf-16")
        if is_plain and not is_local:
            return Notations({}, {})
        asked = [name for name in types if name in suspects or name in floats]
        evidence = {name: Evidence() for name in asked}
        with self._reading():
            for text in self._pieces() if asked else ():
                cells = self._parse(text, infer_schema_length=0, columns=asked)
                evidence |= {name: evidence[name] + evidence_of(cells[name]) for name in asked}
                if is_plain and any(each.count("decimal", POINT) for each in evidence.values()):
                    return Notations({}, {})  # a point is a decimal point here
        return settle(evidence, self._decimal, self._separator, self._owner, is_local=is_local)

    @cached_property
    def _surveyed(self) -> tuple[dict[str, set[pl.DataType]], set[str]]:
        """The types of each column in all pieces, and the columns with a text that may be a number in another notation."""
        import polars as pl

        types: dict[str, set[pl.DataType]] = {}
        suspects: set[str] = set()
        with self._reading():
            for text in self._pieces():
                # no row is wanted, but polars 1.0 parses some, and fails at digits that are too many for an integer
                kinds = dict(self._parse(text, infer_schema_length=None, n_rows=0, ignore_errors=True).schema)
                texts = [name for name, kind in kinds.items() if kind == pl.String]  # or columns without any value
                cells = self._parse(text, infer_schema_length=0, columns=texts) if texts else pl.DataFrame()
                for name, kind in kinds.items():
                    filled = name not in texts or cells[name].null_count() < cells.height
                    types.setdefault(name, set()).update({kind} if filled else ())
                    if name in texts and filled and cells[name].str.contains(SUSPECT).any():
                        suspects.add(name)
        return types, suspects

    def line_of_text(self, column: str) -> int | None:
        """Return the number of the first line in which a column has a text that is no number; None if it has none."""
        with self._reading():
            parse = partial(self._parse, infer_schema_length=0, columns=[column])
            return line_of_text(self._pieces(), parse, self._separator, self._text.first_line)

    def _check_unchanged(self) -> None:
        """Raise an error if the file has changed: all passes over a table must see the same rows."""
        if state_of(self._path) != self._state:
            raise InputError(
                f"{self._path.name} was changed while it was read. Hint: run it again when nobody writes it."
            )

    @cached_property
    def _shape(self) -> Shape:
        with self._reading():
            return shape_of(self._text, self._separator, self._piece, self._longest)

    def _parse(self, text: bytes, **options: Any) -> pl.DataFrame:
        import polars as pl

        options |= {"separator": self._separator, "null_values": list(MISSING)}
        try:
            return pl.read_csv(text, truncate_ragged_lines=self._shape.is_ragged, **options)
        except pl.exceptions.ComputeError:
            if self._shape.is_ragged:
                raise
            shape = shape_of(self._text, self._separator, self._piece, self._longest, each_row=True)
            if not shape.is_ragged:
                raise
            self.__dict__["_shape"] = shape
            return pl.read_csv(text, truncate_ragged_lines=True, **options)

    def _pieces(self) -> Iterator[bytes]:
        """Yield the text in pieces, each of which is a CSV file with the same header, without blank rows at the end.

        In a private study these stay, since which rows are the last ones depends on the rows of others.
        """
        header, left = b"", self._shape.end if self.infers_types else None
        for parts in records(self._text, self._piece, self._longest):
            text = b"".join(parts)
            parts.clear()  # one cell may be nearly the whole file
            if left is not None:
                text = text[:left]
                left -= len(text)
                if not text:
                    return
            text = header + text if header else text
            if not header:
                names = self._parse(text, infer_schema_length=0, n_rows=0)
                header = names.write_csv(separator=self._separator).encode()
            yield text
            del text


def scan_csv(
    path: str | PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    decimal: str | None = None,
    encoding: str | None = None,
    separator: str | None = None,
) -> Source:
    """Return a CSV file as the table of one participant. It is read in batches if it is large.

    Most files need none of these settings: what a file itself decides is read without them, and an error says what it does
    not decide.

    Parameters
    ----------
    path : path
        A CSV file with a header.
    columns : sequence of str, optional
        The columns that take part. Default: all.
    decimal : "," or ".", optional
        The decimal sign of columns such as 1,234, whose cells do not decide it.
    encoding : str, optional
        The encoding, such as ``"windows-1252"``, of a file that is neither UTF-8 nor UTF-16.
    separator : str, optional
        What separates cells. Default: the most frequent of ; , tab and | in the header.

    Examples
    --------
    >>> import intarsia
    >>> tables = {"north": intarsia.scan_csv("north.csv", decimal=","), "south": table}  # doctest: +SKIP
    """
    needed("polars", "CSV files", "cli")
    if isinstance(columns, str):
        raise SettingError(f"columns must be a list of names. Got {columns!r} instead.")
    if separator is not None and (len(separator.encode()) != 1 or separator in '"\r\n'):
        raise SettingError(f"separator must be one ASCII letter, such as ';'. Got {separator!r} instead.")
    table = CsvFile(path, separator=separator, decimal=check_decimal(decimal), encoding=encoding)
    return table if columns is None else table.only(columns)


def open_csv(path: str | PathLike[str], **settings: Any) -> CsvFile:
    """Open a CSV or TSV file; the settings are those of :class:`CsvFile`."""
    needed("polars", "CSV files", "cli")
    return CsvFile(path, **settings)


register_source("csv", open_csv, suffixes=(".csv", ".tsv", ".tab", ".txt"))
