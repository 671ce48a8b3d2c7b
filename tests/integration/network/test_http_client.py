"""Hostile responses to the bus's own requests."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from bus.network.http_client import bounded_client

LIMIT = 1000


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    """Yield the URL of a server that answers so, without an end if it has no length."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        if b"content-length" not in answer:
            while not writer.is_closing():
                writer.write(bytes(1000))
                await asyncio.sleep(0)
        writer.close()

    asked: list[bytes] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    assert len(asked) == 1
    assert b"accept-encoding: identity" in asked[0].lower()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", "more than 1000 bytes"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n" + bytes(1001), "more than 1000 bytes"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n"
            % len(gzip.compress(bytes(900), mtime=0))
            + gzip.compress(bytes(900), mtime=0),
            "coding 'gzip'",
        ),
    ],
    ids=["endless", "too long", "compressed"],
)
async def test_an_answer_beyond_the_bounds_is_refused(answer: bytes, error: str) -> None:
    async with answering(answer) as url, bounded_client(LIMIT) as client:
        with pytest.raises(httpx.HTTPError, match=error):
            await client.get(url)


async def test_an_answer_within_the_bounds_is_read_and_a_redirect_is_not_followed() -> None:
    moved = b"HTTP/1.1 302 Go\r\nlocation: /\r\ncontent-length: 1000\r\n\r\n" + bytes(1000)
    async with answering(moved) as url, bounded_client(LIMIT) as client:
        found = await client.get(url)
        assert (found.status_code, found.content) == (302, bytes(1000))
