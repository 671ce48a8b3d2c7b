"""Commands as they come out of a stream of bytes, however that is cut."""

from __future__ import annotations

import asyncio

import pytest

from tests.doubles.youzan.frames import Command, frame, message, read_command
from tests.doubles.youzan.log import Draft, Entry

ID = b"0123456789abcdef"


@pytest.mark.parametrize(
    ("sent", "command"),
    [
        (b"NOP\n", Command("NOP", [])),
        (b"SUB t c 0\r\n", Command("SUB", [b"t", b"c", b"0"])),
        (b"FIN " + ID + b"\n", Command("FIN", [ID])),
        (b"FIN " + b"\n" * 16 + b"\n", Command("FIN", [b"\n" * 16])),
        (b"FIN " + b" " * 16 + b"\n", Command("FIN", [b" " * 16])),
        (b"FIN " + ID[:15] + b"\n\n", Command("FIN", [ID[:15] + b"\n"])),
        (b"TOUCH " + b"\n " * 8 + b"\n", Command("TOUCH", [b"\n " * 8])),
        (b"REQ " + ID + b" 1500\n", Command("REQ", [ID, b"1500"])),
        (b"REQ " + b"\n" * 16 + b" 0\n", Command("REQ", [b"\n" * 16, b"0"])),
        (b"REQ " + ID[:15] + b"\n" + b" 7\n", Command("REQ", [ID[:15] + b"\n", b"7"])),
        (b"REQ " + ID + b"\n", Command("REQ", [ID])),
    ],
)
async def test_ids_are_taken_by_their_length(sent: bytes, command: Command) -> None:
    reader = asyncio.StreamReader()
    reading = asyncio.create_task(read_command(reader))
    for byte in sent + b"NOP\n":
        reader.feed_data(bytes([byte]))
        await asyncio.sleep(0)
    assert await reading == command
    assert await read_command(reader) == Command("NOP", [])


ENTRY = Entry(id=0x0A, timestamp=5, offset=9, size=40, draft=Draft(b"body", trace=0x20))
EXTENDED = Entry(id=0x0A, timestamp=5, offset=9, size=40, draft=Draft(b"body", trace=0x20, ext=b"{}"))
HEAD = b"\0\0\0\0\0\0\0\5" + b"\0\3" + b"\0\0\0\0\0\0\0\n" + b"\0\0\0\0\0\0\0 "
PLACE = b"\0\0\0\0\0\0\0\t" + b"\0\0\0("


@pytest.mark.parametrize(
    ("entry", "extended", "details", "tail"),
    [
        (ENTRY, False, False, b"body"),
        (ENTRY, False, True, PLACE + b"body"),
        (ENTRY, True, False, b"\0body"),
        (EXTENDED, True, False, b"\4\0\2{}body"),
        (EXTENDED, True, True, b"\4\0\2{}" + PLACE + b"body"),
    ],
)
def test_messages_are_laid_out_byte_by_byte(entry: Entry, extended: bool, details: bool, tail: bytes) -> None:
    assert message(entry, 3, extended=extended, details=details) == frame(2, HEAD + tail)
