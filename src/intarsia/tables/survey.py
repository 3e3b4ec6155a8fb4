"""The first pass over a table: what its columns hold, or what stands in the way of taking part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from intarsia.core.distances import LARGEST
from intarsia.core.types import BoolArray, FloatArray
from intarsia.core.units import Statistics
from intarsia.tables.categories import MOST_LEVELS, Category, unusable_columns, why_not_levels
from intarsia.tables.frame import CATEGORIES, NUMBERS, Table, check_magnitudes, check_not_empty
from intarsia.tables.missing import blank_rows, missing_values
from intarsia.tables.names import check_names
from intarsia.tables.sample import LIMITS, Limits
from intarsia.tables.source import TEXT, Source, batch_columns, numbers_of, words_of
from intarsia.tables.streamed import StreamedTable

_MANY_LEVELS = 20 * MOST_LEVELS  # after which nobody counts on


class _Numbers:
    """Count, mean, sum of squares and extremes of one column, batch by batch (Chan)."""

    def __init__(self) -> None:
        self.count, self.mean, self.m2, self.low, self.high = 0.0, 0.0, 0.0, np.inf, -np.inf

    def add(self, cells: FloatArray) -> int:
        """How many cells were filled."""
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
    """Go through a table once: what its columns hold, or what stands in the way of taking part."""
    check_names(source.columns, owner)
    n_rows = len(source)
    check_not_empty(owner, n_rows, len(source.columns))
    survey = _Survey(source, owner, limits)
    if refused := survey.refused():
        raise unusable_columns({owner: refused})
    survey.go()
    if refused := survey.refused():
        raise unusable_columns({owner: refused})
    table = survey.table()
    if missing == "error" and not table.is_complete:
        raise missing_values(owner, {name: n / n_rows for name, n in table.filled.items()})
    if table.blank:
        raise blank_rows(owner, table.blank, n_rows)
    return table.without({name for name, n in table.filled.items() if not n})


def kinds_in(source: Source, owner: str) -> dict[str, str]:
    """By column "numbers", "categories", or what stands in the way of either, after a pass over columns of words."""
    survey = _Survey(source, owner)
    survey.go(survey.words)
    return survey.kinds | survey.refused()


class _Survey:
    """The first pass."""

    def __init__(self, source: Source, owner: str, limits: Limits = LIMITS) -> None:
        self._texts = {name for name, kind in source.kinds.items() if kind == TEXT}
        self.kinds = kinds = {name: CATEGORIES if kind == TEXT else kind for name, kind in source.kinds.items()}
        self._source, self._owner = source, owner
        self._numbers = {name: _Numbers() for name, kind in kinds.items() if kind == NUMBERS}
        self._words: dict[str, Counter[str]] = {name: Counter() for name, kind in kinds.items() if kind == CATEGORIES}
        self._limits, self._drawn = limits, limits.drawn(len(source), len(kinds))
        self._kept: dict[str, list[Any]] = {name: [] for name in kinds}
        self._top = self._blank = 0

    @property
    def words(self) -> list[str]:
        """The columns of words."""
        return list(self._words)

    def go(self, columns: Sequence[str] | None = None) -> None:
        """Through all rows, or through all rows of some columns."""
        if columns is not None:
            self._numbers = {name: each for name, each in self._numbers.items() if name in columns}
        if columns is None or columns:
            for batch in self._source.batches(columns):
                self._add(batch)

    def _add(self, batch: Any) -> None:
        held = batch_columns(batch)
        n = len(next(iter(held.values())))
        first, last = np.searchsorted(self._drawn, [self._top, self._top + n])
        drawn = self._drawn[first:last] - self._top
        empty: list[Callable[[], BoolArray]] = []
        whole = False
        for name, numbers in self._numbers.items():
            cells = numbers_of(held[name])
            whole = numbers.add(cells) == n or whole
            self._kept[name].append(cells[drawn])
            empty.append(lambda cells=cells: np.isnan(cells))  # type: ignore[misc]
        for name, counts in self._words.items():
            found = words_of(held[name])
            if len(counts) <= _MANY_LEVELS:
                times = np.bincount(found.codes[found.codes >= 0], minlength=len(found.levels))
                counts.update({word: n for word, n in zip(found.levels, times.tolist(), strict=True) if n})
            whole = whole or bool((found.codes >= 0).all())
            self._kept[name].append([None if code < 0 else found.levels[code] for code in found.codes[drawn]])
            empty.append(lambda codes=found.codes: codes < 0)  # type: ignore[misc]
        if not whole:
            self._blank += int(np.logical_and.reduce([each() for each in empty]).sum())
        self._top += n

    def table(self) -> StreamedTable:
        owner, names = self._owner, sorted(self._numbers)
        of = [self._numbers[name] for name in names]
        low, high = (np.array([getattr(each, side) for each in of], dtype=np.float64) for side in ("low", "high"))
        huge = np.array(
            [each.low <= each.high and not max(-each.low, each.high) <= LARGEST for each in of], dtype=np.bool_
        )
        nothing = low > high
        low[nothing], high[nothing] = np.nan, np.nan
        with np.errstate(invalid="ignore"):
            check_magnitudes(owner, names, huge, np.nan_to_num(high - low, nan=0.0))
        count, mean, m2 = (
            np.array([getattr(each, part) for each in of], dtype=np.float64) for part in ("count", "mean", "m2")
        )
        given = self._source.columns
        values = (
            np.column_stack([np.concatenate(self._kept[name]) for name in names])
            if names
            else np.empty((len(self._drawn), 0))
        )
        categories = {}
        for name in sorted(self._words):
            levels = tuple(sorted(self._words[name]))
            position = {level: k for k, level in enumerate(levels)}
            cells = [-1 if word is None else position[word] for part in self._kept[name] for word in part]
            categories[name] = Category(levels, np.array(cells, dtype=np.intp))
        sample = Table(owner, tuple(names), given, np.ascontiguousarray(values), ~np.isnan(values), categories)
        return StreamedTable(
            self._source,
            owner,
            tuple(names),
            given,
            Statistics(count, mean, m2, low, high),
            {name: dict(self._words[name]) for name in sorted(self._words)},
            self._blank,
            self._drawn,
            sample,
            self._limits,
        )

    def refused(self) -> dict[str, str]:
        """Columns that are neither numbers nor categories, as far as is known by now, and why."""
        found = {name: kind for name, kind in self.kinds.items() if kind not in {NUMBERS, CATEGORIES}}
        for name, counts in self._words.items():
            if problem := why_not_levels(counts, texts=name in self._texts):
                found[name] = problem
        return found
