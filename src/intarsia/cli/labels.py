"""What commands write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from intarsia.cli.interrupts import uninterrupted, written
from intarsia.exceptions import InputError, ModelFileError

_AT_A_TIME = 1 << 20  # lines


def write_parts(path: Path, parts: Iterable[bytes]) -> None:
    """Write a whole file, part after part, or none, and say why."""
    from intarsia._files import write_atomically

    try:
        with uninterrupted():
            write_atomically(path, parts)
            written(path)
    except ModelFileError as error:
        raise InputError(str(error)) from error


def in_parts(columns: Mapping[str, Any], ids: Any) -> Iterator[bytes]:
    """The lines of a CSV file with these columns behind what names the rows: numbers, or ids in memory or on disk."""
    n = len(next(iter(columns.values())))
    start = 0
    for named in _names_of_rows(ids, n):
        if start + len(named) > n:
            raise InputError(
                f"there are names for more than the {n} rows that have labels: the table was changed meanwhile."
            )
        some = {name: column[start : start + len(named)] for name, column in columns.items()}
        frame = pl.DataFrame({"row" if ids is None else "id": named} | some)
        yield frame.write_csv(include_header=not start).encode()
        start += len(named)
    if start != n:
        raise InputError(f"there are names for {start} rows, and labels for {n}: the table was changed meanwhile.")


def _names_of_rows(ids: Any, n: int) -> Iterator[Any]:

    from intarsia.tables import ParquetTable

    if isinstance(ids, ParquetTable):
        yield from (pl.from_arrow(part.column(0)) for part in ids.batches())
    elif ids is not None:
        yield ids
    else:
        for start in range(0, max(n, 1), _AT_A_TIME):
            yield range(start, min(start + _AT_A_TIME, n))
