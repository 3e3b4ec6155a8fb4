"""Tables from files: CSV, TSV, Parquet and folders of it, Feather, Arrow, Excel.

A party is named like its file, or ``name=path``.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from intarsia.exceptions import DuplicateColumnError, InputError, quote

if TYPE_CHECKING:
    from intarsia.tables import ParquetTable

SUFFIXES = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".feather": "arrow", ".arrow": "arrow", ".ipc": "arrow", ".xlsx": "excel", ".xls": "excel",
    ".xlsb": "excel", ".ods": "excel",
}  # fmt: skip
NEED_ALL_ROWS = ("impute", "drop")  # what ``missing`` can be that no table can be read piece by piece for
_SNIFFED = 65_536
_CHUNK = 1 << 24
_MANY = 10  # rows; fewer grow by chance
_HALVES = re.compile("[\ud800-\udfff]")  # of characters: bytes of a name that are no text


@dataclass(frozen=True)
class Source:
    """One party's file."""

    name: str
    path: Path

    @property
    def kind(self) -> str:
        """How it is read."""
        return "parquet" if self.path.is_dir() else SUFFIXES[self.path.suffix.lower()]


def sources(arguments: Sequence[str]) -> list[Source]:
    """Parties and their files, as given on the command line."""
    found = []
    for text in arguments:
        name, equals, path = text.partition("=")
        where = Path(text) if Path(text).exists() or not equals else Path(path)
        found.append(Source(where.stem if where == Path(text) else name, where))
    gone = [source.path for source in found if not source.path.is_file() and not source.path.is_dir()]
    if gone:
        raise InputError(f"{len(gone)} file(s) are not there: {quote(gone)}.")
    folders = [source.path for source in found if source.path.is_dir()]
    if other := [path for path in folders if not _has_parquet(path)]:
        raise InputError(f"{len(other)} folder(s) have no Parquet files in them: {quote(other)}.")
    files = [source.path for source in found if not source.path.is_dir()]
    strange = [path.name for path in files if path.suffix.lower() not in SUFFIXES]
    if strange:
        raise InputError(
            f"{len(strange)} file(s) are of no kind that is read: {quote(strange)}. There are {', '.join(SUFFIXES)}."
        )
    odd = [s.name for s in found if not s.name.strip() or set(s.name) & set("/\\\0") or _HALVES.search(s.name)]
    if odd:
        raise InputError(f"{len(odd)} name(s) of parties cannot be names of files: {quote(odd)}.")
    names = [source.name for source in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"{len(twice)} name(s) of parties occur more than once: {quote(twice)}. "
            "Hint: name them, as in clinic-a=data/a.csv."
        )
    return found


def _has_parquet(folder: Path) -> bool:
    from intarsia.tables import is_parquet

    return is_parquet(folder)


def large(source: Source) -> ParquetTable | None:
    """The table if it is to be read piece by piece, which needs pyarrow; None for one to be read as a whole."""
    if source.kind != "parquet" or (source.path.is_file() and find_spec("pyarrow") is None):
        return None
    from intarsia.tables import is_small, scan_parquet

    table = scan_parquet(source.path)
    return None if is_small(table) else table


def read(source: Source, id_column: str | None = None) -> dict[str, Any]:
    """The file's columns by name; the one that names rows as it is."""
    try:
        if source.kind in {"csv", "tsv"}:
            from intarsia.tables.csv import read_csv

            _check_text(source)
            separator = "\t" if source.kind == "tsv" else _separator(source.path)
            _check_header(source, separator)
            return read_csv(source.path, separator, {id_column} if id_column else ())
        import narwhals as nw

        from intarsia.tables.frame import PANDAS_INDEX

        columns = [column for column in _read(source).get_columns() if not PANDAS_INDEX.fullmatch(column.name)]
        return {column.name: nw.from_native(column, series_only=True) for column in columns}
    except InputError:
        raise
    except Exception as error:
        # the reader's own text may quote cells
        raise InputError(
            f"{source.path.name} ({source.name}) cannot be read as {source.kind}: {type(error).__name__}. "
            "Hint: is it whole, and of the kind that its name says?"
        ) from error


def _read(source: Source) -> pl.DataFrame:
    match source.kind:
        case "parquet" if source.path.is_dir():
            from intarsia.tables import scan_parquet

            return pl.DataFrame(pl.from_arrow(scan_parquet(source.path).read()))
        case "parquet":
            return pl.read_parquet(source.path, glob=False)
        case "arrow":
            with source.path.open("rb") as file:
                return pl.read_ipc(file.read())
        case _:
            try:
                return pl.read_excel(source.path)
            except ModuleNotFoundError:
                raise InputError("Excel files need fastexcel. Hint: pip install 'intarsia[cli]'.") from None


def check_left_out(columns: Sequence[str], seen: Collection[str]) -> None:
    """A column to leave out that nobody has is a slip of the pen."""
    if unknown := [column for column in columns if column not in seen]:
        raise InputError(f"{len(unknown)} column(s) to leave out are in no table: {quote(unknown)}.")


def like_ids(owner: str, columns: Mapping[str, Any]) -> list[str]:
    """Columns of whole numbers that grow from row to row, as numbers of rows do; with whose they are."""
    import numpy as np

    found = []
    for name, column in columns.items():
        cells = np.asarray(column if isinstance(column, np.ndarray) else column.to_numpy())
        if len(cells) >= _MANY and cells.dtype.kind in "iuf" and (np.diff(cells) > 0).all() and (cells % 1 == 0).all():
            found.append(f"{name} ({owner})")
    return found


def _check_text(source: Source) -> None:
    """Other encodings than UTF-8 are refused by name rather than read as something else."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with source.path.open("rb") as file:
        try:
            while chunk := file.read(_CHUNK):
                decoder.decode(chunk)
                if b"\0" in chunk:
                    break
            else:
                return
        except UnicodeDecodeError:
            pass
    raise InputError(
        f"{source.path.name} ({source.name}) is not text in UTF-8. Hint: save it so: in Excel as 'CSV UTF-8', elsewhere "
        "with iconv -f latin1 -t utf-8 (or -f utf-16)."
    )


def _first_line(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_SNIFFED).split(b"\n", 1)[0].decode("utf-8-sig", errors="replace").strip("\r")


def _separator(path: Path) -> str:
    """The separator of a CSV file: that of ; , tab and | which its first line has most of."""
    return max(";,\t|", key=_first_line(path).count)


def _check_header(source: Source, separator: str) -> None:
    names = next(csv.reader([_first_line(source.path)], delimiter=separator), [])
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DuplicateColumnError(
            f"{len(twice)} column(s) of {source.path.name} ({source.name}) occur more than once: {quote(twice)}. "
            "Hint: rename them."
        )
