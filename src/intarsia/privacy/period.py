"""Calendar periods, in which a participant answers so many rounds."""

from __future__ import annotations

from datetime import UTC, datetime

PERIODS = ("day", "week", "month", "quarter", "year")


def now() -> datetime:
    """Return the time of the clock, in UTC."""
    return datetime.now(UTC)


def period_of(time: datetime, length: str) -> str:
    """Return the name of the period in which a time is; a day begins at midnight in UTC, a week on Monday.

    >>> period_of(datetime(2026, 11, 30, 23, 30, tzinfo=UTC), "month"), period_of(datetime(2027, 1, 1, tzinfo=UTC), "week")
    ('2026-11', '2026-W53')
    """
    time = time.astimezone(UTC)
    week = time.isocalendar()
    match length:
        case "day":
            return f"{time:%Y-%m-%d}"
        case "week":
            return f"{week.year}-W{week.week:02d}"
        case "month":
            return f"{time:%Y-%m}"
        case "quarter":
            return f"{time:%Y}-Q{(time.month + 2) // 3}"
    return f"{time:%Y}"


def time_of(text: object) -> datetime | None:
    """Return the time that an entry of a journal has; None if it cannot be read."""
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
