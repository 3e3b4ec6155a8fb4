"""Texts of dates, in the forms that files have: as days since 1970."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta, timezone

DAY_FIRST, MONTH_FIRST = "dmy", "mdy"
_TIME = r"(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*(Z|[+-]\d{2}:?\d{2}|[AaPp]\.?[Mm]\.?)?)?"
_YEAR_FIRST = re.compile(rf"(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}}){_TIME}")
_COMPACT = re.compile(rf"(\d{{4}})(\d{{2}})(\d{{2}}){_TIME}")
_DOTTED = re.compile(rf"(\d{{1,2}})\.\s?(\d{{1,2}})\.\s?(\d{{4}}){_TIME}")
EITHER = re.compile(rf"(\d{{1,2}})([/-])(\d{{1,2}})\2(\d{{4}}){_TIME}")
SECONDS = 86_400.0  # of a day
_MONTHS = 12
_FEWEST, _FIRST_YEAR, _LAST_YEAR = 0.5, 1000, 9999


def look_like_dates(words: Collection[str]) -> bool:
    """Return whether most of these texts are dates."""
    n_dates = sum(any(form.fullmatch(word.strip()) for form in (_YEAR_FIRST, _DOTTED, EITHER)) for word in words)
    return n_dates > _FEWEST * len(words)


def order_of(words: Iterable[str]) -> str | None:
    """Return the order of day and month that texts such as 31/01/2020 decide; None if they decide none, or both."""
    orders = set()
    for word in words:
        if match := EITHER.fullmatch(word.strip()):
            first, second = int(match[1]), int(match[3])
            orders |= (
                {DAY_FIRST} if first > _MONTHS >= second else {MONTH_FIRST} if second > _MONTHS >= first else set()
            )
    return orders.pop() if len(orders) == 1 else None


def days_of(word: str, order: str | None) -> float | None:
    """Return the days since 1970 of the text of a date; None if it is no date, or day and month cannot be told apart."""
    word = word.strip()
    if match := (_YEAR_FIRST.fullmatch(word) or _COMPACT.fullmatch(word)):
        (year, month, day), time = match.groups()[:3], match.groups()[3:]
    elif match := _DOTTED.fullmatch(word):
        (day, month, year), time = match.groups()[:3], match.groups()[3:]
    elif match := EITHER.fullmatch(word):
        first, _, second, year, *rest = match.groups()
        time = tuple(rest)
        if order is None and first != second:
            return None
        day, month = (first, second) if order != MONTH_FIRST else (second, first)
    else:
        return None
    if not _FIRST_YEAR <= int(year) <= _LAST_YEAR:
        return None
    try:
        moment = datetime(int(year), int(month), int(day), tzinfo=UTC) + _time_of_day(*time)
    except (ValueError, OverflowError):
        return None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / SECONDS


def _time_of_day(
    hour: str | None, minute: str, second: str | None, fraction: str | None, zone: str | None
) -> timedelta:
    """Return the time since midnight, in UTC where there is a zone."""
    if hour is None:
        return timedelta(0)
    hours, shift = int(hour), timedelta(0)
    if zone and zone[0] in "AaPp":
        if not 1 <= hours <= _MONTHS:
            raise ValueError
        hours = hours % 12 + (12 if zone[0] in "Pp" else 0)
    elif zone and zone != "Z":
        sign = -1 if zone[0] == "-" else 1
        digits = zone[1:].replace(":", "")
        shift = sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        timezone(shift)  # refuses a day or more
    if hours > 23 or int(minute) > 59 or int(second or 0) > 60:
        raise ValueError
    return timedelta(hours=hours, minutes=int(minute), seconds=float(f"{second or 0}.{fraction or 0}")) - shift
