"""Deliveries of removed subscriptions end, also those that reach the store after the removal."""

from __future__ import annotations

import asyncio
from typing import Any

from bus.domain.delivery.delivery import Status
from bus.domain.statistics.rollup import MINUTE, RESOLUTIONS, added_up
from bus.domain.subscription import Subscription
from bus.domain.tracing.audit_ledger import ledger_of
from bus.domain.tracing.events import Stage
from bus.registry import Registry
from bus.security.secrets import SecretBox
from bus.stores.rollups import RollupReader
from bus.testing.writes import DESTINATION, message, row
from tests.unit.compensator.compensator_world import LANE, World, delivered

SKEW = 11  # seconds, more than the clocks of processes may differ


async def test_a_message_that_is_stored_after_the_removal_is_canceled() -> None:
    world = World()
    await world.destination()
    await world.subscription("billing")
    await world.subscription("mail")
    await world.registry.remove_subscription(DESTINATION, "billing")
    late = message(1, expected=("billing", "mail"))
    await world.store.write([late])
    cancellation = world.cancellation
    assert await cancellation.step() == 0
    await world.clock.advance(SKEW)
    assert await cancellation.step() == 1
    trace = await world.store.trace(late.id)
    assert trace is not None
    assert trace.deliveries["billing"].status is Status.CANCELED
    assert trace.deliveries["mail"].status is Status.PENDING
    assert await cancellation.step() == 0


async def test_what_waits_for_a_subscription_that_was_lost_is_not_canceled() -> None:
    world = World()
    await world.store.write([sent := message(1, expected=("billing",))])
    await world.clock.advance(SKEW)
    assert await world.cancellation.step() == 0
    trace = await world.store.trace(sent.id)
    assert trace is not None
    assert trace.deliveries["billing"].status is Status.PENDING


async def removed(world: World) -> None:
    await world.destination()
    await world.subscription("billing")
    await world.subscription("mail")
    await world.registry.remove_subscription(*LANE)
    await world.store.cancel(*LANE, world.clock.now())
    await world.clock.advance(SKEW)


async def test_a_failure_that_is_stored_after_the_removal_leaves_no_work() -> None:
    world = World()
    await removed(world)
    sent = await world.failed(1)
    await world.store.compensate([row(message(2))])
    assert await world.cancellation.step() == 2
    assert await world.store.due(0) == {}
    assert (await world.delivery(sent)).status is Status.CANCELED


async def test_what_is_canceled_is_told_and_counted() -> None:
    world = World()
    await removed(world)
    sent = await world.failed(1)
    await world.store.write([resent := message(3)])
    await world.store.compensate([row(unknown := message(2))])
    assert await world.cancellation.step() == 3
    told = world.events.of(Stage.SETTLED)
    assert {event.id for event in told} == {sent.id, resent.id, unknown.id}
    assert {(event.destination, event.subscription, event.status, event.reason, event.attempt) for event in told} == {
        (*LANE, "canceled", "subscription removed", 0)
    }
    assert [row.count for row in ledger_of(told) if row.stage == "canceled"] == [3]
    await world.rollups.flush()
    sheets = await RollupReader(world.store, world.clock).sheets(RESOLUTIONS[0], 0, world.clock.now() + MINUTE)
    assert added_up(sheets.values()).deliveries[DESTINATION]["billing"].ended == {Status.CANCELED: 3}
    assert await world.cancellation.step() == 0
    assert len(world.events.told) == 3


async def test_what_is_finished_stays_as_it_is() -> None:
    world = World()
    await removed(world)
    sent = await world.failed(1)
    await world.store.write([delivered(sent)])
    assert await world.cancellation.step() == 0
    assert (await world.delivery(sent)).status is Status.DELIVERED


async def test_a_subscription_that_is_back_keeps_what_is_its_own() -> None:
    world = World()
    await removed(world)
    await world.subscription("billing")
    sent = await world.failed(1)
    assert await world.cancellation.step() == 0
    assert (await world.delivery(sent)).status is Status.RETRYING


async def test_one_that_another_process_has_made_again_keeps_what_is_its_own() -> None:
    world = World()
    await removed(world)
    elsewhere = Registry(world.store, SecretBox(None))
    await elsewhere.load()
    await elsewhere.put_subscription(Subscription(destination=DESTINATION, name="billing", url="http://x/"))
    sent = await world.failed(1)
    assert LANE not in world.registry.catalog.subscriptions
    assert await world.cancellation.step() == 0
    assert (await world.delivery(sent)).status is Status.RETRYING


async def test_one_that_is_made_again_while_it_looks_keeps_what_is_its_own() -> None:
    world = World()
    await removed(world)
    elsewhere = Registry(world.store, SecretBox(None))
    await elsewhere.load()
    new = message(SKEW * 1000 - 5_000)  # by a clock that is 5 s behind
    plain = world.store.cancel

    async def late(*of: Any) -> int:
        await elsewhere.put_subscription(Subscription(destination=DESTINATION, name="billing", url="http://x/"))
        await world.store.write([new])
        return await plain(*of)

    world.store.cancel = late  # type: ignore[method-assign]
    await world.store.write([message(1)])
    assert await world.cancellation.step() == 1
    trace = await world.store.trace(new.id)
    assert trace is not None
    assert trace.deliveries["billing"].status is Status.PENDING


async def test_running_it_goes_on_when_the_store_comes_back() -> None:
    world = World()
    await removed(world)
    world.store.down = True
    running = asyncio.create_task(world.cancellation.run())
    await world.clock.advance(20)
    sent = await world.failed(1)
    world.store.down = False
    await world.clock.advance(SKEW + 6)
    assert (await world.delivery(sent)).status is Status.CANCELED
    running.cancel()
