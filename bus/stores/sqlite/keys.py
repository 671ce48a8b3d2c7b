"""Message ids as the 16 bytes that the files hold, and the partition that follows from one."""

from __future__ import annotations

from typing import Final

from bus.domain.times import DAY, day_of

SMALLEST: Final = b""
GREATEST: Final = b"\xff" * 16
_STAMP_BYTES: Final = 6


def id_key(message_id: str) -> bytes:
    """Return an id's bytes; they sort like the id. Raises ValueError when it is not hexadecimal."""
    return bytes.fromhex(message_id.replace("-", ""))


def key_id(key: bytes) -> str:
    """Undo ``id_key``."""
    text = key.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def day_number(key: bytes) -> int:
    """Return the day of an id, counted from the epoch."""
    return int.from_bytes(key[:_STAMP_BYTES], "big") // DAY


def time_key(time: int) -> bytes:
    """Return the bytes below those of every id made at a time (ms) or later, and above every earlier one."""
    return max(0, time).to_bytes(_STAMP_BYTES, "big") if time < 1 << 48 else GREATEST


def partition_name(day: int, retention_days: int) -> str:
    """Return what names the partition of a day (from the epoch) and a retention class."""
    return f"{day_of(day * DAY)}-{retention_days}d"
