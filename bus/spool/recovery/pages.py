"""SQLite's pages read raw, for files that SQLite itself refuses.

Only what a spool writes is understood: leaf pages of tables and of the cursor index, with their overflow chains.
Every row that is taken carries its own checksum, so a page that only looks like one does no harm.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

from bus.spool.file import PAGE_SIZE, CursorRow, LaneRow, TallyRow, unpack_holes
from bus.spool.record import Row, intact, seal

Value: TypeAlias = int | str | bytes | None
Found: TypeAlias = Row | LaneRow | TallyRow | CursorRow

_TABLE_LEAF = 0x0D
_INDEX_LEAF = 0x0A
_FIRST_HEADER = 100
_WAL_HEADER = 32
_WAL_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_FRAME_HEADER = 24
FRAME_BYTES = _FRAME_HEADER + PAGE_SIZE
_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_RECORD, _LANE, _TALLY, _CURSOR = 4, 3, 6, 7
_TEXT_FROM = 12
_LONGEST_HEADER = 64


class Frame(NamedTuple):
    """A page image in the write-ahead log; ``commit`` says that it ended a transaction."""

    page: int
    commit: bool
    salt: bytes
    data: bytes


def frames(path: Path, start: int = 0) -> Iterator[Frame]:
    """Yield the log's frames from the given one on, unverified."""
    if not path.exists():
        return
    with path.open("rb") as file:
        file.seek(_WAL_HEADER + start * FRAME_BYTES)
        while len(block := file.read(FRAME_BYTES)) == FRAME_BYTES:
            page, size = struct.unpack_from(">II", block)
            yield Frame(page, size != 0, block[8:16], block[_FRAME_HEADER:])


def wal_salt(path: Path) -> bytes:
    """Return the salt of the log's current generation: the header's, or the first frame's if that is damaged."""
    with path.open("rb") as file:
        header = file.read(_WAL_HEADER)
    if len(header) == _WAL_HEADER and _header_holds(header):
        return header[16:24]
    return next((frame.salt for frame in frames(path)), b"")


def _header_holds(header: bytes) -> bool:
    if header[:4] not in _WAL_MAGIC:
        return False
    order = ">" if header[3] & 1 else "<"
    first = second = 0
    words = struct.unpack(f"{order}6I", header[:24])
    for left, right in zip(words[::2], words[1::2], strict=True):
        first = (first + left + second) & 0xFFFFFFFF
        second = (second + right + first) & 0xFFFFFFFF
    return (first, second) == struct.unpack(">II", header[24:])


def page_of(file: BinaryIO, number: int) -> bytes:
    """Read a page by its number; empty when there is none."""
    if number < 1:
        return b""
    file.seek((number - 1) * PAGE_SIZE)
    return file.read(PAGE_SIZE)


def rows(page: bytes, read: Callable[[int], bytes], *, first: bool = False) -> Iterator[Found]:
    """Yield every row of a leaf page that holds its own checksum."""
    start = _FIRST_HEADER if first else 0
    if len(page) < PAGE_SIZE or page[start] not in (_TABLE_LEAF, _INDEX_LEAF):
        return
    table = page[start] == _TABLE_LEAF
    (cells,) = struct.unpack_from(">H", page, start + 3)
    for index in range(min(cells, (PAGE_SIZE - start - 8) // 2)):
        (offset,) = struct.unpack_from(">H", page, start + 8 + 2 * index)
        try:
            found = _row(page, offset, read, table=table)
        except (IndexError, struct.error, UnicodeDecodeError, OverflowError, ValueError):
            continue
        if found is not None:
            yield found


def _row(page: bytes, offset: int, read: Callable[[int], bytes], *, table: bool) -> Found | None:
    size, offset = _varint(page, offset)
    key = 0
    if table:
        key, offset = _varint(page, offset)
        key -= (key >> 63) << 64
    values = _values(_payload(page, offset, size, read, table=table))
    if not table:
        return _cursor(values)
    if len(values) == _RECORD:
        row = (key, values[1], values[2], values[3])
        return row if intact(row) else None  # type: ignore[return-value]
    if len(values) == _LANE and seal(key, values[1]) == values[2]:
        return LaneRow(key, values[1])  # type: ignore[arg-type]
    if len(values) == _TALLY and seal(key, *values[1:5]) == values[5]:
        return TallyRow(key, *values[1:5])  # type: ignore[arg-type]
    return None


def _cursor(values: list[Value]) -> CursorRow | None:
    if len(values) != _CURSOR or seal(*values[:6]) != values[6]:
        return None
    return CursorRow._make((*values[:5], unpack_holes(values[5])))  # type: ignore[arg-type]


def _payload(page: bytes, offset: int, size: int, read: Callable[[int], bytes], *, table: bool) -> bytes:
    """Return a cell's payload, following its overflow chain."""
    largest = PAGE_SIZE - 35 if table else (PAGE_SIZE - 12) * 64 // 255 - 23
    if size <= largest:
        return page[offset : offset + size]
    least = (PAGE_SIZE - 12) * 32 // 255 - 23
    local = least + (size - least) % (PAGE_SIZE - 4)
    local = local if local <= largest else least
    parts = [page[offset : offset + local]]
    (link,) = struct.unpack_from(">I", page, offset + local)
    left = size - local
    seen: set[int] = set()
    while left > 0:
        if link in seen:
            raise ValueError(link)
        seen.add(link)
        overflow = read(link)
        parts.append(overflow[4 : 4 + min(left, PAGE_SIZE - 4)])
        left -= PAGE_SIZE - 4
        (link,) = struct.unpack_from(">I", overflow)
    return b"".join(parts)


def _values(payload: bytes) -> list[Value]:
    end, offset = _varint(payload, 0)
    if end > _LONGEST_HEADER:
        raise ValueError(end)
    kinds = []
    while offset < end:
        kind, offset = _varint(payload, offset)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        value, offset = _value(payload, offset, kind)
        values.append(value)
    return values


def _value(payload: bytes, offset: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, offset
    if kind in (8, 9):
        return kind - 8, offset
    if kind in _SIZES:
        end = offset + _SIZES[kind]
        return int.from_bytes(payload[offset:end], "big", signed=True), end
    if kind < _TEXT_FROM:
        raise ValueError(kind)
    end = offset + (kind - _TEXT_FROM) // 2
    if end > len(payload):
        raise IndexError(end)
    data = payload[offset:end]
    return (data.decode() if kind % 2 else data), end


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for index in range(8):
        byte = data[offset + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004
            return value, offset + index + 1
    return value << 8 | data[offset + 8], offset + 9
