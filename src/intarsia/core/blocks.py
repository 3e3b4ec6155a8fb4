"""Large tables piece by piece, so that what is computed on the way is never another copy of the table.

What is computed for each row on its own goes by pieces of rows, and so do sums that are needed often. Other sums over rows
go by pieces of columns: their order stays.
"""

from __future__ import annotations

import numpy as np

from intarsia.core.types import BoolArray, FloatArray

_ROWS = 1 << 18  # numbers in a piece of rows: 2 MiB, which a processor keeps at hand
_COLUMNS = 1 << 19  # numbers in a piece of columns, at least
_STEP, _FEWEST = 64, 8  # rows and columns that matrix products work on together: a piece has no fewer


def by_rows(n: int, d: int) -> list[slice]:
    """Rows of an n × d table, a few at a time.

    >>> by_rows(150, 5000)
    [slice(0, 64, None), slice(64, 128, None), slice(128, 150, None)]
    """
    height = max(_STEP, _ROWS // max(d, 1) // _STEP * _STEP)
    return [slice(top, min(top + height, n)) for top in range(0, n, height)]


def by_columns(n: int, d: int) -> list[slice]:
    """Columns of an n × d table, a few at a time; all at once if the table is small.

    >>> by_columns(1_000_000, 25)
    [slice(0, 8, None), slice(8, 16, None), slice(16, 25, None)]
    """
    parts = max(1, d // max(_FEWEST, _COLUMNS // max(n, 1)))
    return [slice(d * k // parts, d * (k + 1) // parts) for k in range(parts)]


def cleared(values: FloatArray, there: BoolArray) -> FloatArray:
    """An array that the caller owns, with 0 wherever nothing is there, whatever stands in that place.

    >>> cleared(np.array([[1.0, np.nan]]), np.array([[True, False]]))
    array([[1., 0.]])
    """
    if not there.all():
        # all bits or none of a number: several times faster than a choice for each, which the gaps make hard to foresee
        keep = np.negative(there.view(np.int8), out=np.empty(values.shape, dtype=np.int64))
        bits = values.view(np.int64)
        np.bitwise_and(bits, keep, out=bits)
    return values
