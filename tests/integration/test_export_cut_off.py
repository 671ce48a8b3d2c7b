"""An export whose store goes away in the middle ends broken on the wire, whatever the format."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from admin.routes import exports
from bus.http.server import bind, url_of
from bus.serving.server import Server, config
from bus.settings import Settings
from tests.harness.wire import anybody
from tests.unit.admin.admin_world import World


class Served:
    """A world's admin behind the bus's own server."""

    def __init__(self, world: World, url: str) -> None:
        self.world = world
        self.url = url


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    world = World()
    listener = bind("127.0.0.1", 0)
    server = Server(config(Settings(), world.app, anybody(), has_pages=False))
    running = asyncio.create_task(server.serve([listener]))
    async with asyncio.timeout(60):
        await server.serves.wait()
    yield Served(world, url_of(listener))
    server.stop()
    async with asyncio.timeout(60):
        await running


@pytest.mark.parametrize("form", ["csv", "ndjson"])
async def test_a_client_sees_that_it_is_not_whole(served: Served, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(exports, "_PAGE", 2)
    await served.world.written(5)
    search = served.world.store.search

    async def once(*args: Any, **options: Any) -> Any:
        page = await search(*args, **options)
        served.world.store.down = True
        return page

    monkeypatch.setattr(served.world.store, "search", once)
    pieces: list[bytes] = []
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await _read(client, f"{served.url}/api/v1/messages/export?format={form}", pieces)
        assert b"order-4" in b"".join(pieces)
        assert b'"complete"' not in b"".join(pieces)
        served.world.store.down = False
        monkeypatch.undo()
        whole = await client.get(f"{served.url}/api/v1/messages/export?format={form}")
    assert whole.status_code == 200
    assert all(f"order-{n}".encode() in whole.content for n in range(5))


async def _read(client: httpx.AsyncClient, url: str, pieces: list[bytes]) -> None:
    async with client.stream("GET", url) as answer:
        assert answer.status_code == 200
        pieces_of = answer.aiter_bytes()
        while (piece := await anext(pieces_of, None)) is not None:
            pieces.append(piece)
