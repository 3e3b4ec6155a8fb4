"""The first pass over a source: the statistics of its columns, or the reasons why it cannot be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from intarsia.core.distances import LARGEST
from intarsia.core.types import BoolArray, FloatArray
from intarsia.core.units import Statistics
from intarsia.tables.categories import MOST_LEVELS, Category, unusable_columns, why_not_levels
from intarsia.tables.frame import CATEGORIES, NUMBERS, Table, check_magnitudes, check_not_empty
from intarsia.tables.missing import FIRST_BLANK, blank_rows, missing_values
from intarsia.tables.names import check_names
from intarsia.tables.sample import LIMITS, Limits
from intarsia.tables.source import TEXT, Source, batch_columns, numbers_of, words_of
from intarsia.tables.streamed import StreamedTable

_MANY_LEVELS = 20 * MOST_LEVELS  # after which levels are no longer counted


class _Numbers:
    """Count, mean, sum of squared deviations and extremes of one column, batch by batch (Chan)."""

    def __init__(self) -> None:
        self.count, self.mean, self.m2, self.low, self.high = 0.0, 0.0, 0.0, np.inf, -np.inf

    def add(self, cells: FloatArray) -> int:
        """Add the values of a batch, and return the number of observed ones."""
        low = cells.min(initial=np.inf)
        if np.isnan(low):
            cells = cells[~np.isnan(cells)]
            low = cells.min(initial=np.inf)
        if not len(cells):
            return 0
        high = cells.max()
        self.low, self.high = min(self.low, float(low)), max(self.high, float(high))
        if not (abs(self.low) <= LARGEST and abs(self.high) <= LARGEST):
            return len(cells)
        near = (
            self.mean if self.count else cells[0] + (cells - cells[0]).mean()
        )  # of equal cells, that cell to the last digit
        apart = cells - near
        step = float(apart.sum()) / len(cells)
        m2, n = float(apart @ apart) - step * step * len(cells), self.count + len(cells)
        self.m2 += max(m2, 0.0) + step * step * self.count * len(cells) / n
        self.mean, self.count = float(near) + step * len(cells) / n, n
        return len(cells)


def open_stream(source: Source, owner: str, missing: str = "observed", limits: Limits = LIMITS) -> StreamedTable:
    """Read a source once and return its statistics and sample; raise an error if it cannot be used."""
    check_names(source.columns, owner)
    n_rows = len(source)
    check_not_empty(owner, n_rows, len(source.columns))
    survey = _Survey(source, owner, limits)
    if refused := survey.refused():
        raise unusable_columns({owner: refused})
    survey.read()
    if refused := survey.refused():
        raise unusable_columns({owner: refused})
    table = survey.table()
    if missing == "error" and not table.is_complete:
        raise missing_values(owner, {name: n / n_rows for name, n in table.filled.items()})
    if table.blank:
        raise blank_rows(owner, table.blank, n_rows, survey.first_blank)
    return table.without({name for name, n in table.filled.items() if not n})


def kinds_in(source: Source, owner: str) -> dict[str, str]:
    """Return by column "numbers", "categories", or the reason why it is neither, after a pass over columns of text."""
    survey = _Survey(source, owner)
    survey.read(list(survey.levels))
    return survey.kinds | survey.refused()


def levels_in(source: Source, owner: str) -> dict[str, Counter[str]]:
    """Return by column of text the number of rows with each level, after a pass over these columns."""
    survey = _Survey(source, owner)
    survey.read(list(survey.levels))
    return survey.levels


class _Survey:
    """The state of the first pass."""

    def __init__(self, source: Source, owner: str, limits: Limits = LIMITS) -> None:
        self._texts = {name for name, kind in source.kinds.items() if kind == TEXT}
        self.kinds = kinds = {name: CATEGORIES if kind == TEXT else kind for name, kind in source.kinds.items()}
        self._source, self._owner = source, owner
        self._numbers = {name: _Numbers() for name, kind in kinds.items() if kind == NUMBERS}
        self.levels: dict[str, Counter[str]] = {name: Counter() for name, kind in kinds.items() if kind == CATEGORIES}
        self._limits, self._drawn = limits, limits.drawn(len(source), len(kinds))
        self._sampled: dict[str, list[Any]] = {name: [] for name in kinds}
        self._n_read = self._n_blank = 0
        self.first_blank: list[int] = []

    def read(self, columns: Sequence[str] | None = None) -> None:
        """Read all rows, of all columns or of these."""
        if columns is not None:
            self._numbers = {name: each for name, each in self._numbers.items() if name in columns}
        if columns is None or columns:
            for batch in self._source.batches(columns):
                self._add(batch)

    def _add(self, batch: Any) -> None:
        arrays = batch_columns(batch)
        n = len(next(iter(arrays.values())))
        first, last = np.searchsorted(self._drawn, [self._n_read, self._n_read + n])
        drawn = self._drawn[first:last] - self._n_read
        missing: list[Callable[[], BoolArray]] = []
        has_complete_column = False
        for name, numbers in self._numbers.items():
            values = numbers_of(arrays[name])
            has_complete_column = numbers.add(values) == n or has_complete_column
            self._sampled[name].append(values[drawn])
            missing.append(partial(np.isnan, values))
        for name, counts in self.levels.items():
            words = words_of(arrays[name])
            if len(counts) <= _MANY_LEVELS:
                times = np.bincount(words.codes[words.codes >= 0], minlength=len(words.levels))
                counts.update({level: k for level, k in zip(words.levels, times.tolist(), strict=True) if k})
            has_complete_column = has_complete_column or bool((words.codes >= 0).all())
            self._sampled[name].append([None if code < 0 else words.levels[code] for code in words.codes[drawn]])
            missing.append(partial(np.less, words.codes, 0))
        if not has_complete_column:
            blank = np.flatnonzero(np.logical_and.reduce([each() for each in missing]))
            self._n_blank += len(blank)
            self.first_blank += (blank[: FIRST_BLANK - len(self.first_blank)] + self._n_read).tolist()
        self._n_read += n

    def table(self) -> StreamedTable:
        """Return the result of the pass; raise an error if values are too large or too close together."""
        names = sorted(self._numbers)
        columns = [self._numbers[name] for name in names]
        count, mean, m2, low, high = (
            np.array([getattr(column, part) for column in columns], dtype=np.float64)
            for part in ("count", "mean", "m2", "low", "high")
        )
        huge = (low <= high) & ~(np.maximum(-low, high) <= LARGEST)
        low[low > high] = high[low > high] = np.nan
        with np.errstate(invalid="ignore"):
            check_magnitudes(self._owner, names, huge, np.nan_to_num(high - low, nan=0.0))
        return StreamedTable(
            self._source,
            self._owner,
            tuple(names),
            self._source.columns,
            Statistics(count, mean, m2, low, high),
            {name: dict(self.levels[name]) for name in sorted(self.levels)},
            self._n_blank,
            self._drawn,
            self._sample(names),
            self._limits,
        )

    def _sample(self, names: Sequence[str]) -> Table:
        values = np.empty((len(self._drawn), len(names)))
        for at, name in enumerate(names):
            values[:, at] = np.concatenate(self._sampled[name])
        categories = {}
        for name in sorted(self.levels):
            levels = tuple(sorted(self.levels[name]))
            code = {None: -1} | {level: k for k, level in enumerate(levels)}
            codes = [code[level] for part in self._sampled[name] for level in part]
            categories[name] = Category(levels, np.array(codes, dtype=np.intp))
        return Table(self._owner, tuple(names), self._source.columns, values, ~np.isnan(values), categories)

    def refused(self) -> dict[str, str]:
        """Return the columns that are known to be neither numbers nor categories, and why."""
        reasons = {name: kind for name, kind in self.kinds.items() if kind not in {NUMBERS, CATEGORIES}}
        for name, counts in self.levels.items():
            if reason := why_not_levels(counts, texts=name in self._texts):
                reasons[name] = reason
        return reasons
