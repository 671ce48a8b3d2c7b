"""A receiver tells of a message once it is durable, and of each transport that was tried."""

from __future__ import annotations

import asyncio

import pytest

from bus.domain.tracing.events import Stage
from bus.errors import SpoolFull
from tests.harness.gated_spool import once
from tests.unit.receiver.receiver_world import World


@pytest.fixture
async def world() -> World:
    world = World()
    await world.destination("orders", "billing")
    return world


async def test_a_message_is_told_of_once_it_is_durable(world: World) -> None:
    world.spool.gate.clear()
    sending = asyncio.create_task(world.send(b"12345", biz_id="42"))
    await world.clock.settle()
    assert world.events.told == []
    world.spool.gate.set()
    accepted = await sending
    (event,) = world.events.of(Stage.ACCEPTED)
    assert (event.id, event.bytes, event.biz_id, event.expected) == (accepted.id, 5, "42", ("billing",))


async def test_a_repetition_and_a_refusal_are_not_told(world: World) -> None:
    first = await world.send(id=world.id())
    assert (await world.send(id=first.id)).duplicate
    world.spool.refuse = once(SpoolFull("full"))
    with pytest.raises(SpoolFull):
        await world.send()
    assert [event.id for event in world.events.of(Stage.ACCEPTED)] == [first.id]


async def test_a_transport_that_refuses_and_one_that_takes_are_told(world: World) -> None:
    accepted = await world.send()
    stopping = asyncio.Event()
    running = asyncio.create_task(world.publisher.run(stopping))
    await world.clock.until(lambda: world.events.of(Stage.PUBLISHED))
    stopping.set()
    await running
    (event,) = world.events.of(Stage.PUBLISHED)
    assert (event.id, event.status, event.transport) == (accepted.id, "confirmed", "direct")
