"""Removed subscriptions: whatever reaches the store after the removal is cancelled as well."""

from __future__ import annotations

import asyncio

import pytest

from bus.domain.delivery import Status
from bus.ports.spool import NewRecord
from bus.testing.writes import DESTINATION, NOON, message, outcome
from tests.unit.compensator.compensator_world import LANE, MAIL, World


@pytest.fixture
async def world() -> World:
    world = World()
    await world.destination()
    await world.subscription("billing")
    await world.subscription("mail")
    return world


async def removed(world: World) -> None:
    """Do what the admin does."""
    await world.registry.remove_subscription(*LANE)
    await world.store.cancel(*LANE, world.clock.now())


async def test_a_message_that_reaches_the_store_later_is_cancelled(world: World) -> None:
    await world.spool.append([NewRecord(DESTINATION, b"the message", NOON)])
    await removed(world)
    await world.removed.step()
    sent = message(1)
    await world.store.write([sent])
    world.spool.ack("store", await world.spool.claim("store", 9, DESTINATION))
    await world.clock.advance(5)
    await world.removed.step()
    assert (await world.delivery(sent)).status is Status.CANCELED
    assert (await world.delivery(sent, "mail")).status is Status.PENDING
    assert await world.registry.removed() == []


async def test_a_failure_that_reaches_the_store_later_leaves_no_work(world: World) -> None:
    await world.outcomes.append([NewRecord(DESTINATION, b"the outcome", NOON)])
    await removed(world)
    await world.removed.step()
    assert await world.registry.removed() == [LANE]
    sent = message(1)
    await world.store.write([outcome(sent, "billing", Status.RETRYING)])
    world.outcomes.ack("store", await world.outcomes.claim("store", 9, DESTINATION))
    await world.removed.step()
    assert await world.store.due(0) == {}
    assert (await world.delivery(sent)).status is Status.CANCELED


async def test_records_of_after_the_removal_are_not_waited_for(world: World) -> None:
    await removed(world)
    await world.spool.append([NewRecord(DESTINATION, b"", world.clock.now() + 1), NewRecord("other", b"", 1)])
    await world.removed.step()
    assert await world.registry.removed() == []


async def test_a_removal_that_a_crash_interrupted_is_finished(world: World) -> None:
    sent = message(1)
    await world.store.write([sent])
    await world.publish(sent)
    await world.store.put("removed-subscriptions", "orders/billing", b"")
    await world.store.delete("subscriptions", "orders/billing")
    del world.registry.catalog.subscriptions[LANE]
    await world.removed.step()
    assert (await world.delivery(sent)).status is Status.CANCELED
    assert set(world.road.lags() or {}) == {MAIL}


async def test_a_subscription_that_is_back_keeps_what_is_its_own(world: World) -> None:
    await removed(world)
    await world.subscription("billing")
    sent = message(1)
    await world.store.write([sent])
    await world.publish(sent)
    await world.removed.step()
    assert (await world.delivery(sent)).status is Status.PENDING
    assert set(world.road.lags() or {}) == {LANE, MAIL}
    assert await world.registry.removed() == []


async def test_running_it_goes_on_when_the_store_comes_back(world: World) -> None:
    await world.spool.append([NewRecord(DESTINATION, b"the message", NOON)])
    await removed(world)
    world.store.down = True
    running = asyncio.create_task(world.removed.run())
    await world.clock.advance(20)
    await world.store.write([message(1)])
    world.spool.ack("store", await world.spool.claim("store", 9, DESTINATION))
    assert await world.registry.removed() == [LANE]
    world.store.down = False
    await world.clock.advance(6)
    assert (await world.delivery(message(1))).status is Status.CANCELED
    assert await world.registry.removed() == []
    running.cancel()
