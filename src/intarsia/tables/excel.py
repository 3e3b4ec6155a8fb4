"""Excel and OpenDocument spreadsheets: the first sheet, read as a whole."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from intarsia.tables.source import needed, reading, register_source


def read_excel(path: str | PathLike[str]) -> Any:
    """Return the first sheet as a polars table."""
    needed("polars", "Excel files", "cli")
    needed("fastexcel", "Excel files", "cli")
    import polars as pl

    with reading(Path(path), "excel"):
        return pl.read_excel(Path(path))


register_source("excel", read_excel, suffixes=(".xlsx", ".xls", ".xlsb", ".ods"))
