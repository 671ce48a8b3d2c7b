"""Deliveries of removed subscriptions end, also those that reach the store after the removal."""

from __future__ import annotations

from bus.domain.delivery import Status
from bus.testing.writes import DESTINATION, message
from compensator.removal import Removal
from tests.unit.compensator.compensator_world import World


async def test_a_message_that_is_stored_after_the_removal_is_canceled() -> None:
    world = World()
    await world.destination()
    await world.subscription("billing")
    await world.subscription("mail")
    await world.registry.remove_subscription(DESTINATION, "billing")
    late = message(1, expected=("billing", "mail"))
    await world.store.write([late])
    removal = Removal(world.store, world.registry, world.clock)
    assert await removal.step() == 1
    trace = await world.store.trace(late.id)
    assert trace is not None
    assert trace.deliveries["billing"].status is Status.CANCELED
    assert trace.deliveries["mail"].status is Status.PENDING
    assert await removal.step() == 0
