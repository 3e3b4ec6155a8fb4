"""Columns of dates and times as numbers: days since a day that is declared.

Dates are typed (of a Parquet file or a table in memory) or texts: 2020-01-31, 31.01.2020, 20200131, 31/01/2020 or
01/31/2020, each with or without a time. Which of the last two is meant is decided by the cells of the column (no month is
31) or by what is declared; otherwise it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import narwhals as nw
import numpy as np

from intarsia.core.types import FloatArray
from intarsia.exceptions import InputError, SettingError
from intarsia.tables.categories import Category, is_blank
from intarsia.tables.date_texts import EITHER, SECONDS, days_of, order_of
from intarsia.tables.source import is_arrow

_SETTING = re.compile(r"(\d{4}-\d{2}-\d{2})(?:,(dmy|mdy))?")


@dataclass(frozen=True)
class Since:
    """The day from which a column's days are counted, and the order of day and month in its texts, if declared."""

    day: date
    order: str | None = None

    def __str__(self) -> str:
        return self.day.isoformat() + (f",{self.order}" if self.order else "")


def since(text: Any) -> Since:
    """Return what ``2020-01-01``, ``2020-01-01,dmy`` or ``2020-01-01,mdy`` declares, or raise a SettingError."""
    match = _SETTING.fullmatch(str(text))
    try:
        if match is not None:
            return Since(date.fromisoformat(match[1]), match[2])
    except ValueError:
        pass
    raise SettingError(
        f"dates are counted from a day such as 2000-01-01, with ',dmy' or ',mdy' behind it if 01/02/2020 must be told. "
        f"Got {str(text)!r} instead."
    )


def days_in(column: Any, start: Since, name: str, owner: str, *, strict: bool = True) -> FloatArray:
    """Return a column of dates as days since a day, NaN where missing.

    With ``strict``, cells that are no dates are refused, and the cells may decide the order of day and month. Otherwise each
    cell is read by itself, and is missing if it is no date.
    """
    typed = _typed(column)
    if typed is not None:
        return typed - _epoch_days(start.day)
    cells = _cells(column)
    words = {cell: _word(cell) for cell in cells if not is_blank(cell)}
    order = start.order or (order_of({word for word in words.values() if word}) if strict else None)
    days = {cell: None if word is None else days_of(word, order) for cell, word in words.items()}
    failed = [cell for cell, each in days.items() if each is None]
    if strict and failed:
        raise _no_dates(name, owner, len(failed), len(days), open_order=_is_open(words, failed, order))
    epoch = _epoch_days(start.day)
    known = {cell: np.nan if each is None else each - epoch for cell, each in days.items()}
    return np.array([np.nan if is_blank(cell) else known[cell] for cell in cells], dtype=np.float64)


def _is_open(words: Mapping[Any, str | None], failed: Collection[Any], order: str | None) -> bool:
    return order is None and all(EITHER.fullmatch((words[cell] or "").strip()) for cell in failed)


def _no_dates(name: str, owner: str, n_failed: int, n_cells: int, *, open_order: bool) -> InputError:
    if open_order:
        return InputError(
            f"column {name!r} of {owner!r} has dates in which day and month cannot be told apart (01/02/2020). "
            f"Hint: --dates {name}=2000-01-01,dmy if the day comes first, or ,mdy."
        )
    return InputError(
        f"column {name!r} of {owner!r} has {n_failed} of {n_cells} different values that are no dates. Dates are "
        "2020-01-31, 31.01.2020 or 31/01/2020, with or without a time. Hint: correct them, or leave the column out (-x)."
    )


def _epoch_days(day: date) -> float:
    return float((day - date(1970, 1, 1)).days)


def _typed(column: Any) -> FloatArray | None:
    """Return a column with a type of dates as days since 1970; None for other types."""
    if is_arrow(column):
        import pyarrow as pa

        if not (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)):
            return None
        exact = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return np.asarray(exact.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)) / (SECONDS * 1e6)
    if isinstance(column, nw.Series):
        if column.dtype not in {nw.Date, nw.Datetime}:
            return None
        stamps = column.cast(nw.Datetime("us")) if column.dtype == nw.Date else column
        micros = stamps.dt.timestamp("us").cast(nw.Float64)
        return np.asarray(micros.fill_null(float("nan")).to_numpy(), dtype=np.float64) / (SECONDS * 1e6)
    if getattr(getattr(column, "dtype", None), "kind", "") != "M":
        return None
    moments = np.asarray(column).astype("datetime64[us]")
    return np.where(np.isnat(moments), np.nan, moments.astype(np.int64).astype(np.float64)) / (SECONDS * 1e6)


def _cells(column: Any) -> list[Any]:
    if isinstance(column, Category):
        return column.tolist()
    for way in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, way):
            cells: list[Any] = getattr(column, way)()
            return cells
    return list(column)


def _word(cell: Any) -> str | None:
    """Return a cell as the text of a date; None if it cannot be one."""
    if isinstance(cell, datetime | date):
        return cell.isoformat()
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return str(cell) if isinstance(cell, str | int) and not isinstance(cell, bool) else None
