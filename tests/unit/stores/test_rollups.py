"""Counts of a process reach the store, however often the store is unreachable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.statistics.rollup import RESOLUTIONS, Sheet, added_up
from bus.domain.times import DAY
from bus.errors import StoreUnavailable
from bus.stores.rollups import FORGOTTEN_AFTER, WRITERS, RollupReader, Rollups
from bus.testing.clock import ManualClock
from bus.testing.store import MemoryStore
from bus.testing.writes import DESTINATION, NOON, message, outcome

MINUTES = RESOLUTIONS[0]


class FickleStore(MemoryStore):
    """A store that can be down, and that takes a write without saying so."""

    down = False
    mute = False
    puts = 0

    async def put(self, collection, key, value, *, version=None):
        if self.down:
            raise StoreUnavailable("down")
        self.puts += 1
        found = await super().put(collection, key, value, version=version)
        if self.mute:
            raise StoreUnavailable("no answer")
        return found


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = FickleStore()
        self.oldest: int | None = None
        self.rollups = self.process("one")
        self.reader = RollupReader(self.store, self.clock)

    def process(self, owner: str) -> Rollups:
        return Rollups(self.store, self.clock, owner, lambda: self.oldest)

    async def stored(self) -> Sheet:
        return added_up((await self.reader.sheets(MINUTES, 0, self.clock.now() + 1)).values())

    async def accepted(self) -> int:
        return (await self.stored()).accepted.get(DESTINATION, {}).get("shop", 0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.rollups.run())
        await self.clock.settle()
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def world() -> World:
    return World()


async def test_counts_are_stored_within_a_second(world: World) -> None:
    async with world.running():
        world.rollups.count([message(0)])
        await world.clock.advance(1)
        assert await world.accepted() == 1


async def test_who_counts_nothing_writes_a_mark_now_and_then(world: World) -> None:
    async with world.running():
        await world.clock.advance(600)
    assert 30 <= world.store.puts <= 41


async def test_nothing_is_lost_or_counted_twice_while_the_store_is_away(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with world.running():
            world.store.down = True
            world.rollups.count([message(0)])
            await world.clock.advance(60)
            world.store.down, world.store.mute = False, True
            world.rollups.count([message(1)])
            await world.clock.advance(60)
            world.store.mute = False
            world.rollups.count([message(2)])
            await world.clock.advance(60)
    assert await world.accepted() == 3
    assert len(caplog.records) == 1


async def test_a_restart_overwrites_nothing(world: World) -> None:
    world.rollups.count([message(0)])
    await world.rollups.flush()
    await world.clock.advance(1)
    again = world.process("one")
    again.count([message(1)])
    await again.flush()
    assert await world.accepted() == 2


async def test_a_stop_loses_nothing_and_leaves_no_mark(world: World) -> None:
    world.rollups.count([message(0)])
    world.rollups.count([outcome(message(n), "billing", Status.CANCELED, attempt=None) for n in range(3)])
    await world.rollups.close()
    assert (await world.stored()).deliveries[DESTINATION]["billing"].ended == {Status.CANCELED: 3}
    assert await world.accepted() == 1
    assert await world.store.list(WRITERS) == []


async def test_what_waits_for_the_store_is_not_complete(world: World) -> None:
    await world.process("other").flush()
    await world.clock.advance(10)
    world.oldest = NOON + 4_000
    await world.rollups.flush()
    assert await world.reader.complete_until() == NOON
    world.oldest = None
    await world.process("other").flush()
    assert await world.reader.complete_until() == NOON + 4_000
    await world.rollups.flush()
    assert await world.reader.complete_until() == NOON + 10_000


async def test_nobody_waits_for_ever_for_who_is_gone(world: World) -> None:
    await world.rollups.flush()
    await world.clock.advance(FORGOTTEN_AFTER / 1000 - 1)
    assert await world.reader.complete_until() == NOON
    await world.clock.advance(1)
    assert await world.reader.complete_until() == world.clock.now()
    assert await world.reader.expire(world.clock.now()) == 1
    assert await world.store.list(WRITERS) == []


async def test_what_is_older_than_a_resolution_keeps_is_not_written_there(world: World) -> None:
    await world.clock.advance(MINUTES.kept / 1000 + 120)
    world.rollups.count([message(0)])
    await world.rollups.flush()
    assert await world.accepted() == 0
    days = RESOLUTIONS[-1]
    assert await world.reader.sheets(days, days.start(NOON), NOON + 1)


async def test_a_process_with_nothing_to_count_tells_so_after_the_clock_was_put_back(world: World) -> None:
    world.clock.jump(DAY)
    async with world.running():
        await world.clock.advance(2)
        world.clock.jump(-DAY)
        await world.clock.advance(20)
        assert await world.reader.complete_until() <= world.clock.now()
