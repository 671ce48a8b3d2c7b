from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme
import uvloop

from bus.posters.http import HttpPoster
from bus.security.egress import EgressPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]


def pytest_asyncio_loop_factories(config, item):
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Hostile:
    """Servers that do what a script says with each connection; the script gets the connection's number."""

    def __init__(self) -> None:
        self.accepted = 0
        self.servers: list[asyncio.Server] = []
        self.tasks: set[asyncio.Task] = set()

    async def start(self, script: Script, *, context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.tasks.add(asyncio.current_task())
            self.accepted += 1
            try:
                await script(reader, writer, self.accepted)
            except (asyncio.IncompleteReadError, OSError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, host, 0, ssl=context, limit=1 << 22)
        self.servers.append(server)
        return server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        for server in self.servers:
            server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
    return head, await reader.readexactly(length)


def answering(answer: bytes, *, then_close: bool = False) -> Script:
    """Give the same raw answer to every request."""

    async def script(reader, writer, number):
        while not writer.is_closing():
            await read_request(reader)
            writer.write(answer)
            await writer.drain()
            if then_close:
                return

    return script


@pytest.fixture
async def hostile() -> AsyncIterator[Hostile]:
    hostile = Hostile()
    yield hostile
    await hostile.close()


@pytest.fixture
async def make_poster(default_context) -> AsyncIterator[Callable[..., HttpPoster]]:
    """Make posters; at the end every connection of theirs is closed."""
    made: list[HttpPoster] = []

    def make(egress: EgressPolicy | None = None, **options) -> HttpPoster:
        options.setdefault("ssl_context", default_context)
        made.append(HttpPoster(egress or EgressPolicy(allow_loopback=True), **options))
        return made[-1]

    yield make
    for poster in made:
        await poster.close()
        assert poster.connections == poster.idle == 0


@pytest.fixture
def open_sockets() -> Callable[[], int]:
    """Count the sockets of this process."""

    def count() -> int:
        found = 0
        for entry in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found += str(entry.readlink()).startswith("socket:")
        return found

    return count


@pytest.fixture
def poster(make_poster) -> HttpPoster:
    return make_poster()


@pytest.fixture
def send(poster):
    """Post a body to a local port."""

    async def send(port: int, body: bytes = b"hello", *, timeout: float = 5.0, by: HttpPoster | None = None):  # noqa: ASYNC109
        chosen = by or poster
        return await chosen.post(
            chosen.target(f"http://127.0.0.1:{port}/hook", {}), [("webhook-id", "1")], body, timeout
        )

    return send


@pytest.fixture
def answer_with():
    return answering


@pytest.fixture
def request_of():
    return read_request


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def default_context() -> ssl.SSLContext:
    return ssl.create_default_context()
