"""A receiver that is killed at any moment accepts a message once when it is sent again under its key."""

from __future__ import annotations

import asyncio

import pytest

from bus.http.draft import Draft
from bus.security.principals import ANYONE
from tests.stateful.delivery_world import CODE, World


@pytest.mark.parametrize("is_down", [False, True])
@pytest.mark.parametrize("turns", range(12))
async def test_a_key_outlives_a_kill(turns: int, is_down: bool) -> None:
    world = World(seed=turns)
    await world.begin()
    await world.configure()
    world.store.down = is_down
    draft = Draft(CODE, b"1", idempotency_key="once")
    sending = asyncio.create_task(world.life.ingest.accept_one(draft, ANYONE))
    for _ in range(turns):
        await asyncio.sleep(0)
    sending.cancel()
    await world.kill()
    await asyncio.gather(sending, return_exceptions=True)
    await world.begin()
    answer = await world.life.ingest.accept_one(draft, ANYONE)
    await world.clock.until(world.is_at_rest, within=60)
    assert [*world.store._traces] == [answer.id]
    await world.kill()
