"""Arrow IPC and Feather files, and Arrow streams of other libraries, read as a whole."""

from __future__ import annotations

from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

from intarsia.tables.names import column_names
from intarsia.tables.source import needed, reading, register_source


def read_arrow(path: str | PathLike[str]) -> Any:
    """Return the file as a polars table."""
    needed("polars", "Arrow files", "cli")
    import polars as pl

    with reading(Path(path), "arrow"):
        return pl.read_ipc(Path(path).read_bytes())


def is_stream(table: Any) -> bool:
    """Whether an object hands out rows as an Arrow C stream: a DuckDB relation, a reader of batches; not one column."""
    is_column = column_names(table) is None and hasattr(table, "__len__")
    return hasattr(table, "__arrow_c_stream__") and not is_column


def read_stream(table: Any) -> Any:
    """Return the rows of an Arrow C stream as a table of an installed library; some streams can be read only once."""
    if find_spec("pyarrow") is None:
        needed("polars", "Arrow streams", "cli")
        import polars as pl

        try:
            return pl.DataFrame(table)
        except TypeError:  # a version that knows no streams
            needed("pyarrow", "Arrow streams", "parquet")
    import pyarrow as pa

    return pa.table(table)


register_source("arrow", read_arrow, suffixes=(".feather", ".arrow", ".ipc"))
