"""CSV files piece by piece: numbers go straight to where they stay, and the text of a large file is never there at once.

A column's type is inferred from the whole file, as polars would: the file is read twice, for types and for cells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from intarsia.core.types import FloatArray

EMPTY = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", ".", "-")
_PIECE = 1 << 23  # bytes of text
_LINE_END, _QUOTE = b"\n", b'"'


def read_csv(path: Path, separator: str, kept: Collection[str] = ()) -> dict[str, Any]:
    """Columns by name: arrays of numbers, and polars' own for all others and for those that are ``kept`` as they are."""
    kinds = _kinds(path, separator)
    numbers = [name for name, kind in kinds.items() if kind.is_numeric() and name not in kept]
    parts, others = [], []
    for text in _pieces(path, separator):
        piece = _parsed(text, separator, schema_overrides=kinds, infer_schema_length=0)
        cells = piece.select(pl.col(numbers).cast(pl.Float64)).to_numpy() if numbers else np.empty((piece.height, 0))
        parts.append(cells)
        others.append(piece.drop(numbers))
    values, rest, place = _stacked(parts, len(numbers)), pl.concat(others), {name: k for k, name in enumerate(numbers)}
    return {
        name: values[:, place[name]] if name in place else nw.from_native(rest[name], series_only=True)
        for name in kinds
    }


def _stacked(parts: list[FloatArray], width: int) -> FloatArray:
    """One matrix of many, which are let go one after the other."""
    values, top = np.empty((sum(map(len, parts)), width)), 0
    while parts:
        part = parts.pop(0)
        values[top : top + len(part)] = part
        top += len(part)
    return values


def _kinds(path: Path, separator: str) -> dict[str, pl.DataType]:
    """The type of every column, over all pieces in which it has a cell."""
    found: dict[str, set[pl.DataType]] = {}
    for text in _pieces(path, separator):
        kinds = dict(_parsed(text, separator, infer_schema_length=None, n_rows=0).schema)
        texts = [name for name, kind in kinds.items() if kind == pl.String]  # or without any cell
        cells = _parsed(text, separator, infer_schema_length=0, columns=texts) if texts else pl.DataFrame()
        for name, kind in kinds.items():
            filled = name not in texts or cells[name].null_count() < cells.height
            found.setdefault(name, set()).update({kind} if filled else ())
    return {name: _joint(kinds) for name, kinds in found.items()}


def _joint(kinds: Collection[pl.DataType]) -> pl.DataType:
    """What polars would take a column for that is some of this and some of that."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return pl.Float64() if kinds and all(kind.is_numeric() for kind in kinds) else pl.String()


def _parsed(text: bytes, separator: str, **how: Any) -> pl.DataFrame:
    return pl.read_csv(text, separator=separator, null_values=list(EMPTY), **how)


def _pieces(path: Path, separator: str) -> Iterator[bytes]:
    """The file's text in pieces, each of them a CSV file with the same names."""
    head = b""
    for text in _texts(path):
        yield head + text
        if not head:
            names = _parsed(text, separator, infer_schema_length=0, n_rows=0)
            head = names.write_csv(separator=separator).encode()


def _texts(path: Path) -> Iterator[bytes]:
    """The file's text in pieces that end where a line does."""
    held = b""
    with path.open("rb") as file:
        while more := file.read(_PIECE):
            held += more
            end = _last_line_end(held)
            if end:
                yield held[:end]
                held = held[end:]
    if held:
        yield held


def _last_line_end(text: bytes) -> int:
    """Where the last whole line ends, 0 if none does; between quotes no line ends."""
    if _QUOTE not in text:
        return text.rfind(_LINE_END) + 1
    letters = np.frombuffer(text, dtype=np.uint8)
    quoted = np.logical_xor.accumulate(letters == ord(_QUOTE))
    ends = np.flatnonzero((letters == ord(_LINE_END)) & ~quoted)
    return int(ends[-1]) + 1 if len(ends) else 0
