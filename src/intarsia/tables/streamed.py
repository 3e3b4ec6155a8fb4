"""A table that is not in memory, after one pass over it, and the way to go through it again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from intarsia.core.distances import LARGEST, Extent
from intarsia.core.features import indicators
from intarsia.core.rows import Piece
from intarsia.core.types import FloatArray, IntArray
from intarsia.core.units import QUANTILES, Statistics
from intarsia.exceptions import InputError
from intarsia.tables.categories import Category
from intarsia.tables.frame import Table, check_level_names
from intarsia.tables.source import Source, batch_columns, numbers_of, words_of

_PIECE_CELLS = 1 << 18  # that are computed with at a time: 2 MiB, which a processor keeps at hand
_PIECE_ROWS, _FEWEST = 512, 64  # at least: every column costs a call


@dataclass(frozen=True, eq=False)
class StreamedTable:
    """What is known of a table after one pass, and the way to go through it again.

    ``names`` are the columns of numbers, sorted; ``statistics`` theirs. ``counted`` says how many rows have each level of
    each column of categories. ``sample`` are some of its rows, drawn at random (``drawn`` says which), as a table.
    """

    source: Source
    owner: str
    names: tuple[str, ...]
    given_names: tuple[str, ...]
    statistics: Statistics
    counted: Mapping[str, Mapping[str, int]]
    blank: int
    drawn: IntArray
    sample: Table

    def __len__(self) -> int:
        return len(self.source)

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of every column of categories."""
        return {name: tuple(sorted(levels)) for name, levels in self.counted.items()}

    @property
    def filled(self) -> dict[str, int]:
        """By column, in the owner's order, how many cells are filled."""
        numbers = dict(zip(self.names, self.statistics.count.astype(np.int64).tolist(), strict=True))
        return {
            name: sum(self.counted[name].values()) if name in self.counted else numbers[name]
            for name in self.given_names
        }

    @property
    def is_complete(self) -> bool:
        """Whether no cell is empty."""
        return all(n == len(self) for n in self.filled.values())

    def without(self, columns: Collection[str]) -> StreamedTable:
        """The same without some columns."""
        if not columns:
            return self
        kept = np.array([name not in columns for name in self.names], dtype=np.bool_)
        s = self.statistics
        assert s.low is not None
        assert s.high is not None
        quantiles = None if s.quantiles is None else s.quantiles[:, kept]
        return replace(
            self,
            names=tuple(name for name in self.names if name not in columns),
            given_names=tuple(name for name in self.given_names if name not in columns),
            statistics=Statistics(s.count[kept], s.mean[kept], s.m2[kept], s.low[kept], s.high[kept], quantiles),
            counted={name: levels for name, levels in self.counted.items() if name not in columns},
            sample=self.sample.without(columns),
        )

    def with_levels(self, kept: Mapping[str, Collection[str]]) -> StreamedTable:
        """The same with fewer levels; a cell that has none of them is empty."""
        counted = {name: {w: n for w, n in levels.items() if w in kept[name]} for name, levels in self.counted.items()}
        categories = {}
        for name, category in self.sample.categories.items():
            levels = tuple(sorted(counted[name]))
            categories[name] = Category(levels, category.with_levels(levels))
        return replace(self, counted=counted, sample=replace(self.sample, categories=categories))

    def pieces(
        self,
        levels: Mapping[str, Sequence[str]] | None = None,
        units: tuple[FloatArray, FloatArray] | None = None,
        *,
        centred: bool = True,
    ) -> TablePieces:
        """All rows as numbers, with an indicator for each of these levels (default: its own), in these units."""
        return TablePieces(self, self.levels if levels is None else levels, units, centred=centred)


class TablePieces:
    """A streamed table in common units: one feature for every number, and for every level of a category."""

    def __init__(
        self,
        table: StreamedTable,
        levels: Mapping[str, Sequence[str]],
        units: tuple[FloatArray, FloatArray] | None,
        *,
        centred: bool,
    ) -> None:
        own = {name: tuple(levels[name]) for name in table.counted}
        check_level_names(own, table.names, table.owner)
        self._table, self._levels = table, own
        made = [feature for name in table.counted for feature in indicators({name: own[name]})]
        features = [*table.names, *made]
        self._order = np.array(sorted(range(len(features)), key=features.__getitem__), dtype=np.intp)
        self.names = tuple(features[k] for k in self._order)
        self._place = {features[k]: at for at, k in enumerate(self._order.tolist())}
        self._is_number = self._order < len(table.names)
        self._numbers_at = [self._place[name] for name in table.names]
        self.raw = self._statistics()
        d = len(features)
        self._shift, self._scale = (np.zeros(d), np.ones(d)) if units is None else units
        # sums are around the mean, so that no digits are lost, or near it, so that short numbers stay short and ties ties;
        # those of indicators, which are 0 and 1, are exact as they are
        middle = np.where(self._is_number, _near(self.raw), self._shift) if centred else self._shift
        self.offset = self._in_units(middle)
        self.mean = self._in_units(self.raw.mean)
        self._from = middle
        self.n_centres = 1  # that rows are compared with: pieces have fewer rows if there are many
        self._gappy = self.raw.count < len(table)

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return len(self._table)

    @property
    def complete(self) -> bool:
        """Whether no cell is empty."""
        return not self._gappy.any()

    @cached_property
    def extent(self) -> Extent:
        """The smallest and largest cell of every feature, in these units."""
        assert self.raw.low is not None
        assert self.raw.high is not None
        return Extent(self._in_units(self.raw.low), self._in_units(self.raw.high))

    def _in_units(self, values: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.clip((values - self._shift) / self._scale, -LARGEST, LARGEST)

    def _statistics(self) -> Statistics:
        """Of every feature, in the table's own units; those of indicators follow from how often each level occurs."""
        table, own = self._table, self._table.statistics
        assert own.low is not None
        assert own.high is not None
        parts = {name: [getattr(own, name)] for name in ("count", "mean", "m2", "low", "high")}
        for name, levels in self._levels.items():
            counts = np.array([table.counted[name].get(level, 0) for level in levels], dtype=np.float64)
            filled = np.full(len(levels), float(sum(table.counted[name].values())))
            share = counts / np.maximum(filled, 1.0)
            indicator = (filled, share, filled * share * (1 - share), (share >= 1).astype(float), (share > 0) * 1.0)
            for part, values in zip(parts.values(), indicator, strict=True):
                part.append(values)
        return Statistics(**{name: np.concatenate(part)[self._order] for name, part in parts.items()})

    def statistics(self, way: str | None) -> Statistics:
        """What a participant says of its columns; quantiles are those of the sample."""
        raw = self.raw
        if way == "minmax":
            return Statistics(raw.count, raw.mean, raw.m2, raw.low, raw.high)
        if way == "robust":
            sample = self._table.sample.in_numbers(self._levels)
            return Statistics(raw.count, raw.mean, raw.m2, quantiles=_quantiles(sample, raw))
        return Statistics(raw.count, raw.mean, raw.m2)

    def sample(self) -> Table:
        """The rows of the sample as numbers with these levels, in the table's own units."""
        return self._table.sample.in_numbers(self._levels)

    def __iter__(self) -> Iterator[Piece]:
        """Every row once, in the order of the files."""
        d = len(self.names)
        height = min(max(_PIECE_ROWS, _PIECE_CELLS // max(d, 1)), max(_FEWEST, _PIECE_CELLS // self.n_centres))
        cells = np.empty((d, height))
        there = None if self.complete else np.empty((d, height))
        top, columns = 0, [*self._table.names, *self._levels]
        for batch in self._table.source.batches(columns):
            held = batch_columns(batch)
            arrays = [numbers_of(held[name]) for name in self._table.names]
            codes = {name: self._codes(held[name], name) for name in self._levels}
            n_rows = len(next(iter(held.values())))
            for start in range(0, n_rows, height):
                some = slice(start, min(start + height, n_rows))
                n = some.stop - some.start
                piece = cells[:, :n]
                self._fill(piece, arrays, codes, some)
                filled = None if there is None else self._fill_gaps(piece, there[:, :n])
                yield Piece(slice(top, top + n), piece, filled)
                top += n
        if top != self.n_rows:
            raise InputError(f"the table of {self._table.owner!r} has {top} rows now, and had {self.n_rows} before.")

    def _codes(self, array: Any, name: str) -> IntArray:
        """For every row the number of its level; −1 where the cell is empty or holds what was left out, or −2 if it
        holds a level of its owner that nobody asks for.
        """
        found = words_of(array)
        position = {level: k for k, level in enumerate(self._levels[name])}
        known = self._table.counted[name]
        code = [position.get(word, -2 if word in known else -1) for word in found.levels]
        return np.array([*code, -1], dtype=np.intp)[found.codes]

    def _fill(
        self, piece: FloatArray, arrays: Sequence[FloatArray], codes: Mapping[str, IntArray], some: slice
    ) -> None:
        """Cells in common units less the offset, NaN where they are empty."""
        for at, array in zip(self._numbers_at, arrays, strict=True):
            np.subtract(array[some], self._from[at], out=piece[at])
        for name, levels in self._levels.items():
            mine = codes[name][some]
            for k, feature in enumerate(indicators({name: levels})):
                at = self._place[feature]
                piece[at] = np.where(mine == -1, np.nan, mine == k)
                piece[at] -= self._from[at]
        if (self._scale != 1.0).any():
            piece /= self._scale[:, None]
            if (np.maximum(np.abs(self.extent.low), np.abs(self.extent.high)) >= LARGEST).any():
                np.clip(piece, -LARGEST, LARGEST, out=piece)

    def _fill_gaps(self, piece: FloatArray, there: FloatArray) -> FloatArray:
        empty = np.isnan(piece)
        np.logical_not(empty, out=there, casting="unsafe")
        piece[empty] = 0.0
        return there


def _near(raw: Statistics) -> FloatArray:
    """Means, rounded to a power of two no larger than the deviation; of constant columns, as they are."""
    deviation = np.sqrt(raw.m2 / np.maximum(raw.count, 1.0))
    step = np.exp2(np.floor(np.log2(np.where(deviation > 0, deviation, 1.0))))
    return np.where(deviation > 0, np.round(raw.mean / step) * step, raw.mean)


def _quantiles(sample: Table, raw: Statistics) -> FloatArray:
    result = np.zeros((len(QUANTILES), len(sample.names)))
    for m in range(len(sample.names)):
        cells = sample.values[sample.observed[:, m], m]
        result[:, m] = np.quantile(cells, QUANTILES) if len(cells) else raw.mean[m]
    return np.maximum.accumulate(result, axis=0)
