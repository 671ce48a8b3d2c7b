"""Two clusters: publishing leaves one that fails and comes back, consumers read both, and nothing is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from bus.domain.message import Message
from bus.transports.rabbitmq import BACKUP, PRIMARY, Patience
from tests.integration.rabbitmq.rabbitmq_world import (
    QUICK,
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
            waiting += self._world.messages(20)
            started = time.monotonic()
            results = await self._world.publish(*waiting)
            self.longest = max(self.longest, time.monotonic() - started)
            self.confirmed += [one for one, done in zip(waiting, results, strict=True) if done]
            waiting = [one for one, done in zip(waiting, results, strict=True) if not done]
            await asyncio.sleep(0.02)


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
    return await eventually(lambda: len(load.confirmed) > before + 60, within=30, what="confirmations go on")


@pytest.mark.parametrize("patience", [PRODUCTION, QUICK], ids=["production", "quick"])
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
            assert found.transport.active == BACKUP
            assert found.transport.conditions()[PRIMARY]
            assert not found.transport.conditions()[BACKUP]
            await asyncio.to_thread(primary.start)
            returned = await eventually(lambda: found.transport.active == PRIMARY, within=60)
            assert returned >= patience.well_for * 0.9
            await goes_on(load)
        received = await drain(found, consumer, ids(load.confirmed), within=30)
        lost = {*ids(load.confirmed)} - {*received}
        again = len(received) - len({*received})
        print(
            f"\nprimary killed: confirmations went on after {switched:.2f} s, longest publish {load.longest:.2f} s; "
            f"back {returned:.1f} s after the primary answered; {len(load.confirmed)} confirmed, {len(lost)} lost, "
            f"{again} came again"
        )
        assert not lost


async def test_a_paused_primary_is_replaced_within_the_deadline_of_a_confirmation(
    primary: RabbitmqServer, backup: RabbitmqServer
) -> None:
    async with world(primary.url, backup.url) as found:
        await found.ensure("billing")
        consumer = await found.consume()
        async with loaded(found) as load:
            primary.pause()
            switched = await goes_on(load)
            await eventually(lambda: found.transport.active == BACKUP)
            await eventually(lambda: found.transport.conditions()[PRIMARY])
            primary.resume()
            returned = await eventually(lambda: found.transport.active == PRIMARY, within=30)
            await goes_on(load)
        received = await drain(found, consumer, ids(load.confirmed), within=30)
        lost = {*ids(load.confirmed)} - {*received}
        print(
            f"\nprimary paused: confirmations went on after {switched:.2f} s, longest publish {load.longest:.2f} s; "
            f"back {returned:.1f} s after it was resumed; {len(load.confirmed)} confirmed, {len(lost)} lost"
        )
        assert not lost
        assert load.longest < 2 * QUICK.confirm + QUICK.answer


async def test_a_wiped_backup_is_filled_again_before_it_is_published_to(
    primary: RabbitmqServer, backup: RabbitmqServer
) -> None:
    async with world(primary.url, backup.url) as found:
        await found.ensure("billing")
        await asyncio.to_thread(backup.wipe)
        await eventually(lambda: not found.transport.conditions()[BACKUP], within=30)
        primary.kill()
        sent = found.messages(50)
        await confirmed(found, *sent)
        assert found.transport.active == BACKUP
        assert {*ids(await receive(await found.consume(), 50))} == {*ids(sent)}
        await asyncio.to_thread(primary.start)


async def test_what_was_ensured_while_the_backup_was_away_is_there_when_it_comes(
    primary: RabbitmqServer, backup: RabbitmqServer
) -> None:
    backup.kill()
    async with world(primary.url, backup.url) as found:
        await found.ensure("billing")
        assert found.transport.conditions()[BACKUP]
        assert all(await found.publish(*found.messages(2)))
        await asyncio.to_thread(backup.start)
        await eventually(lambda: not found.transport.conditions()[BACKUP], within=30)
        found.transport.prefer(BACKUP)
        assert found.transport.active == BACKUP
        sent = found.messages(5)
        assert all(await found.publish(*sent))
        async with somebody_else(backup.url) as other:
            queue = await other.declare_queue(found.queue, passive=True)
            assert queue.declaration_result.message_count == 5
        assert len(await receive(await found.consume(), 7)) == 7


async def test_what_was_removed_while_the_backup_was_away_goes_when_it_comes(
    primary: RabbitmqServer, backup: RabbitmqServer
) -> None:
    async with world(primary.url, backup.url) as found:
        await found.ensure("billing", "mail")
        backup.kill()
        await eventually(lambda: found.transport.conditions()[BACKUP])
        await found.transport.remove(found.code, "billing")
        await asyncio.to_thread(backup.start)
        await eventually(lambda: not found.transport.conditions()[BACKUP], within=30)
        assert found.queue not in await asyncio.to_thread(backup.ctl, "list_queues", "name")
        assert all(await found.publish(*found.messages(1)))


async def test_a_queue_refused_by_one_cluster_is_published_to_on_the_other(
    primary: RabbitmqServer, backup: RabbitmqServer
) -> None:
    async with world(primary.url, backup.url) as found, somebody_else(primary.url) as other:
        await other.declare_queue(found.queue, durable=True)
        await found.ensure("billing")
        assert found.queue in found.transport.conditions()[PRIMARY]
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
