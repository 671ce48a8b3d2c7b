"""An nsqd that follows a script: what it reads, and what it answers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from bus.transports.nsq.config import Address
from bus.transports.nsq.protocol import commands

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def frame(payload: bytes, kind: int = 0) -> bytes:
    return struct.pack(">II", len(payload) + 4, kind) + payload


async def identified(reader: asyncio.StreamReader) -> None:
    assert await reader.readexactly(4) == b"  V2"
    assert await reader.readline() == b"IDENTIFY\n"
    await reader.readexactly(int.from_bytes(await reader.readexactly(4)))


async def next_line(reader: asyncio.StreamReader) -> bytes:
    """Return the next command that is no answer to a heartbeat."""
    while (line := await reader.readline()) == commands.NOP:
        pass
    return line


@asynccontextmanager
async def peer(script: Script) -> AsyncIterator[Address]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
