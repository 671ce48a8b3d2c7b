"""Strangers without a key, in a process of their own: ``python -m bench.attackers PORT KIND SECONDS``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

CONNECTIONS = 32
IDLE = 400
PIECE = b"x" * 65_536
POST = b"POST /v1/messages/d HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
SOCKET = b"\r\n".join(
    (
        b"GET /admin/_nicegui_ws/socket.io/?EIO=4&transport=websocket HTTP/1.1",
        b"host: localhost",
        b"connection: upgrade",
        b"upgrade: websocket",
        b"sec-websocket-version: 13",
        b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    )
)
Attack = Callable[[], AsyncIterator[bytes]]


async def endless_body() -> AsyncIterator[bytes]:
    yield POST + b"content-length: 99999999999\r\n\r\n"
    while True:
        yield PIECE


async def endless_chunks() -> AsyncIterator[bytes]:
    yield POST + b"transfer-encoding: chunked\r\n\r\n"
    while True:
        yield b"10000\r\n" + PIECE + b"\r\n"


async def endless_trailers() -> AsyncIterator[bytes]:
    yield b"GET /healthz HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\n"
    while True:
        yield b"x: " + PIECE[:8_000] + b"\r\n"


async def refused() -> AsyncIterator[bytes]:
    while True:
        yield POST + b"content-length: 2\r\n\r\n{}"


async def garbage() -> AsyncIterator[bytes]:
    yield b"GARBAGE\r\n\r\n"


async def handshakes() -> AsyncIterator[bytes]:
    yield SOCKET


async def slow_heads() -> AsyncIterator[bytes]:
    yield POST
    while True:
        await asyncio.sleep(0.5)
        yield b"x: y\r\n"


async def idle() -> AsyncIterator[bytes]:
    yield b""
    await asyncio.sleep(3600)


ATTACKS: dict[str, tuple[Attack, int]] = {
    "endless bodies": (endless_body, CONNECTIONS),
    "endless chunked bodies": (endless_chunks, CONNECTIONS),
    "endless trailers": (endless_trailers, CONNECTIONS),
    "refused requests": (refused, CONNECTIONS),
    "garbage": (garbage, CONNECTIONS),
    "handshakes of WebSockets": (handshakes, CONNECTIONS),
    "slow heads": (slow_heads, IDLE),
    "idle connections": (idle, IDLE),
}


async def _again_and_again(port: int, attack: Attack) -> None:
    """Connect anew whenever the bus has closed, and read its answers as they come."""
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.01)
            continue
        sending = asyncio.create_task(_send(writer, attack))
        with suppress(OSError):
            while await reader.read(65_536):
                pass
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()


async def _send(writer: asyncio.StreamWriter, attack: Attack) -> None:
    async for piece in attack():
        writer.write(piece)
        await writer.drain()


async def main(port: int, kind: str, seconds: float) -> None:
    attack, connections = ATTACKS[kind]
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
            for _ in range(connections):
                tasks.create_task(_again_and_again(port, attack))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
