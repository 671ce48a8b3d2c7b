"""Message ids: UUID version 7 (RFC 9562), so that ids sort by time and a partition follows from the id."""

from __future__ import annotations

import os
import re
import uuid
from typing import Final

ID_PATTERN: Final = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
"""The canonical spelling, a regular expression of what stands between both ends of the text."""
_CANONICAL: Final = re.compile(ID_PATTERN)
_RANDOM_BYTES: Final = 10
_NUMBERS: Final = 2**64


def new_id(now: int, random: bytes | None = None) -> str:
    """Make an id.

    Parameters
    ----------
    now
        Milliseconds since the epoch.
    random
        10 bytes; from the operating system when not given.
    """
    noise = (random or os.urandom(_RANDOM_BYTES)).hex()
    stamp = f"{now:012x}"
    variant = "89ab"[int(noise[3], 16) & 3]
    return f"{stamp[:8]}-{stamp[8:]}-7{noise[:3]}-{variant}{noise[4:7]}-{noise[7:19]}"


def parse_id(text: str) -> str:
    """Return the canonical spelling of an id.

    Raises
    ------
    ValueError
        The text is not a UUID of version 7.
    """
    canonical = text if _CANONICAL.fullmatch(text) else str(uuid.UUID(text))
    if not _CANONICAL.fullmatch(canonical):
        raise ValueError(f"{text!r} is not a UUID of version 7")
    return canonical


def id_time(message_id: str) -> int:
    """Return the milliseconds since the epoch that a canonical id carries."""
    return int(message_id[:8] + message_id[9:13], 16)


def id_floor(time: int) -> str:
    """Return the smallest possible id of a time in milliseconds, for ranges over ids."""
    stamp = f"{time:012x}"
    return f"{stamp[:8]}-{stamp[8:]}-7000-8000-000000000000"


def trace_number(message_id: str) -> int:
    """Return the 64-bit trace id of a message on brokers that trace it.

    Its 16 hexadecimal digits are the first 17 of the canonical id without the 13th, which is always the version 7: 48
    bits of time and 14 of chance. So ids can be found by it, as a range.
    """
    return int(message_id[:8] + message_id[9:13] + message_id[15:18] + message_id[19], 16)


def ids_of_trace(number: int) -> tuple[str, str] | None:
    """Return the first and the last id with this ``trace_number``; None when no id has it."""
    if not 0 <= number < _NUMBERS:
        return None
    digits = f"{number:016x}"
    begin = f"{digits[:8]}-{digits[8:12]}-7{digits[12:15]}-{digits[15]}"
    first, last = f"{begin}000-000000000000", f"{begin}fff-ffffffffffff"
    return (first, last) if _CANONICAL.fullmatch(first) else None
