"""Columns of a CSV file out of its pieces: one type, one matrix, and row IDs as they are written."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from intarsia.core.types import FloatArray

if TYPE_CHECKING:
    import polars as pl

_WHOLE_NUMBER = r"^(-?[1-9]\d*|0)$"  # written as it would be written again


def whole_numbers(texts: pl.Series) -> pl.Series:
    """Return row IDs as whole numbers if nothing is lost: 007 stays a text."""
    import polars as pl

    if not texts.str.contains(_WHOLE_NUMBER).all():
        return texts
    try:
        return texts.cast(pl.Int64)
    except pl.exceptions.PolarsError:  # too many digits
        return texts


def stacked(parts: list[FloatArray], width: int) -> FloatArray:
    """Return one matrix of many, each of which is freed as soon as it is copied."""
    values, top = np.empty((sum(map(len, parts)), width)), 0
    while parts:
        part = parts.pop(0)
        values[top : top + len(part)] = part
        top += len(part)
    return values


def joint(kinds: Collection[pl.DataType]) -> pl.DataType:
    """Return the type that polars would infer for a column whose pieces have these types."""
    import polars as pl

    if len(kinds) == 1:
        return next(iter(kinds))
    return pl.Float64() if kinds and all(kind.is_numeric() for kind in kinds) else pl.String()
