from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.unit.admin.admin_world import World, running, subscribed


@pytest.fixture
async def world() -> World:
    return await subscribed()


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with running(world) as client:
        yield client
