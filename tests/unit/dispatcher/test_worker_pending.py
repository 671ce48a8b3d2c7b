"""Messages of a worker from its transport: counted, acked or given back with their copies, never lost."""

from __future__ import annotations

import asyncio

from bus.testing.writes import DESTINATION, message
from tests.unit.dispatcher.dispatcher_world import URL, World, handed, held, subscription


async def test_what_it_has_of_its_transport_is_told_until_the_transport_has_the_ack(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker(subscription(max_concurrency=2)) as worker:
        assert worker.carried == (0, None)
        sent = await world.publish(3)
        worker.offer(handed(message(9)))
        await world.clock.settle()
        assert worker.carried == (3, min(one.received_at for one in sent))
        event.set()
        await world.clock.until(lambda: world.holds() == 0)
        assert worker.carried == (0, None)


async def test_a_copy_is_acked_only_with_the_outcome_of_the_first(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker():
        (sent,) = await world.publish()
        await world.publish(id=sent.id)
        await world.clock.settle()
        await world.publish(id=sent.id)
        await world.clock.settle()
        assert world.holds() == 3
        world.spool.gate.clear()
        event.set()
        await world.clock.settle()
        assert len(world.poster.posted) == 1
        assert world.holds() == 3
        world.spool.gate.set()
        await world.clock.settle()
        assert world.holds() == 0


async def test_copies_are_given_back_with_the_first(world: World) -> None:
    reply, _ = held()
    world.poster.script(URL, reply)
    async with world.worker() as worker:
        (sent,) = await world.publish()
        await world.clock.settle()
        await world.publish(id=sent.id)
        await world.clock.settle()
        worker._group._abort()  # type: ignore[union-attr]
        await world.clock.settle()
        assert world.holds() == 2
        consumer = await world.transport.consume(DESTINATION, "billing")
        assert len(await consumer.receive(10)) == 2


async def test_turning_to_the_transport_anew_loses_nothing(world: World) -> None:
    async with world.worker() as worker:
        for number in range(5):
            await world.publish()
            worker.listen_again()
            await world.publish()
            await world.clock.settle()
            assert len(world.poster.posted) == 2 * number + 2
        assert world.holds() == 0


async def test_turning_to_the_transport_anew_while_the_store_is_asked_loses_nothing(world: World) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()
    plain = world.store.finished

    async def slow(keys):
        asked.set()
        await answer.wait()
        return await plain(keys)

    world.store.finished = slow
    async with world.worker(since=lambda: world.clock.now() + 60_000) as worker:
        await world.publish(3)
        await world.clock.settle()
        assert asked.is_set()
        worker.listen_again()
        answer.set()
        await world.clock.settle()
        assert len(world.poster.posted) == 3
        assert world.holds() == 0
