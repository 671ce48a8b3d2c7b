"""Peers of these tests, and waits for the result."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def until(condition) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.001)


@contextmanager
def silent(host: str, port: int = 0) -> Iterator[int]:
    """Have a port that answers no connection, since its queue is full; yield its number."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind((host, port))
        server.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield server.getsockname()[1]


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
