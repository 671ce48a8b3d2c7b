from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from argon2 import PasswordHasher

from bus.security import passwords
from tests.unit.admin.admin_world import World


@pytest.fixture(autouse=True)
def _quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash with little work: what it takes is tested where passwords are."""
    monkeypatch.setattr(passwords, "_HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


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
