"""Every poster keeps the contract: over sockets on both event loops' protocols, and in memory."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from itertools import count

import pytest

from bus.ports.poster import PostFailure
from bus.posters.http import HttpPoster
from bus.security.egress import EgressPolicy
from bus.testing.contracts.poster import PosterContract
from bus.testing.poster import MemoryPoster, PostedRequest, Reply


class SocketWorld:
    """Subscribers behind real sockets."""

    def __init__(self) -> None:
        self.poster = HttpPoster(EgressPolicy(allow_loopback=True))
        self.posted: list[PostedRequest] = []
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task] = set()

    async def subscriber(self, *replies: Reply) -> str:
        if replies[0].failure is PostFailure.REFUSED:
            with socket.socket() as unused:
                unused.bind(("127.0.0.1", 0))
                return f"http://127.0.0.1:{unused.getsockname()[1]}/hook"
        script = list(replies)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._tasks.add(asyncio.current_task())
            try:
                while await self._serve_one(reader, writer, script):
                    pass
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 21)
        self._servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"

    async def _serve_one(self, reader, writer, script: list[Reply]) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        pairs = [line.split(": ", 1) for line in head.split("\r\n")[1:-2]]
        headers = {name.lower(): value for name, value in pairs}
        assert len(headers) == len(pairs)
        body = await reader.readexactly(int(headers["content-length"]))
        self.posted.append(PostedRequest("", headers, body, 0.0))
        reply = script.pop(0) if len(script) > 1 else script[0]
        if reply.failure is PostFailure.TIMEOUT:
            await reader.read()
        if reply.failure is not None:
            return False
        lines = "".join(f"{name}: {value}\r\n" for name, value in reply.headers)
        length = "" if reply.status == 204 else f"content-length: {len(reply.body)}\r\n"
        writer.write(f"HTTP/1.1 {reply.status} Why\r\n{lines}{length}\r\n".encode() + reply.body)
        await writer.drain()
        return True

    async def close(self) -> None:
        await self.poster.close()
        for server in self._servers:
            server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class MemoryWorld:
    def __init__(self) -> None:
        self.poster = MemoryPoster(EgressPolicy(allow_loopback=True))
        self.posted = self.poster.posted
        self._numbers = count(8000)

    async def subscriber(self, *replies: Reply) -> str:
        url = f"http://127.0.0.1:{next(self._numbers)}/hook"
        self.poster.script(url, *replies)
        return url


class TestHttpPoster(PosterContract):
    @pytest.fixture
    async def world(self) -> AsyncIterator[SocketWorld]:
        world = SocketWorld()
        yield world
        await world.close()


class TestMemoryPoster(PosterContract):
    @pytest.fixture
    async def world(self) -> MemoryWorld:
        return MemoryWorld()
