"""Fingerprints of rows and columns, by which a participant recognises the rows of a table that it opens again.

They stay at the participant. A fingerprint is a sum of mixed bits (splitmix64), not a cryptographic hash: nobody who would
gain from a collision chooses the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.tables.categories import Category
from intarsia.tables.in_memory import HeldTable, MemoryTable
from intarsia.tables.source import batch_columns, numbers_of, words_of

Bits = npt.NDArray[np.uint64]
_MISSING = 0x9AE16A3B2F90404F


class Fingerprints(NamedTuple):
    """One number for each row, in the owner's order, and one for each column that depends on the order of the rows."""

    rows: Bits
    columns: Mapping[str, int]


def fingerprints_of(table: HeldTable) -> Fingerprints:
    """Read a table once and return its fingerprints. The order of its columns does not matter."""
    rows = np.zeros(len(table), dtype=np.uint64)
    columns = dict.fromkeys((*table.names, *table.levels), 0)
    seeds = {name: _of_text(name) for name in columns}
    for at, cells in _columns(table):
        place = mixed(np.arange(at.start, at.stop, dtype=np.uint64))
        for name, bits in cells.items():
            each = mixed(bits ^ seeds[name])
            rows[at] += each
            columns[name] = (columns[name] + int(mixed(each + place).sum(dtype=np.uint64))) % (1 << 64)
    return Fingerprints(rows, columns)


def _columns(table: HeldTable) -> Iterator[tuple[slice, dict[str, Bits]]]:
    """Yield the bits of all columns, piece by piece, in the owner's order."""
    if isinstance(table, MemoryTable):
        back = slice(None) if table.order is None else np.argsort(table.order)
        values = {name: _of_numbers(table.table.values[back, m]) for m, name in enumerate(table.names)}
        levels = {name: _of_levels(category)[back] for name, category in table.table.categories.items()}
        yield slice(0, len(table)), values | levels
        return
    top = 0
    for batch in table.source.batches([*table.names, *table.levels]):
        arrays = batch_columns(batch)
        bits = {name: _of_numbers(numbers_of(arrays[name])) for name in table.names}
        bits |= {name: _of_levels(words_of(arrays[name])) for name in table.levels}
        n = len(next(iter(bits.values())))
        yield slice(top, top + n), bits
        top += n


def _of_numbers(values: Any) -> Bits:
    numbers = np.ascontiguousarray(values, dtype=np.float64) + 0.0  # −0 is 0
    return np.where(np.isnan(numbers), np.uint64(_MISSING), numbers.view(np.uint64))


def _of_levels(category: Category | Any) -> Bits:
    bits = np.array([*map(_of_text, category.levels), _MISSING], dtype=np.uint64)
    return np.asarray(bits[category.codes])


def _of_text(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"))


def mixed(bits: Bits) -> Bits:
    """Return well mixed bits (the finaliser of splitmix64); different numbers stay different."""
    with np.errstate(over="ignore"):
        z = bits + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))
