"""How a participant's table is read where the table itself does not say: notation, dates, and names of columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from intarsia.core.types import FloatArray
from intarsia.exceptions import InputError, quote
from intarsia.tables.date_texts import order_of
from intarsia.tables.dates import Since, days_in
from intarsia.tables.frame import NUMBERS, check_table, columns_of
from intarsia.tables.local_numbers import COMMA
from intarsia.tables.number_texts import MINUS
from intarsia.tables.source import TEXT, Source, batch_columns


@dataclass(frozen=True)
class Reading:
    """What a participant says about its table.

    Attributes
    ----------
    decimal, encoding
        Of a CSV file, where its cells and bytes do not decide.
    dates
        By column the day since which days are counted. Columns that the table lacks are ignored.
    rename
        New names by names in the table. ``dates`` and all other settings have the new names.
    """

    decimal: str | None = None
    encoding: str | None = None
    dates: Mapping[str, Since] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)

    def of_columns(self, names: Sequence[str], owner: str) -> dict[str, str]:
        """Return the names in the table by new names, in the table's order."""
        if missing := [name for name in self.rename if name not in names]:
            raise InputError(
                f"{owner!r} has no column {quote(missing)}, which should be renamed. It has {quote(names, 20)}."
            )
        new = [self.rename.get(name, name) for name in names]
        if twice := sorted({name for name in new if new.count(name) > 1} if len(set(new)) < len(new) else ()):
            raise InputError(f"{owner!r} would have two columns {quote(twice)} after columns are renamed.")
        return dict(zip(new, names, strict=True))


PLAIN = Reading()


def prepared(table: Any, owner: str, how: Reading, *, strict: bool, numbers: Collection[str] = ()) -> Any:
    """Return a table or source with new names, and with days in place of dates.

    ``strict`` is as for :func:`~intarsia.tables.dates.days_in`. ``numbers`` are columns of texts in a private study whose
    cells have a decimal comma.
    """
    names = table.columns if isinstance(table, Source) else check_table(table, owner)
    old = how.of_columns(names, owner)
    dates = {name: each for name, each in how.dates.items() if name in old}
    commas = [name for name in numbers if name in old and name not in dates] if how.decimal == COMMA else []
    if not dates and not commas and all(new == name for new, name in old.items()):
        return table
    if isinstance(table, Source):
        return _Prepared(table, owner, old, dates, commas, strict=strict)
    columns = columns_of(table, names, owner)
    ways = {name: partial(days_in, start=day, name=name, owner=owner, strict=strict) for name, day in dates.items()}
    return {new: ways[new](columns[name]) if new in ways else columns[name] for new, name in old.items()}


class _Prepared(Source):
    """A source with new names of columns, and with days in place of dates."""

    def __init__(
        self,
        source: Source,
        owner: str,
        old: Mapping[str, str],
        dates: Mapping[str, Since],
        commas: Sequence[str],
        *,
        strict: bool,
    ) -> None:
        self._source, self._owner, self._old, self._dates, self._commas = source, owner, old, dates, commas
        self._strict = strict
        self.infers_types = source.infers_types

    @property
    def kinds(self) -> Mapping[str, str]:
        kinds = self._source.kinds
        return {new: NUMBERS if new in self._dates else kinds[name] for new, name in self._old.items()}

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._old)

    @property
    def doubtful(self) -> Mapping[str, str]:
        reasons = self._source.doubtful
        return {new: reasons[name] for new, name in self._old.items() if name in reasons and new not in self._dates}

    @property
    def remark(self) -> str | None:
        return self._source.remark

    def line_of_text(self, column: str) -> int | None:
        return self._source.line_of_text(self._old[column])

    def __len__(self) -> int:
        return len(self._source)

    def fits(self, limit: int) -> bool:
        return self._source.fits(limit)

    def as_text(self) -> Source:
        text = self._source.as_text()
        return _Prepared(text, self._owner, self._old, self._dates, self._commas, strict=self._strict)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        columns = self.columns if columns is None else columns
        ways = {name: self._ways[name] for name in columns if name in self._ways}
        for batch in self._source.batches([self._old[name] for name in columns]):
            cells = batch_columns(batch)
            yield {name: ways.get(name, _as_it_is)(cells[self._old[name]]) for name in columns}

    def read(self, as_stored: Collection[str] = ()) -> Any:
        stored = {self._old[name] for name in as_stored}
        table = self._source.read(stored | {self._old[name] for name in self._dates})
        columns = columns_of(table, list(self._old.values()), self._owner)
        return {
            name: self._ways[name](columns[old]) if name in self._ways and name not in as_stored else columns[old]
            for name, old in self._old.items()
        }

    @cached_property
    def _ways(self) -> dict[str, Callable[[Any], Any]]:
        """What is done to the cells of each column that changes."""
        ways: dict[str, Callable[[Any], Any]] = {}
        for name, day in self._dates.items():
            start = Since(day.day, day.order or self._order(name))
            ways[name] = partial(days_in, start=start, name=name, owner=self._owner, strict=self._strict)
        return ways | dict.fromkeys(self._commas, _with_points)

    def _order(self, name: str) -> str | None:
        """Return the order of day and month, which a later batch may decide; each cell decides alone if not strict."""
        if not self._strict or self._source.kinds[self._old[name]] != TEXT:
            return None
        orders = set()
        for batch in self._source.batches([self._old[name]]):
            ((_, cells),) = batch_columns(batch).items()
            words = set(cells.to_pylist() if hasattr(cells, "to_pylist") else cells.to_list())
            orders |= {order_of(word for word in words if isinstance(word, str))} - {None}
        return orders.pop() if len(orders) == 1 else None


def _as_it_is(column: Any) -> Any:
    return column


def _with_points(column: Any) -> FloatArray:
    """Return texts with a decimal comma as numbers, each cell by itself; NaN for a text that is not a number."""
    cells = column.to_list() if hasattr(column, "to_list") else list(column)
    return np.array([_number(cell) for cell in cells], dtype=np.float64)


def _number(cell: Any) -> float:
    text = "".join(str(cell).split()).translate(_GROUPS)
    try:
        return float(text.replace(COMMA, "."))
    except ValueError:
        return float("nan")


_GROUPS = str.maketrans(MINUS, "-", ".'’")
