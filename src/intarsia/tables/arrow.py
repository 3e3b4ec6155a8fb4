"""Arrow IPC and Feather files, read as a whole."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from intarsia.tables.source import needed, reading, register_source


def read_arrow(path: str | PathLike[str]) -> Any:
    """Return the file as a polars table."""
    needed("polars", "Arrow files", "cli")
    import polars as pl

    with reading(Path(path), "arrow"):
        return pl.read_ipc(Path(path).read_bytes())


register_source("arrow", read_arrow, suffixes=(".feather", ".arrow", ".ipc"))
