from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.unit.admin.admin_world import World


@pytest.fixture(autouse=True)
def _quick_passwords(quick_passwords: None) -> None:
    """Let every test hash with little work."""


@pytest.fixture
async def world() -> World:
    return World()


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client() as client:
        yield client


@pytest.fixture
async def orders(client: httpx.AsyncClient) -> None:
    assert (await client.put("/destinations/orders", json={})).status_code == 200
