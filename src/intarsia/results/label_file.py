"""Labels as CSV or Parquet: the columns of a result behind the names of the rows; CSV is written in parts.

A spreadsheet would compute a text that begins with =, +, -, @, a tab or a carriage return. So every CSV file that we write
has an apostrophe before such a text, as OWASP advises ("CSV injection"). Numbers, also those stored as text, stay as they
are. A text that begins with apostrophes before such a character gets one more: to remove one restores every text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from intarsia._files import write_atomically
from intarsia.core.types import FloatArray, IntArray
from intarsia.exceptions import InputError

if TYPE_CHECKING:
    import polars as pl

    from intarsia.tables.open import Ids

_PARQUET = (".parquet", ".pq")
SUFFIXES = (".csv", *_PARQUET)
_LINES_AT_A_TIME = 1 << 20
_FORMULA, _NUMBER = r"^'*[=+\-@\t\r]", r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def write_labels(path: Path, columns: Mapping[str, Any], ids: Ids | None = None) -> None:
    """Write labels to a file that only its owner can read: Parquet if it ends with .parquet, otherwise CSV.

    The arguments are those of :func:`label_lines`.
    """

    def write(file: IO[bytes]) -> None:
        if path.suffix.lower() in _PARQUET:
            _write_parquet(file, columns, ids)
            return
        for k, frame in enumerate(map(without_formulas, _frames(columns, ids))):
            frame.write_csv(file, include_header=not k)

    write_atomically(path, write, secret=True)


def columns_of(labels: IntArray, names: Mapping[int, str], margins: FloatArray | None = None) -> dict[str, Any]:
    """Return the columns of a file of labels: the names of clusters stand beside their numbers, where there are any.

    Rows without a cluster (−1) have no margin.
    """
    columns: dict[str, Any] = {"cluster": labels}
    if names:
        columns["name"] = np.array([names.get(k, "") for k in labels.tolist()])
    return columns if margins is None else columns | {"margin": np.where(labels < 0, np.nan, margins)}


def rename_labels(path: Path, names: Mapping[int, str]) -> None:
    """Write the names of clusters into a file of labels; every other column stays as it stands there."""
    import polars as pl

    is_parquet = path.suffix.lower() in _PARQUET
    frame = pl.read_parquet(path) if is_parquet else pl.read_csv(path, infer_schema_length=0)
    if "cluster" not in frame.columns:
        raise InputError(f"{path.name} has no column cluster: it is no file of labels.")
    given = frame.select(pl.exclude("name"))
    if names:
        shown = columns_of(frame["cluster"].cast(pl.Int64).to_numpy(), names)["name"]
        at = given.columns.index("cluster") + 1
        column = pl.Series("name", shown, dtype=pl.String)
        given = given.insert_column(at, column if is_parquet else without_formulas(column.to_frame()).to_series())

    def write(file: IO[bytes]) -> None:
        if is_parquet:
            given.write_parquet(file)
        else:
            given.write_csv(file)

    write_atomically(path, write, secret=True)


def label_lines(columns: Mapping[str, Any], ids: Ids | None = None) -> Iterator[bytes]:
    """Yield the text of a CSV file in parts, beginning with the header.

    Parameters
    ----------
    columns : mapping of names to arrays
        ``{"cluster": labels}``, perhaps with more columns of the same length.
    ids : Ids, optional
        What names the rows, in a column called "id". Default: their numbers from 0, in a column called "row".
    """
    for k, frame in enumerate(map(without_formulas, _frames(columns, ids))):
        yield frame.write_csv(include_header=not k).encode()


def without_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table in which a spreadsheet finds no formula once it is written as CSV."""
    import polars as pl

    for column in frame.select(pl.col(pl.String, pl.Categorical, pl.Enum)):
        texts = column.cast(pl.String)
        risky = texts.str.contains(_FORMULA) & ~texts.str.contains(_NUMBER)
        if risky.any():
            frame = frame.with_columns(pl.when(risky).then("'" + texts).otherwise(texts).alias(column.name))
    return frame


def _write_parquet(file: IO[bytes], columns: Mapping[str, Any], ids: Ids | None) -> None:
    import polars as pl
    import pyarrow.parquet as pq

    writer = None
    for frame in _frames(columns, ids):
        table = frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).to_arrow()
        writer = pq.ParquetWriter(file, table.schema) if writer is None else writer
        writer.write_table(table.cast(writer.schema))
    if writer is not None:
        writer.close()


def _frames(columns: Mapping[str, Any], ids: Ids | None) -> Iterator[pl.DataFrame]:
    import polars as pl

    n = len(next(iter(columns.values())))
    start = 0
    for names in _names_of_rows(ids, n):
        end = start + len(names)
        if end > n:
            raise InputError(
                f"there are more row names than the {n} rows with labels: the table has changed meanwhile."
            )
        part = {"row" if ids is None else "id": names} | {k: v[start:end] for k, v in columns.items()}
        frame = pl.DataFrame(part, nan_to_null=True)
        yield frame
        start = end
    if start != n:
        raise InputError(f"there are names of {start} rows and labels of {n}: the table has changed meanwhile.")


def _names_of_rows(ids: Ids | None, n: int) -> Iterator[Any]:
    """Yield the names of the rows, many at a time."""
    import polars as pl

    if ids is not None:
        # older versions of polars take no series of narwhals
        yield from (pl.Series(chunk.to_list() if hasattr(chunk, "to_list") else chunk) for chunk in ids.chunks())
    else:
        for start in range(0, max(n, 1), _LINES_AT_A_TIME):
            yield range(start, min(start + _LINES_AT_A_TIME, n))
