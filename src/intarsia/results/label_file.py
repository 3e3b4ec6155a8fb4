"""Labels as CSV: the columns of a result behind the names of the rows, written in parts so that large tables fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intarsia._files import write_atomically
from intarsia.exceptions import InputError

if TYPE_CHECKING:
    from intarsia.tables.open import Ids

_LINES_AT_A_TIME = 1 << 20


def write_labels(path: Path, columns: Mapping[str, Any], ids: Ids | None = None) -> None:
    """Write a CSV file of labels completely or not at all; the arguments are those of :func:`label_lines`."""
    write_atomically(path, label_lines(columns, ids))


def label_lines(columns: Mapping[str, Any], ids: Ids | None = None) -> Iterator[bytes]:
    """Yield the lines of a CSV file, many at a time, beginning with the header.

    Parameters
    ----------
    columns : mapping of names to arrays
        ``{"cluster": labels}``, perhaps with more columns of the same length.
    ids : Ids, optional
        What names the rows, in a column called "id". Default: their numbers from 0, in a column called "row".
    """
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
        yield frame.write_csv(include_header=not start).encode()
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
