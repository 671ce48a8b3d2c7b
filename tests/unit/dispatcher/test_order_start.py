"""Before a worker that keeps an order begins, the store has what came of the deliveries before it, and nothing more."""

from __future__ import annotations

import asyncio
import contextlib

from bus.domain.delivery.delivery import Status
from bus.domain.destination import Ordering
from bus.testing.writes import outcome
from tests.unit.dispatcher.dispatcher_world import World, fresh
from tests.unit.dispatcher.test_worker_in_order import SLOW, Scripted, bodies, of, publish


class Nobody:
    """Who is told of outcomes and has nothing to ack."""

    def recorded(self, _: object) -> None:
        """Do nothing."""


async def test_others_that_are_busy_keep_nobody_from_beginning(world: World) -> None:
    """The store lacks the last outcomes of a busy destination at any moment."""

    def record(number: int) -> None:
        made = fresh(number, world.clock)
        world.log.record(outcome(made, "mail", Status.DELIVERED), made, Nobody(), None)

    async def others() -> None:
        for number in range(1000, 2000):
            record(number)
            await world.clock.sleep(0.05)
            record(number + 1000)
            await world.feed()
            record(number + 2000)

    record(999)
    busy = asyncio.create_task(others())
    try:
        async with world.worker(of(), Ordering.KEY):
            await publish(world, "a1")
            await world.clock.advance(2)
            assert bodies(world) == ["a1"]
    finally:
        busy.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await busy


async def test_an_outcome_that_is_not_durable_yet_counts(world: World) -> None:
    """One worker follows another of the same life, whose last outcome waits for a commit."""
    Scripted(world, "a1")
    async with world.worker(of(retry=SLOW), Ordering.KEY):
        await publish(world, "a1", "a2")
        await world.clock.settle()
        left = world.log.unstored(*of().key)
        assert left() == 1
    world.spool.gate.clear()
    made = fresh(9, world.clock)
    world.log.record(outcome(made, "billing", Status.RETRYING), made, Nobody(), None)
    both = world.log.unstored(*of().key)
    world.log.record(outcome(made, "billing", Status.RETRYING, 2), made, Nobody(), None)
    assert both() == 2
    world.spool.gate.set()
    await world.clock.settle()
    assert both() == 2
    await world.feed()
    assert (left(), both()) == (0, 0)
