"""Two clusters: publishing leaves one that fails and comes back, consumers read both, and nothing is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aio_pika.exceptions import ChannelNotFoundEntity

from bus.domain.message import Message
from bus.transports.rabbitmq import BACKUP, PRIMARY, Patience
from tests.integration.rabbitmq.rabbitmq_world import (
    HASTY,
    LONG,
    QUICK,
    SLACK,
    World,
    confirmed,
    drain,
    eventually,
    ids,
    receive,
    somebody_else,
    world,
)
from tests.servers.rabbitmq import RabbitmqServer

PRODUCTION = Patience()


class Load:
    """Publishes batches one after the other, as the receiver does, and remembers what was confirmed."""

    def __init__(self, found: World) -> None:
        self._world = found
        self.confirmed: list[Message] = []
        self.longest = 0.0

    async def run(self) -> None:
        waiting: list[Message] = []
        while True:
            waiting += self._world.messages(10)
            started = time.monotonic()
            results = await self._world.publish(*waiting)
            self.longest = max(self.longest, time.monotonic() - started)
            self.confirmed += [one for one, done in zip(waiting, results, strict=True) if done]
            waiting = [one for one, done in zip(waiting, results, strict=True) if not done]
            await asyncio.sleep(0.05)


@asynccontextmanager
async def loaded(found: World) -> AsyncIterator[Load]:
    load = Load(found)
    task = asyncio.create_task(load.run())
    try:
        await eventually(lambda: len(load.confirmed) > 100)
        yield load
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()


async def goes_on(load: Load) -> float:
    """Return after how many seconds the next batches were confirmed."""
    before = len(load.confirmed)
    return await eventually(lambda: len(load.confirmed) > before + 60, what="confirmations go on")


@pytest.mark.parametrize(
    "patience", [pytest.param(PRODUCTION, marks=pytest.mark.proof, id="production"), pytest.param(QUICK, id="quick")]
)
async def test_a_killed_primary_is_replaced_and_gone_back_to(
    primary: RabbitmqServer, backup: RabbitmqServer, patience: Patience
) -> None:
    async with world(primary.url, backup.url, patience=patience) as found:
        await found.ensure("billing")
        consumer = await found.consume()
        async with loaded(found) as load:
            assert found.transport.active == PRIMARY
            await eventually(lambda: primary.remembers(found.queue))
            primary.kill()
            switched = await goes_on(load)
            await eventually(lambda: found.transport.active == BACKUP)
            assert found.transport.conditions()[PRIMARY]
            assert not found.transport.conditions()[BACKUP]
            started = time.monotonic()
            await asyncio.to_thread(primary.start)
            returned = await eventually(lambda: found.transport.active == PRIMARY)
            assert time.monotonic() - started >= patience.well_for
            await goes_on(load)
        received = await drain(found, consumer, ids(load.confirmed))
        lost = {*ids(load.confirmed)} - {*received}
        again = len(received) - len({*received})
        print(
            f"\nprimary killed: confirmations went on after {switched:.2f} s, longest publish {load.longest:.2f} s; "
            f"back {returned:.1f} s after the primary answered; {len(load.confirmed)} confirmed, {len(lost)} lost, "
            f"{again} came again"
        )
        assert not lost


@pytest.mark.proof
async def test_a_primary_that_is_lost_again_and_again_is_gone_back_to_ever_later(
    primary: RabbitmqServer, backup: RabbitmqServer
) -> None:
    async with world(primary.url, backup.url, patience=QUICK._replace(well_for=3.0)) as found:
        await found.ensure("billing")
        for wait in (3.0, 6.0):
            session = await found.transport._clusters[PRIMARY].publishing.up()
            started = time.monotonic()
            session.abort("a test wants it")
            await eventually(lambda: found.transport.active == BACKUP)
            await _publish_until(found, lambda: found.transport.active == PRIMARY)
            assert time.monotonic() - started >= wait


async def _publish_until(found: World, check: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG):
        while not check():
            await found.publish(*found.messages(1))
            await asyncio.sleep(0.05)


async def test_a_paused_primary_is_replaced_within_the_deadline_of_a_confirmation(
    primary: RabbitmqServer, backup: RabbitmqServer
) -> None:
    async with world(primary.url, backup.url, patience=HASTY) as found:
        await found.ensure("billing")
        consumer = await found.consume()
        async with loaded(found) as load:
            primary.pause()
            switched = await goes_on(load)
            await eventually(lambda: found.transport.active == BACKUP)
            await eventually(lambda: found.transport.conditions()[PRIMARY])
            primary.resume()
            returned = await eventually(lambda: found.transport.active == PRIMARY)
            await goes_on(load)
        received = await drain(found, consumer, ids(load.confirmed))
        lost = {*ids(load.confirmed)} - {*received}
        print(
            f"\nprimary paused: confirmations went on after {switched:.2f} s, longest publish {load.longest:.2f} s; "
            f"back {returned:.1f} s after it was resumed; {len(load.confirmed)} confirmed, {len(lost)} lost"
        )
        assert not lost
        # Heartbeats alone would take 33 s.
        assert load.longest < 2 * HASTY.confirm + HASTY.answer + SLACK


async def test_a_wiped_broker_gets_its_queues_again_alone_and_as_a_backup(
    primary: RabbitmqServer, backup: RabbitmqServer
) -> None:
    async with world(primary.url) as alone, world(backup.url, primary.url) as pair:
        await alone.ensure("billing", "mail")
        await pair.ensure("billing")
        consumer = await alone.consume()
        before, after = alone.messages(3), alone.messages(3)
        assert all(await alone.publish(*before))
        held = await receive(consumer, 3)
        await asyncio.to_thread(primary.wipe)
        await confirmed(alone, *after)
        consumer.ack(held)
        assert ids(await receive(consumer, 3)) == ids(after)
        assert ids(await receive(await alone.consume("mail"), 3)) == ids(after)
        assert not any(alone.transport.conditions().values())
        await _is_filled_before_it_is_published_to(pair, primary)


async def _is_filled_before_it_is_published_to(found: World, backup: RabbitmqServer) -> None:
    await eventually(lambda: not found.transport.conditions()[BACKUP])
    found.transport.prefer(BACKUP)
    assert found.transport.active == BACKUP
    sent = found.messages(50)
    assert all(await found.publish(*sent))
    async with somebody_else(backup.url) as other:
        queue = await other.declare_queue(found.queue, passive=True)
        assert queue.declaration_result.message_count == 50
    received = await drain(found, await found.consume(), ids(sent))
    assert {*received} == {*ids(sent)}


async def test_while_both_are_away_nothing_is_confirmed_and_afterwards_everything_is_there(
    primary: RabbitmqServer, backup: RabbitmqServer
) -> None:
    """One comes back before the other: for a transport with the two the other way round, its backup is away."""
    async with (
        world(primary.url, backup.url, patience=QUICK._replace(confirm=30.0)) as found,
        world(backup.url, primary.url) as turned,
    ):
        await found.ensure("billing")
        await turned.ensure("billing", "mail")
        consumer = await found.consume()
        first, meanwhile = found.messages(40), found.messages(20)
        assert all(await found.publish(*first[:20]))
        found.transport.prefer(BACKUP)
        assert all(await found.publish(*first[20:]))
        held = await receive(consumer, 5)
        queues = (found.queue, turned.queue, turned.queue_of("mail"))
        await eventually(lambda: all(each.remembers(queue) for each in (primary, backup) for queue in queues))
        primary.kill()
        backup.kill()
        await eventually(lambda: all(found.transport.conditions().values()))
        started = time.monotonic()
        assert await found.publish(*meanwhile) == [False] * 20
        assert time.monotonic() - started < 30.0 / 2
        consumer.ack(held)
        await eventually(lambda: found.transport.lags() is None, what="nobody knows what they hold")
        await asyncio.to_thread(backup.start)
        await _change_while_the_backup_is_away(turned)
        await asyncio.to_thread(primary.start)
        await confirmed(found, *meanwhile)
        received = await drain(found, consumer, ids(first + meanwhile))
        # What was acked while its cluster was away comes again, and says so.
        assert {*received} == {*ids(first + meanwhile)}
        await eventually(lambda: not any(found.transport.conditions().values()))
        await _what_changed_is_done_on_the_backup(turned, primary)


async def _change_while_the_backup_is_away(found: World) -> None:
    await eventually(lambda: not found.transport.conditions()[PRIMARY])
    assert found.transport.conditions()[BACKUP]
    await found.transport.remove(found.code, "mail")
    await found.ensure("stock")
    await confirmed(found, *found.messages(2))


async def _what_changed_is_done_on_the_backup(found: World, backup: RabbitmqServer) -> None:
    await eventually(lambda: not found.transport.conditions()[BACKUP])
    # RabbitMQ 3.10.8 cuts a connection that publishes to a queue in the moment in which that is deleted.
    await eventually(lambda: not found.transport._clusters[BACKUP].topology.has_removals)
    found.transport.prefer(BACKUP)
    assert found.transport.active == BACKUP
    assert all(await found.publish(*found.messages(5)))
    async with somebody_else(backup.url) as other:
        for name in ("billing", "stock"):
            queue = await other.declare_queue(found.queue_of(name), passive=True)
            assert queue.declaration_result.message_count == 5
        with pytest.raises(ChannelNotFoundEntity):
            await other.declare_queue(found.queue_of("mail"), passive=True)
    assert len(await receive(await found.consume("stock"), 7)) == 7


async def test_a_queue_refused_by_one_cluster_is_published_to_on_the_other(
    primary: RabbitmqServer, backup: RabbitmqServer
) -> None:
    async with world(primary.url, backup.url) as found, somebody_else(primary.url) as other:
        await other.declare_queue(found.queue, durable=True)
        await found.ensure("billing")
        assert found.queue in str(found.transport.conditions()[PRIMARY])
        sent = found.messages(3)
        assert all(await found.publish(*sent))
        assert found.transport.active == PRIMARY
        assert found.transport.lags() is not None
        assert ids(await receive(await found.consume(), 3)) == ids(sent)
        await other.queue_delete(found.queue)


async def test_messages_on_both_clusters_are_counted_together(primary: RabbitmqServer, backup: RabbitmqServer) -> None:
    async with world(primary.url, backup.url) as found:
        await found.ensure("billing")
        first, second = found.messages(3), found.messages(4)
        await found.publish(*first)
        found.transport.prefer(BACKUP)
        await found.publish(*second)
        await eventually(_lag(found, lambda records, oldest: (records, oldest) == (7, 0)), what="waiting: age unknown")
        consumer = await found.consume()
        held = await receive(consumer, 7)
        oldest_sent = first[0].received_at
        await eventually(_lag(found, lambda records, oldest: (records, oldest) == (7, oldest_sent)), what="held: known")
        consumer.ack([item for item in held if item.message.id in ids(first)])
        later = second[0].received_at
        await eventually(_lag(found, lambda records, oldest: (records, oldest) == (4, later)), what="the rest")
        consumer.ack(held)
        await eventually(_lag(found, lambda records, oldest: (records, oldest) == (0, None)), what="nothing")


def _lag(found: World, check: Callable[[int, int | None], bool]) -> Callable[[], bool]:
    return lambda: check(*(found.transport.lags() or {})[found.lane])
