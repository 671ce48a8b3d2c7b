"""Messages that a worker does not POST: routed elsewhere, already here, or delivered before."""

from __future__ import annotations

import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.times import DAY
from bus.errors import StoreUnavailable
from bus.testing.poster import Reply
from bus.testing.writes import DESTINATION, outcome
from tests.unit.dispatcher.dispatcher_world import URL, World, held, statuses, subscription


async def test_what_is_routed_elsewhere_is_acked_without_an_outcome(world: World) -> None:
    async with world.worker(subscription(routing_pattern="eu.#")):
        await world.publish(routing_key="us.shoes", expected=("mail",))
        (wanted,) = await world.publish(routing_key="eu.shoes", expected=("billing",))
        (accepted_before,) = await world.publish(routing_key="us.hats", expected=("billing",))
        await world.clock.settle()
        assert [done.message_id for done in await world.outcomes()] == [wanted.id, accepted_before.id]
        assert world.holds() == 0


async def test_a_duplicate_on_the_transport_is_posted_once(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker():
        (sent,) = await world.publish()
        await world.clock.settle()
        await world.publish(id=sent.id)
        await world.clock.settle()
        event.set()
        await world.clock.settle()
        await world.publish(id=sent.id)
        await world.clock.settle()
        assert len(world.poster.posted) == 1
        assert statuses(await world.outcomes()) == [Status.DELIVERED]
        assert world.holds() == 0


async def test_a_duplicate_of_a_failed_one_leaves_the_retry_to_its_row(world: World) -> None:
    world.poster.script(URL, Reply(500))
    async with world.worker():
        (sent,) = await world.publish()
        await world.clock.settle()
        await world.publish(id=sent.id)
        await world.clock.settle()
        assert len(world.poster.posted) == 1
        assert world.holds() == 0


class Asked(Exception):
    pass


@pytest.mark.parametrize("why", ["held before", "older than this process", "older than stuck_after"])
async def test_a_suspect_is_checked_against_the_store(world: World, why: str) -> None:
    await world.ensure()
    started_at = world.clock.now()
    if why == "older than this process":
        done, open_ = await world.publish(2)
        await world.clock.advance(1)
        started_at = world.clock.now()
    elif why == "held before":
        done, open_ = await world.publish(2)
        await (await world.transport.consume(DESTINATION, "billing")).receive(2)
        world.transport.crash()
    else:
        await world.clock.advance(1)
        done, open_ = await world.publish(2, received_at=started_at - 600_000)
    await world.store.write([done, open_, outcome(done, "billing", Status.DELIVERED)])
    async with world.worker(since=lambda: started_at):
        await world.clock.settle()
        assert [posted.headers["webhook-id"] for posted in world.poster.posted] == [open_.id]
        assert world.holds() == 0


async def test_what_is_not_suspect_costs_no_question(world: World) -> None:
    class Silent:
        async def finished(self, _) -> set:
            raise Asked

    async with world.worker(store=Silent()):
        await world.publish(3)
        await world.clock.settle()
        assert len(world.poster.posted) == 3


async def test_a_suspect_is_delivered_while_the_store_does_not_answer(world: World) -> None:
    class Down:
        async def finished(self, _) -> set:
            raise StoreUnavailable("down")

    await world.ensure()
    await world.publish(2)
    await world.clock.advance(1)
    async with world.worker(store=Down()):
        await world.clock.settle()
        assert len(world.poster.posted) == 2


async def test_what_comes_after_the_clock_was_put_back_costs_no_question(world: World) -> None:
    class Silent:
        async def finished(self, _) -> set:
            raise Asked

    started_at, age = world.clock.now() + DAY, 0
    async with world.worker(store=Silent(), since=lambda: min(started_at, world.clock.now() - age)):
        await world.publish(3)
        await world.clock.settle()
        assert len(world.poster.posted) == 3
