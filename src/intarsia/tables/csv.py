"""CSV files: numbers go straight into their matrix, and the text of a large file is never in memory at once.

The type of a column is inferred from all rows, as polars would: the file is parsed twice, for types and for values. For a
private study nothing is inferred: all columns are texts, because one cell may change the type of a column, and polars fails
at some cells of the type that it inferred.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw
import numpy as np

from intarsia.core.types import FloatArray
from intarsia.exceptions import InputError
from intarsia.tables.frame import CATEGORIES, NUMBERS
from intarsia.tables.names import check_header
from intarsia.tables.source import TEXT, Source, needed, reading, register_source

if TYPE_CHECKING:
    import polars as pl

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", ".", "-")
PIECE = 1 << 23  # bytes of text that are parsed at a time
LONGEST_RECORD = 1 << 22  # bytes: a record with line breaks in quotes that is longer has a quote that is never closed
_TABS = (".tsv", ".tab")
_LINE_END, _QUOTE = b"\n", b'"'


class CsvFile(Source):
    """A CSV file in UTF-8. Its separator is the most frequent of ; , tab and | in the first line."""

    infers_types = True
    n_bytes = 0  # always read as a whole: to parse the text anew in every pass would take longer than the passes

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        separator: str | None = None,
        piece: int = PIECE,
        longest_record: int = LONGEST_RECORD,
    ) -> None:
        self._path, self._piece, self._longest = Path(path), piece, longest_record
        with self._reading():
            _check_encoding(self._path)
            header = _first_record(self._path, longest_record)
        tabs = b"\t" if self._path.suffix.lower() in _TABS else None
        first_line = header.split(_LINE_END, 1)[0]
        self._separator = separator or (tabs or max((b";", b",", b"\t", b"|"), key=first_line.count)).decode()
        self._check_header(header)

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
        check_header([name or "" for name in cells.row(0)], self._path.name)

    def _reading(self) -> AbstractContextManager[None]:
        return reading(self._path, "csv", ", that quotation marks inside cells are doubled")

    @property
    def kinds(self) -> Mapping[str, str]:
        """By column "numbers", "categories" (of booleans) or "text"."""
        return {
            name: NUMBERS if kind.is_numeric() else CATEGORIES if str(kind) == "Boolean" else TEXT
            for name, kind in self._types.items()
        }

    def __len__(self) -> int:
        return sum(piece.height for piece in self.batches())

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield all rows, some thousands at a time, as polars tables."""
        with self._reading():
            for text in self._pieces():
                piece = self._parse(text, schema_overrides=self._types, infer_schema_length=0)
                del text
                yield piece if columns is None else piece.select(columns)
                del piece

    def as_text(self) -> CsvFile:
        """Return the file with texts in all columns: only its header is looked at."""
        import polars as pl

        with self._reading():
            header = next(self._pieces(), None)
            names = [] if header is None else self._parse(header, infer_schema_length=0, n_rows=0).columns
        texts = copy(self)
        texts.__dict__.update(infers_types=False, _types={name: pl.String() for name in names})
        return texts

    def read(self, as_stored: Collection[str] = ()) -> dict[str, Any]:
        """Return columns by name: arrays of numbers, polars' own type for all others and for columns ``as_stored``."""
        import polars as pl

        try:
            return self._read(as_stored)
        except InputError:
            whole = [name for name, kind in self._types.items() if kind.is_integer()]
            if not whole:
                raise
            # polars takes digits for an integer, however many there are, and then fails
            self._types |= {name: pl.String() if name in as_stored else pl.Float64() for name in whole}
            return self._read(as_stored)

    def _read(self, as_stored: Collection[str]) -> dict[str, Any]:
        import polars as pl

        numbers = [name for name, kind in self._types.items() if kind.is_numeric() and name not in as_stored]
        parts, others = [], []
        for piece in self.batches():
            parts.append(
                piece.select(pl.col(numbers).cast(pl.Float64)).to_numpy() if numbers else np.empty((piece.height, 0))
            )
            others.append(piece.drop(numbers))
        values, rest = _stacked(parts, len(numbers)), pl.concat(others)
        position = {name: k for k, name in enumerate(numbers)}
        return {
            name: values[:, position[name]] if name in position else nw.from_native(rest[name], series_only=True)
            for name in self._types
        }

    @cached_property
    def _types(self) -> dict[str, pl.DataType]:
        """The type of every column, over all pieces in which it has a value."""
        import polars as pl

        types: dict[str, set[pl.DataType]] = {}
        with self._reading():
            for text in self._pieces():
                # no row is wanted, but polars 1.0 parses some, and fails at digits that are too many for an integer
                kinds = dict(self._parse(text, infer_schema_length=None, n_rows=0, ignore_errors=True).schema)
                texts = [name for name, kind in kinds.items() if kind == pl.String]  # or columns without any value
                cells = self._parse(text, infer_schema_length=0, columns=texts) if texts else pl.DataFrame()
                for name, kind in kinds.items():
                    filled = name not in texts or cells[name].null_count() < cells.height
                    types.setdefault(name, set()).update({kind} if filled else ())
        return {name: _joint(kinds) for name, kinds in types.items()}

    def _parse(self, text: bytes, **options: Any) -> pl.DataFrame:
        import polars as pl

        return pl.read_csv(text, separator=self._separator, null_values=list(MISSING), **options)

    def _pieces(self) -> Iterator[bytes]:
        """Yield the text in pieces, each of which is a CSV file with the same header."""
        header = b""
        for parts in _records(self._path, self._piece, self._longest):
            text = b"".join([header, *parts])
            parts.clear()  # one cell may be nearly the whole file
            if not header:
                names = self._parse(text, infer_schema_length=0, n_rows=0)
                header = names.write_csv(separator=self._separator).encode()
            yield text
            del text


def open_csv(path: str | PathLike[str]) -> CsvFile:
    """Open a CSV or TSV file."""
    needed("polars", "CSV files", "cli")
    return CsvFile(path)


register_source("csv", open_csv, suffixes=(".csv", ".tsv", ".tab", ".txt"))


def _stacked(parts: list[FloatArray], width: int) -> FloatArray:
    """Return one matrix of many, each of which is freed as soon as it is copied."""
    values, top = np.empty((sum(map(len, parts)), width)), 0
    while parts:
        part = parts.pop(0)
        values[top : top + len(part)] = part
        top += len(part)
    return values


def _joint(kinds: Collection[pl.DataType]) -> pl.DataType:
    """Return the type that polars would infer for a column whose pieces have these types."""
    import polars as pl

    if len(kinds) == 1:
        return next(iter(kinds))
    return pl.Float64() if kinds and all(kind.is_numeric() for kind in kinds) else pl.String()


def _records(path: Path, size: int, longest: int) -> Iterator[list[bytes]]:
    """Yield the text in pieces of about ``size`` bytes that end where a record does; no record ends within quotes.

    A piece is a list of its parts. Every byte is looked at once: what follows the last end of a record is kept for the
    next piece.
    """
    kept: list[bytes] = []
    n_kept, line, quoted, line_break = 0, 1, False, -1  # line: where kept begins; line_break: the first within quotes
    with path.open("rb") as file:
        while text := file.read(size):
            scan = _scan(text, quoted=quoted)
            if scan.end:
                kept.append(text[: scan.end])
                line += sum(part.count(_LINE_END) for part in kept)
                yield kept
                kept, n_kept, line_break = [], -scan.end, -1
            if line_break < 0 and scan.line_break >= 0:
                line_break = n_kept + scan.line_break
            kept.append(text[scan.end :])
            n_kept, quoted = n_kept + len(text), scan.quoted
            if quoted and 0 <= line_break < n_kept - longest:
                raise _open_quote(path, b"".join(kept), line, line_break, f"within {longest >> 20} MiB")
    if quoted:
        raise _open_quote(path, b"".join(kept), line, line_break, "before the file ends")
    if any(kept):
        yield kept


class _Scan(NamedTuple):
    """Where the last complete record of a text ends (0: none does), the first line break within quotes after it (−1 if there
    is no such break), and whether the text ends within quotes.
    """

    end: int
    line_break: int
    quoted: bool


def _scan(text: bytes, *, quoted: bool) -> _Scan:
    if _QUOTE not in text:
        return (
            _Scan(0, text.find(_LINE_END), quoted=True)
            if quoted
            else _Scan(text.rfind(_LINE_END) + 1, -1, quoted=False)
        )
    letters = np.frombuffer(text, dtype=np.uint8)
    inside = np.logical_xor.accumulate(letters == ord(_QUOTE)) ^ quoted
    breaks = np.flatnonzero(letters == ord(_LINE_END))
    within = inside[breaks]
    ends = breaks[~within]
    end = int(ends[-1]) + 1 if len(ends) else 0
    after = breaks[within & (breaks >= end)]
    return _Scan(end, int(after[0]) if len(after) else -1, quoted=bool(inside[-1]))


def _open_quote(path: Path, record: bytes, line: int, line_break: int, where: str) -> InputError:
    """Return the error about a quotation mark that is not closed, with the number of the line in which it stands."""
    opened = record.rfind(_QUOTE, 0, line_break if line_break >= 0 else None)
    line += record.count(_LINE_END, 0, opened)
    return InputError(
        f"{path.name} has a quotation mark in line {line} that is not closed {where}, so that the lines after it would be "
        'read as one cell. Hint: in that line, delete the mark, or write it twice ("") inside a cell that is quoted.'
    )


def _check_encoding(path: Path) -> None:
    """Raise an error for a file that is not UTF-8, rather than read it as something else."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        try:
            while chunk := file.read(2 * PIECE):
                decoder.decode(chunk)
                if b"\0" in chunk:
                    break
            else:
                return
        except UnicodeDecodeError:
            pass
    raise InputError(
        f"{path.name} is not text in UTF-8. Hint: save it as UTF-8: in Excel as 'CSV UTF-8', elsewhere with "
        "iconv -f latin1 -t utf-8 (or -f utf-16)."
    )


def _first_record(path: Path, longest: int) -> bytes:
    """Return the header, to its last byte: its names may have line breaks within quotes."""
    parts: list[bytes] = []
    quoted, n_read = False, 0
    with path.open("rb") as file:
        for line in file:
            parts.append(line)
            quoted, n_read = quoted ^ bool(line.count(_QUOTE) % 2), n_read + len(line)
            if not quoted or n_read > longest:
                break
    return b"".join(parts).removeprefix(codecs.BOM_UTF8)
