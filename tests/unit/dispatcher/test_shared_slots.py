"""Two processes of one port deliver one subscription: within its limit and its rate, and no slot is free meanwhile."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest

from bus.cluster.concurrency_slots import SharedSlots, SlotFiles
from bus.domain.delivery.breaker import BreakerState
from bus.ports.poster import PostFailure
from bus.testing.poster import Reply
from dispatcher.worker import SubscriptionWorker
from tests.unit.dispatcher.dispatcher_world import URL, World, fresh, held, subscription


class Port:
    """The two processes; each has messages of its own."""

    def __init__(self, world: World, pools: Sequence[SharedSlots], opened: AsyncExitStack) -> None:
        self.worlds = world, World(beside=world)
        self.clock, self.poster = world.clock, world.poster
        self.pools = pools
        self.opened = opened

    async def workers(self, **changes: object) -> list[SubscriptionWorker]:
        return [
            await self.opened.enter_async_context(world.worker(subscription(**changes), slots=pool))
            for world, pool in zip(self.worlds, self.pools, strict=True)
        ]

    async def publish(self, first: int, second: int) -> None:
        """Have each process accept messages, the first one before the other."""
        for world, count in zip(self.worlds, (first, second), strict=True):
            await world.publish(count)
            await self.settle()

    async def settle(self) -> None:
        """Have both read what the other one sends, until nothing more comes of it; no time passes."""
        for _ in range(5):
            await self.clock.settle()
            for pool in self.pools:
                pool.read()
        await self.clock.settle()


@pytest.fixture
async def port(world: World) -> AsyncIterator[Port]:
    async with AsyncExitStack() as opened:
        files = SlotFiles()
        opened.callback(files.close)
        channels = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
        for one in (end for channel in channels for end in channel):
            one.setblocking(False)
            opened.enter_context(one)
        pools = []
        for number in range(2):
            wakeups = [ends[0 if to == number else 1] for to, ends in enumerate(channels)]
            pools.append(SharedSlots(files.open(), number, wakeups, world.clock))
            opened.callback(pools[number].close)
        yield Port(world, pools, opened)


async def test_the_process_with_the_messages_has_all_slots_and_both_together_no_more(port: Port) -> None:
    reply, event = held()
    port.poster.script(URL, reply)
    a, b = await port.workers(max_concurrency=4)
    await port.publish(6, 1)
    assert (a.in_flight, b.in_flight) == (4, 0)
    assert (a.lacks_slot, b.lacks_slot) == (False, True)
    event.set()
    await port.settle()
    await port.clock.advance(0.01)
    assert len(port.poster.posted) == 7
    assert port.poster.peak == 4


async def test_what_waits_in_one_goes_out_once_the_other_has_its_answer_and_no_clock_has_to_move(port: Port) -> None:
    reply, event = held()
    port.poster.script(URL, reply)
    await port.workers(max_concurrency=1)
    await port.publish(1, 1)
    assert len(port.poster.posted) == 1
    event.set()
    await port.settle()
    assert len(port.poster.posted) == 2


async def test_a_message_that_the_filter_leaves_out_uses_no_slot(port: Port) -> None:
    workers = await port.workers(max_concurrency=1, filter="biz_id == 'none'")
    await port.publish(3, 3)
    assert port.poster.posted == []
    assert not any(worker.exceeds(0) for worker in workers)


async def test_requests_that_a_stop_cuts_off_give_their_slots_back(port: Port) -> None:
    reply, event = held()
    port.poster.script(URL, reply)
    a, b = await port.workers(max_concurrency=2)
    await port.publish(2, 2)
    assert (a.in_flight, b.in_flight) == (2, 0)
    a.stop()
    event.set()
    await port.settle()
    assert len(port.poster.posted) == 4


async def test_a_probe_that_finds_no_slot_is_made_later(port: Port) -> None:
    port.poster.script(URL, *[Reply(failure=PostFailure.REFUSED)] * 5)
    a, b = await port.workers(max_concurrency=1)
    await port.publish(6, 0)
    assert a.breaker.state is BreakerState.OPEN
    reply, event = held()
    port.poster.script(URL, reply)
    await port.publish(0, 1)
    assert b.in_flight == 1
    await port.clock.advance(2)
    assert a.breaker.state is BreakerState.OPEN
    event.set()
    await port.settle()
    assert a.breaker.state is BreakerState.CLOSED


async def test_a_sample_has_a_slot_and_gives_it_back(port: Port) -> None:
    _, b = await port.workers(max_concurrency=1)
    for number in range(3):
        assert await b.sample(fresh(number, port.clock)) is not None
    await port.publish(1, 0)
    assert len(port.poster.posted) == 4


async def test_a_sample_that_outlives_its_worker_keeps_its_slot_until_it_has_ended(port: Port) -> None:
    reply, event = held()
    port.poster.script(URL, reply)
    a, b = await port.workers(max_concurrency=1)
    sampling = asyncio.create_task(a.sample(fresh(1, port.clock)))
    await port.settle()
    a.stop()
    await port.publish(0, 1)
    assert (port.poster.in_flight, b.in_flight) == (1, 0)
    event.set()
    await port.settle()
    assert (await sampling) is not None
    assert len(port.poster.posted) == 2


async def test_the_rate_is_that_of_both_together_whoever_has_the_messages(port: Port) -> None:
    await port.workers(rate=10.0)
    await port.clock.advance(10)
    await port.publish(100, 5)
    sent = []
    for _ in range(5):
        await port.settle()
        sent.append(len(port.poster.posted))
        for _ in range(10):
            await port.clock.advance(0.1)
            await port.settle()
    assert sent[0] == 10, "one second's worth at once"
    assert sent[-1] == 50
    # Both may send before they hear of each other; what was too much is made up for.
    assert all(abs(count - 10 * number) <= 1 for number, count in enumerate(sent, 1))
