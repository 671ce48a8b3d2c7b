"""Frames of the TCP protocol, and commands as they are read from a connection. All numbers are big-endian."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from typing import Final

from tests.doubles.youzan.log import Entry
from tests.doubles.youzan.refusals import bad_body

MAGIC: Final = b"  V2"
RESPONSE, ERROR, MESSAGE = 0, 1, 2
LARGEST_MESSAGE: Final = 1024 * 1024
LARGEST_BODY: Final = 5 * 1024 * 1024
_JSON_HEADER: Final = 4  # the version of messages whose header is JSON
ID_LENGTH: Final = 16
_WITH_ID: Final = (b"FIN ", b"REQ ", b"TOUCH ")


@dataclass(frozen=True, slots=True)
class Command:
    """A line of the protocol: its name, and what is behind it."""

    name: str
    params: list[bytes]

    def text(self, index: int) -> str:
        """Return one of the parameters."""
        return self.params[index].decode(errors="replace")


def frame(kind: int, data: bytes) -> bytes:
    """Return a frame."""
    return struct.pack(">ii", len(data) + 4, kind) + data


def trace_reply(first: Entry, trace: int, size: int) -> bytes:
    """Return the 30 bytes that answer a traced publish."""
    return b"OK" + struct.pack(">QQQI", first.id, trace, first.offset, size)


def message(entry: Entry, attempts: int, *, extended: bool, details: bool) -> bytes:
    """Return a message: ``extended`` for topics with headers, ``details`` with its offset and size in the log."""
    head = struct.pack(">qH", entry.timestamp, attempts) + entry.full_id
    ext = _header(entry.draft.ext) if extended else b""
    place = struct.pack(">QI", entry.offset, entry.size) if details else b""
    return frame(MESSAGE, head + ext + place + entry.draft.body)


def _header(ext: bytes | None) -> bytes:
    return b"\0" if ext is None else struct.pack(">BH", _JSON_HEADER, len(ext)) + ext


async def read_command(reader: asyncio.StreamReader) -> Command:
    """Read one line; ids in it are taken by their length, for they may hold a space or the end of a line."""
    line = await reader.readuntil(b"\n")
    name = next((name for name in _WITH_ID if line.startswith(name)), None)
    if name is not None:
        return await _with_id(reader, name, line)
    words = line.removesuffix(b"\n").removesuffix(b"\r").split(b" ")
    return Command(words[0].decode(errors="replace"), words[1:])


async def _with_id(reader: asyncio.StreamReader, name: bytes, line: bytes) -> Command:
    whole = len(name) + ID_LENGTH
    if len(line) <= whole:
        line += await reader.readexactly(whole - len(line))
        line += await reader.readuntil(b"\n")
    rest = line[whole:-1].removeprefix(b" ")
    return Command(name.decode().strip(), [line[len(name) : whole], *([rest] if rest else [])])


async def read_body(reader: asyncio.StreamReader, largest: int) -> bytes:
    """Read a length and so many bytes; a body is never empty."""
    size = int.from_bytes(await reader.readexactly(4), "big", signed=True)
    if size <= 0:
        raise bad_body(f"invalid body size {size}")
    if size > largest:
        raise bad_body(f"body too big {size} > {largest}")
    return await reader.readexactly(size)
