"""Times as pages and commands show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any


def now() -> str:
    """Return the time in ISO format, with the time zone of this machine."""
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")


def clock(time: Any, *, day: bool = False) -> str:
    """Return a time of the journal in this machine's time zone."""
    try:
        moment = datetime.fromisoformat(str(time)).astimezone()
    except (ValueError, OverflowError):
        return "?"
    return moment.strftime("%Y-%m-%d %H:%M:%S" if day else "%H:%M:%S")


def moment(time: Any) -> str:
    """Return a time in words, with its time zone; without the day if that is today.

    >>> moment("2026-11-18T04:15:04+05:30")
    '04:15:04 on 2026-11-18 (UTC+5:30)'
    """
    try:
        at = datetime.fromisoformat(str(time))
    except ValueError:
        return "?"
    offset = at.utcoffset()
    if offset is None:
        at, offset = at.astimezone(), at.astimezone().utcoffset() or timedelta()
    minutes = round(offset.total_seconds() / 60)
    rest = f":{abs(minutes) % 60:02d}" if minutes % 60 else ""
    zone = f"UTC{'-' if minutes < 0 else '+'}{abs(minutes) // 60}{rest}"
    day = "" if at.date() == datetime.now(at.tzinfo).date() else f" on {at:%Y-%m-%d}"
    return f"{at:%H:%M:%S}{day} ({zone})"
