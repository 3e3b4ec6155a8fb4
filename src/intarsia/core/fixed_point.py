"""Numbers as whole numbers modulo 2^64: sums of them are exact, in whatever order and under whatever masks.

Numbers in known units are counted in grains, one word each. Numbers of any size, such as sums of values before there are
common units, are written as digits, several words each; each digit has the sign of the number.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from intarsia.core.types import FloatArray, IntArray

GRAIN = 2.0**-24  # of a unit
_DIGIT = 48  # bits: sums of 2^15 digits stay below 2^63
_HALF = 240  # bits of a number of any size, before and after the point
N_DIGITS = 2 * _HALF // _DIGIT
LARGEST = 2.0**_HALF / 2**16
SMALLEST_UNIT = 1e-60
_MOST = 2.0**62


def grains(values: FloatArray, units: FloatArray, n_participants: int) -> IntArray:
    """Return values as whole numbers of grains of their units.

    Raises
    ------
    OverflowError
        Sums over so many participants could exceed 2^63.
    """
    counted = np.rint(values / (units * GRAIN))
    if not (np.abs(counted) < _MOST / n_participants).all():
        raise OverflowError("a sum is too large")
    return np.asarray(counted, dtype=np.int64)


def from_grains(counted: IntArray, units: FloatArray) -> FloatArray:
    """Return the values of whole numbers of grains."""
    return counted.astype(np.float64) * (units * GRAIN)


def digits(numbers: Sequence[Fraction], *, squared: bool = False) -> IntArray:
    """Return numbers × digits, the lowest digit first; ``squared`` numbers have twice as many.

    >>> number_of(digits([Fraction(-5, 4)])[0] + digits([Fraction(1, 4)])[0])
    Fraction(-1, 1)
    """
    half, n = (2 * _HALF, 2 * N_DIGITS) if squared else (_HALF, N_DIGITS)
    rows = np.zeros((len(numbers), n), dtype=np.int64)
    for row, number in zip(rows, numbers, strict=True):
        whole, sign = int(abs(number) * 2**half), 1 if number >= 0 else -1
        if whole >> (2 * half - 16):
            raise OverflowError("a number is too large")
        for k in range(n):
            row[k] = sign * ((whole >> (_DIGIT * k)) & (2**_DIGIT - 1))
    return rows


def number_of(row: IntArray) -> Fraction:
    """Return the number that digits, or a sum of such, stand for."""
    half = len(row) * _DIGIT // 2
    return Fraction(sum(int(digit) << (_DIGIT * k) for k, digit in enumerate(row)), 2**half)
