"""Labels as CSV: the columns of a result behind the names of the rows, written in parts so that large tables fit.

A spreadsheet would compute a text that begins with =, +, -, @, a tab or a carriage return. So every CSV file that we write
has an apostrophe before such a text, as OWASP advises ("CSV injection"). Numbers, also those stored as text, stay as they
are. A text that begins with apostrophes before such a character gets one more: to remove one restores every text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from intarsia._files import write_atomically
from intarsia.exceptions import InputError

if TYPE_CHECKING:
    import polars as pl

    from intarsia.tables.open import Ids

_LINES_AT_A_TIME = 1 << 20
_FORMULA, _NUMBER = r"^'*[=+\-@\t\r]", r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def write_labels(path: Path, columns: Mapping[str, Any], ids: Ids | None = None) -> None:
    """Write a CSV file of labels, which only its owner can read; the arguments are those of :func:`label_lines`."""

    def write(file: IO[bytes]) -> None:
        for k, frame in enumerate(_frames(columns, ids)):
            frame.write_csv(file, include_header=not k)

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
    for k, frame in enumerate(_frames(columns, ids)):
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
        frame = pl.DataFrame({"row" if ids is None else "id": names} | {k: v[start:end] for k, v in columns.items()})
        yield without_formulas(frame)
        start = end
    if start != n:
        raise InputError(f"there are names of {start} rows and labels of {n}: the table has changed meanwhile.")


def _names_of_rows(ids: Ids | None, n: int) -> Iterator[Any]:
    """Yield the names of the rows, many at a time."""
    import polars as pl

    if ids is not None:
        yield from (pl.Series(chunk) for chunk in ids.chunks())
    else:
        for start in range(0, max(n, 1), _LINES_AT_A_TIME):
            yield range(start, min(start + _LINES_AT_A_TIME, n))
