from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.unit.admin.admin_world import URL, World
from tests.unit.admin.resends.jobs import running


@pytest.fixture
async def world() -> World:
    world = World()
    async with world.client() as client:
        await client.put("/destinations/orders", json={})
        for name in ("billing", "mail"):
            await client.put(f"/destinations/orders/subscriptions/{name}", json={"url": URL})
    await world.clock.advance(60)
    return world


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with running(world) as client:
        yield client
