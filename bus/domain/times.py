"""Times at the edges are RFC 3339 in UTC with milliseconds; inside they are milliseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from bus.localized_text import localized

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
SECOND: Final = 1_000
MINUTE: Final = 60_000
HOUR: Final = 3_600_000
DAY: Final = 86_400_000
SKEW: Final = 10_000
"""By how much the clocks of two processes may differ, in milliseconds."""


def format_time(time: int) -> str:
    """Return ``2026-01-31T12:00:00.000Z``."""
    second, milliseconds = divmod(time, 1000)
    return f"{_format_second(second)}.{milliseconds:03d}Z"


@lru_cache(maxsize=64)
def _format_second(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).replace(tzinfo=None).isoformat()


def parse_time(text: str) -> int:
    """Return the milliseconds of an RFC 3339 time.

    Raises
    ------
    ValueError
        The text is not a time, has no zone, or is in UTC before the year 1 or after 9999.
    """
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise ValueError(
            localized("{text} is not a time such as 2026-01-31T12:00:00Z", text=repr(text[:60]))
        ) from error
    if moment.tzinfo is None:
        raise ValueError(localized("{text} has no zone; write it as 2026-01-31T12:00:00Z", text=repr(text)))
    time = (moment - _EPOCH) // timedelta(milliseconds=1)
    if not _FIRST <= time <= _LAST:
        raise ValueError(localized("{text} is out of range", text=repr(text)))
    return time


def day_of(time: int) -> str:
    """Return the day in UTC as ``20260131``."""
    return (_EPOCH + timedelta(milliseconds=time)).strftime("%Y%m%d")


def day_start(day: str) -> int:
    """Return the first millisecond of a day written as ``20260131``."""
    return (datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
