"""Trace events of a compensator: hand-overs, and publications at their time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bus.domain.delivery.delivery import Origin
from bus.domain.tracing.events import Stage
from bus.ports.transport import OutgoingMessage
from bus.testing.writes import message, row
from tests.unit.compensator.compensator_world import LANE, World


@pytest.fixture
async def world() -> World:
    world = World()
    await world.destination()
    await world.subscription("billing")
    await world.clock.advance(60)
    return world


async def test_a_delivery_that_is_handed_over_is_told(world: World) -> None:
    sent = await world.failed(1, attempts=3, generation=1, due_at=1)
    await world.failed(2)
    world.dispatching.free = {LANE: 1}
    await world.compensator.step()
    (event,) = world.events.of(Stage.HANDED)
    assert (event.id, event.subscription, event.attempt, event.generation, event.origin) == (
        *(sent.id, "billing", 3, 1, "retry"),
    )


async def test_a_message_whose_time_has_come_is_told_as_published_and_handed_on(world: World) -> None:
    later = message(5, deliver_at=world.clock.now() + 1000)
    await world.store.compensate([row(later, "", by=Origin.TRANSPORT, attempts=0, due_at=later.deliver_at)])
    await world.compensator.step()
    assert world.events.told == []
    await world.clock.advance(1)
    await world.compensator.step()
    (published,), (handed,) = world.events.of(Stage.PUBLISHED), world.events.of(Stage.HANDED)
    assert (published.id, published.status) == (later.id, "confirmed")
    assert (handed.id, handed.subscription) == (later.id, "")


async def test_a_message_that_its_transport_has_no_room_for_is_no_failed_publication(world: World) -> None:
    plain = world.transport.publish

    async def full(batch: Sequence[OutgoingMessage]) -> list[bool | None]:
        return [None] * len(batch)

    world.transport.publish = full
    await world.store.compensate([row(message(5), "", by=Origin.TRANSPORT)])
    await world.clock.advance(10)
    await world.compensator.step()
    assert world.events.of(Stage.PUBLISHED) == []
    world.transport.publish = plain
    await world.clock.advance(10)
    await world.compensator.step()
    assert [event.status for event in world.events.of(Stage.PUBLISHED)] == ["confirmed"]
