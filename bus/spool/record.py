"""Records: numbers, sizes and checksums."""

from __future__ import annotations

from struct import Struct, error
from typing import TypeAlias
from zlib import crc32

LANE_SHIFT = 40
SEQUENCE_MASK = (1 << LANE_SHIFT) - 1
OVERHEAD = 32
"""Bytes a record takes besides its payload, as counted against the size limit."""

Row: TypeAlias = tuple[int, int, int, bytes]
"""A record as it is stored: position, time, checksum, payload."""

pack_key = Struct("<qq").pack


def checksum(position: int, time: int, payload: bytes) -> int:
    """Return the CRC that is stored with a record; it covers the position, so a swapped record is noticed too."""
    return crc32(payload, crc32(pack_key(position, time)))


def intact(row: tuple[object, object, object, object]) -> bool:
    """Whether a stored row is what was appended."""
    position, time, check, payload = row
    if not (isinstance(position, int) and isinstance(time, int) and isinstance(payload, bytes)):
        return False
    try:
        return checksum(position, time, payload) == check
    except error:
        return False


def seal(*fields: object) -> int:
    """Return the CRC stored with a row of bookkeeping."""
    return crc32(repr(fields).encode())


def runs(positions: list[int]) -> list[tuple[int, int]]:
    """Join positions into ranges without gaps."""
    positions.sort()
    first = last = positions[0]
    ranges = []
    for position in positions:
        if position > last + 1:
            ranges.append((first, last))
            first = position
        last = position
    ranges.append((first, last))
    return ranges
