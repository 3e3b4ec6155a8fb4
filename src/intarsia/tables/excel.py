"""Excel and OpenDocument spreadsheets: the first sheet, read as a whole.

These files are archives, and a small one may unpack to more than a machine has. So it is unpacked once without keeping
anything, up to a limit, before the reader gets it: sizes in the directory of an archive need not be true. The reader also
holds all cells from the first to the last, used or not, so that two cells far apart would fill the memory.
"""

from __future__ import annotations

import re
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

from intarsia.exceptions import InputError
from intarsia.tables.names import check_header
from intarsia.tables.source import needed, reading, register_source

EXCEL = "excel"
MOST_UNPACKED = 1 << 29  # bytes
MOST_CELLS = 1 << 25  # 1,048,576 rows, the most that a sheet can have, of 32 columns
_SHEET = re.compile(r"xl/worksheets/[^/]*\.xml", re.IGNORECASE)
_CELL = re.compile(rb'r="([A-Z]{1,3})([0-9]{1,7})"')
_RENAMED = re.compile(r"(.+)_[0-9]+")  # how the reader names a column whose name it has seen before
_PART, _LONGEST_CELL = 1 << 20, 20  # bytes that are unpacked at a time; bytes of a cell's place
_HINT = "Hint: save the sheet as CSV or Parquet."


def read_excel(path: str | PathLike[str], *, most_unpacked: int = MOST_UNPACKED, most_cells: int = MOST_CELLS) -> Any:
    """Return the first sheet as a polars table."""
    needed("polars", "Excel files", "cli")
    needed("fastexcel", "Excel files", "cli")
    import fastexcel
    import polars as pl

    path = Path(path)
    with reading(path, EXCEL):
        if zipfile.is_zipfile(path):
            _check_archive(path, most_unpacked, most_cells)
        table = pl.read_excel(path)
        names = set(table.columns)
        if any(match and match[1] in names for match in map(_RENAMED.fullmatch, names)):
            first = fastexcel.read_excel(path).load_sheet(0, header_row=None, n_rows=1).to_polars().row(0)
            check_header([f"column {k}" if name is None else str(name) for k, name in enumerate(first)], path.name)
    return table


def _check_archive(path: Path, most_unpacked: int, most_cells: int) -> None:
    """Raise an error if the archive unpacks to too many bytes, or a sheet spans too many cells."""
    n_bytes = 0
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > most_unpacked:
            raise _too_large(path, most_unpacked)
        for entry in entries:
            entry.file_size = most_unpacked + 1  # read on to the end, whatever size the directory names
            columns = rows = 0
            tail = b""
            with archive.open(entry) as file:
                while part := file.read(_PART):
                    n_bytes += len(part)
                    if n_bytes > most_unpacked:
                        raise _too_large(path, most_unpacked)
                    if _SHEET.fullmatch(entry.filename):
                        cells = _CELL.findall((tail + part).replace(b"'", b'"'))
                        columns = max([columns, *map(_number, {column for column, _ in cells})])
                        rows = max([rows, *map(int, {row for _, row in cells})])
                        tail = part[-_LONGEST_CELL:]
            if columns * rows > most_cells:
                raise InputError(
                    f"a sheet of {path.name} spans {rows:,} rows and {columns:,} columns up to its last cell; at most "
                    f"{most_cells:,} cells are read. Hint: delete cells far outside the table, or save it as CSV or Parquet."
                )


def _number(column: bytes) -> int:
    """Return the number of a column from its letters: A is 1, XFD 16384."""
    number = 0
    for letter in column:
        number = 26 * number + letter - ord("A") + 1
    return number


def _too_large(path: Path, most: int) -> InputError:
    return InputError(
        f"{path.name} ({path.stat().st_size >> 10:,} KiB) unpacks to more than {most >> 20:,} MiB, the most that is read of "
        f"a spreadsheet. {_HINT}"
    )


register_source(EXCEL, read_excel, suffixes=(".xlsx", ".xls", ".xlsb", ".ods"))
