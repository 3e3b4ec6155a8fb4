"""Large arrays in pieces, so that intermediate results are never another copy of the table.

What is computed for each row on its own is computed by pieces of rows, and so are sums that are needed often. Other sums
over rows are computed by pieces of columns, which keeps the order of additions.
"""

from __future__ import annotations

import numpy as np

from intarsia.core.types import BoolArray, FloatArray

PIECE_VALUES = 1 << 18  # in a piece of rows: 2 MiB, which stay in the cache of a processor
_COLUMN_VALUES = 1 << 19  # in a piece of columns, at least
_STEP, _FEWEST = 64, 8  # rows and columns that matrix products work on together: a piece has no fewer


def by_rows(n: int, d: int, piece_values: int = PIECE_VALUES) -> list[slice]:
    """Return the pieces of rows of an n × d array, each of about ``piece_values`` values.

    >>> by_rows(150, 5000)
    [slice(0, 64, None), slice(64, 128, None), slice(128, 150, None)]
    """
    height = max(_STEP, piece_values // max(d, 1) // _STEP * _STEP)
    return [slice(top, min(top + height, n)) for top in range(0, n, height)]


def by_columns(n: int, d: int) -> list[slice]:
    """Return the pieces of columns of an n × d array; a single one if the array is small.

    >>> by_columns(1_000_000, 25)
    [slice(0, 8, None), slice(8, 16, None), slice(16, 25, None)]
    """
    parts = max(1, d // max(_FEWEST, _COLUMN_VALUES // max(n, 1)))
    return [slice(d * k // parts, d * (k + 1) // parts) for k in range(parts)]


def cleared(values: FloatArray, observed: BoolArray) -> FloatArray:
    """Set all values that are not observed to 0 in place, whatever they are, and return the array.

    >>> cleared(np.array([[1.0, np.nan]]), np.array([[True, False]]))
    array([[1., 0.]])
    """
    if not observed.all():
        # all bits or none of a number: several times faster than a choice for each, which a processor cannot predict
        keep = np.negative(observed.view(np.int8), out=np.empty(values.shape, dtype=np.int64))
        bits = values.view(np.int64)
        np.bitwise_and(bits, keep, out=bits)
    return values
