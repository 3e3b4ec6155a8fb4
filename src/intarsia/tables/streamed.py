"""A table that is read in batches: what one pass over it has found, and its rows as numbers, as often as needed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from intarsia.core.distances import LARGEST, Extent
from intarsia.core.features import indicators
from intarsia.core.rows import Piece
from intarsia.core.types import FloatArray, IntArray
from intarsia.core.units import Statistics
from intarsia.exceptions import InputError
from intarsia.tables.categories import Category
from intarsia.tables.frame import Table, check_level_names
from intarsia.tables.sample import LIMITS, Limits, canonical_order, quantiles_of
from intarsia.tables.source import Source, batch_columns, numbers_of, words_of


@dataclass(frozen=True, eq=False)
class StreamedTable:
    """The result of one pass over a source, and the way to read it again.

    ``names`` are the columns of numbers, sorted; ``statistics`` theirs. ``counted`` says how many rows have each level of
    each column of categories, ``blank`` how many rows have no value. ``sample`` are the rows at the positions ``drawn``.
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
    limits: Limits = LIMITS

    in_memory: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.source)

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of every column of categories."""
        return {name: tuple(sorted(levels)) for name, levels in self.counted.items()}

    @property
    def filled(self) -> dict[str, int]:
        """The number of observed values of each column, in the owner's order."""
        numbers = dict(zip(self.names, self.statistics.count.astype(np.int64).tolist(), strict=True))
        return {
            name: sum(self.counted[name].values()) if name in self.counted else numbers[name]
            for name in self.given_names
        }

    @property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        return all(n == len(self) for n in self.filled.values())

    def without(self, columns: Collection[str]) -> StreamedTable:
        """Return the table without these columns."""
        if not columns:
            return self
        kept = np.array([name not in columns for name in self.names], dtype=np.bool_)
        parts: Any = {name: part if part is None else part[..., kept] for name, part in vars(self.statistics).items()}
        return replace(
            self,
            names=tuple(name for name in self.names if name not in columns),
            given_names=tuple(name for name in self.given_names if name not in columns),
            statistics=Statistics(**parts),
            counted={name: levels for name, levels in self.counted.items() if name not in columns},
            sample=self.sample.without(columns),
        )

    def with_levels(self, kept: Mapping[str, Collection[str]]) -> StreamedTable:
        """Return the table with these levels only; a cell with another level is missing."""
        counted = {
            name: {level: n for level, n in levels.items() if level in kept[name]}
            for name, levels in self.counted.items()
        }
        categories = {}
        for name, category in self.sample.categories.items():
            levels = tuple(sorted(counted[name]))
            categories[name] = Category(levels, category.with_levels(levels))
        return replace(self, counted=counted, sample=replace(self.sample, categories=categories))

    def in_canonical_order(self) -> StreamedTable:
        """Return the table with its sample in an order that depends on the content of rows only, if it has all rows."""
        if len(self.drawn) < len(self):
            return self
        order = canonical_order(self.sample.in_numbers())
        return replace(self, sample=self.sample.of_rows(order), drawn=self.drawn[order])

    def in_given_order(self, labels: IntArray) -> IntArray:
        """Return labels in the order of the source."""
        return labels.astype(np.int32)

    def rows(
        self,
        levels: Mapping[str, Sequence[str]] | None = None,
        units: tuple[FloatArray, FloatArray] | None = None,
        *,
        centred: bool = True,
    ) -> StreamedRows:
        """Return all rows as numbers, with an indicator for each of these levels (default: its own), in these units."""
        return StreamedRows(self, self.levels if levels is None else levels, units, centred=centred)


class StreamedRows:
    """The rows of a streamed table as numbers, in common units: a feature for each number and each level of a category."""

    def __init__(
        self,
        table: StreamedTable,
        levels: Mapping[str, Sequence[str]],
        units: tuple[FloatArray, FloatArray] | None,
        *,
        centred: bool,
    ) -> None:
        levels = {name: tuple(levels[name]) for name in table.counted}
        check_level_names(levels, table.names, table.owner)
        self._table, self._levels = table, levels
        features = [*table.names, *(feature for name in levels for feature in indicators({name: levels[name]}))]
        self._order = np.array(sorted(range(len(features)), key=features.__getitem__), dtype=np.intp)
        self.names = tuple(features[k] for k in self._order)
        self.drawn, self.n_rows = table.drawn, len(table)
        self._place = {features[k]: at for at, k in enumerate(self._order.tolist())}
        self._numbers_at = [self._place[name] for name in table.names]
        self._raw = self._statistics()
        self._shift, self._scale = (np.zeros(len(features)), np.ones(len(features))) if units is None else units
        # close to the mean, so that sums lose no digits, but short, so that differences of short numbers stay exact and
        # ties stay ties; indicators are 0 and 1, whose sums are exact
        is_number = self._order < len(table.names)
        self._origin = np.where(is_number, _near(self._raw), self._shift) if centred else self._shift
        self.offset, self.mean = self._in_units(self._origin), self._in_units(self._raw.mean)
        self.complete = bool((self._raw.count >= len(table)).all())

    @property
    def counts(self) -> IntArray:
        """The number of observed values of each feature."""
        return self._raw.count.astype(np.intp)

    @cached_property
    def extent(self) -> Extent:
        """The smallest and largest value of each feature, in these units."""
        assert self._raw.low is not None
        assert self._raw.high is not None
        return Extent(self._in_units(self._raw.low), self._in_units(self._raw.high))

    def _in_units(self, values: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.clip((values - self._shift) / self._scale, -LARGEST, LARGEST)

    def _statistics(self) -> Statistics:
        """Statistics of every feature in the units of the table; those of indicators follow from the numbers of levels."""
        table, numbers = self._table, self._table.statistics
        parts = {name: [getattr(numbers, name)] for name in ("count", "mean", "m2", "low", "high")}
        for name, levels in self._levels.items():
            counts = np.array([table.counted[name].get(level, 0) for level in levels], dtype=np.float64)
            filled = np.full(len(levels), float(sum(table.counted[name].values())))
            share = counts / np.maximum(filled, 1.0)
            indicator = (filled, share, filled * share * (1 - share), (share >= 1).astype(float), (share > 0) * 1.0)
            for part, values in zip(parts.values(), indicator, strict=True):
                part.append(values)
        return Statistics(**{name: np.concatenate(part)[self._order] for name, part in parts.items()})

    def statistics(self, way: str | None) -> Statistics:
        """Return the statistics that common units are computed from; quantiles are those of the sample."""
        raw = self._raw
        if way == "minmax":
            return raw
        quantiles = quantiles_of(self.sample(), raw.mean) if way == "robust" else None
        return Statistics(raw.count, raw.mean, raw.m2, quantiles=quantiles)

    def sample(self) -> Table:
        """The rows that k-means starts with, as numbers in the units of the table."""
        return self._table.sample.in_numbers(self._levels)

    def __iter__(self) -> Iterator[Piece]:
        return self.pieces()

    def pieces(self, n_centres: int = 1) -> Iterator[Piece]:
        """Read all rows once, in the order of the source; pieces have fewer rows if there are many centres."""
        d, limits = len(self.names), self._table.limits
        height = max(limits.piece_rows, limits.piece_values // max(d, 1))
        height = min(height, max(limits.fewest_rows, limits.piece_values // n_centres))
        cells, mask = np.empty((d, height)), None if self.complete else np.empty((d, height))
        top, columns = 0, [*self._table.names, *self._levels]
        for batch in self._table.source.batches(columns):
            arrays = batch_columns(batch)
            numbers = [numbers_of(arrays[name]) for name in self._table.names]
            codes = {name: self._codes(arrays[name], name) for name in self._levels}
            n_rows = len(next(iter(arrays.values())))
            for start in range(0, n_rows, height):
                at = slice(start, min(start + height, n_rows))
                n = at.stop - at.start
                piece = cells[:, :n]
                self._fill(piece, numbers, codes, at)
                yield Piece(slice(top, top + n), piece, None if mask is None else _without_nan(piece, mask[:, :n]))
                top += n
        if top != self.n_rows:
            raise InputError(f"the table of {self._table.owner!r} now has {top} rows, and had {self.n_rows} before.")

    def _codes(self, array: Any, name: str) -> IntArray:
        """Return the position of each row's level; −1 if it is missing or suppressed, −2 if it is not asked for."""
        words = words_of(array)
        position = {level: k for k, level in enumerate(self._levels[name])}
        known = self._table.counted[name]
        code = [position.get(word, -2 if word in known else -1) for word in words.levels]
        return np.array([*code, -1], dtype=np.intp)[words.codes]

    def _fill(self, piece: FloatArray, numbers: Sequence[FloatArray], codes: Mapping[str, IntArray], at: slice) -> None:
        """Write values in common units less the offset, NaN where they are missing."""
        for place, column in zip(self._numbers_at, numbers, strict=True):
            np.subtract(column[at], self._origin[place], out=piece[place])
        for name, levels in self._levels.items():
            of_rows = codes[name][at]
            for k, feature in enumerate(indicators({name: levels})):
                place = self._place[feature]
                piece[place] = np.where(of_rows == -1, np.nan, of_rows == k)
                piece[place] -= self._origin[place]
        if (self._scale != 1.0).any():
            piece /= self._scale[:, None]
            if (np.maximum(np.abs(self.extent.low), np.abs(self.extent.high)) >= LARGEST).any():
                np.clip(piece, -LARGEST, LARGEST, out=piece)


def _without_nan(piece: FloatArray, mask: FloatArray) -> FloatArray:
    """Set missing values to 0, and the mask to 1 where a value is observed."""
    missing = np.isnan(piece)
    np.logical_not(missing, out=mask, casting="unsafe")
    piece[missing] = 0.0
    return mask


def _near(raw: Statistics) -> FloatArray:
    """Return means, rounded to a power of two no larger than the deviation; those of constant columns as they are."""
    deviation = np.sqrt(raw.m2 / np.maximum(raw.count, 1.0))
    step = np.exp2(np.floor(np.log2(np.where(deviation > 0, deviation, 1.0))))
    return np.where(deviation > 0, np.round(raw.mean / step) * step, raw.mean)
