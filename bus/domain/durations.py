"""Durations as people write them: ``500ms``, ``5s``, ``2m``, ``1h``, ``7d``."""

from __future__ import annotations

import re
from typing import Final

from bus.localized_text import localized

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PATTERN: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(ms|s|m|h|d)")
LONGEST: Final = 3650 * _UNITS["d"]


def parse_duration(text: str) -> int:
    """Return a duration in milliseconds.

    Raises
    ------
    ValueError
        The text is not a number with one of the units ms, s, m, h, d, or is more than ten years.
    """
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise ValueError(localized("{text} is not a duration such as 500ms, 5s, 2m, 1h or 7d", text=repr(text)))
    duration = round(float(match[1]) * _UNITS[match[2]])
    if duration > LONGEST:
        raise ValueError(
            localized("{text} is longer than {longest}", text=repr(text), longest=format_duration(LONGEST))
        )
    return duration


def format_duration(milliseconds: int) -> str:
    """Return the shortest exact spelling of a duration."""
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(milliseconds, _UNITS[unit])
        if count and not rest:
            return f"{count}{unit}"
    return f"{milliseconds}ms"


def about(milliseconds: int) -> str:
    """Return a duration in the largest unit of which it has at least two, rounded down: ``90m``, ``3d``.

    A negative one, of two clocks that differ, is ``0ms``.
    """
    milliseconds = max(0, milliseconds)
    fitting = (unit for unit in ("d", "h", "m", "s") if milliseconds >= 2 * _UNITS[unit])
    unit = next(fitting, "ms")
    return f"{milliseconds // _UNITS[unit]}{unit}"
