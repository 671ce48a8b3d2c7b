"""Message ids as the 16 bytes that the files hold, and the partition that follows from one."""

from __future__ import annotations

import re
from typing import Final

from bus.domain.times import DAY
from bus.domain.tracing.partition import PartitionLabel

SMALLEST: Final = b""
GREATEST: Final = b"\xff" * 16
_STAMP_BYTES: Final = 6
_FILE: Final = re.compile(r"traces-(\d{8})-(\d+)d\.db")


class Label(PartitionLabel):
    """The name of a partition."""

    __slots__ = ()

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"traces-{self.name}.db"


def label_of(file: str) -> Label | None:
    """Return the label of a file's name; None when the file is something else."""
    match = _FILE.fullmatch(file)
    return Label.of_date(match[1], match[2]) if match else None


def id_key(message_id: str) -> bytes:
    """Return an id's bytes; they sort like the id. Raises ValueError when it is not hexadecimal."""
    return bytes.fromhex(message_id.replace("-", ""))


def key_id(key: bytes) -> str:
    """Undo ``id_key``."""
    text = key.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def day_number(key: bytes) -> int:
    """Return the day of an id, counted from the epoch."""
    return key_time(key) // DAY


def key_time(key: bytes) -> int:
    """Return the time (ms) that a key carries, whole or only its time."""
    return int.from_bytes(key[:_STAMP_BYTES], "big")


def time_key(time: int) -> bytes:
    """Return the bytes below those of every id made at a time (ms) or later, and above every earlier one."""
    return max(0, time).to_bytes(_STAMP_BYTES, "big") if time < 1 << 48 else GREATEST
