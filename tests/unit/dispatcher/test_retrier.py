"""While the store is away failed deliveries are retried from the dispatcher's spool, and by nobody twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from bus.domain.catalog import Catalog
from bus.domain.delivery.delivery import Delivery, Origin, Status, decode_outcome, encode_outcome
from bus.domain.destination import Destination
from bus.domain.lanes import unfinished_lane
from bus.domain.message import encode_message
from bus.domain.times import DAY
from bus.errors import SpoolFull, StoreUnavailable
from bus.ports.spool import NewRecord
from bus.stores.budget import Budget
from bus.stores.feed import Source, StoreFeed
from bus.testing.cluster import all_permits
from bus.testing.poster import Reply
from bus.testing.store import MemoryStore, tell_nobody
from bus.testing.writes import DESTINATION, message, outcome
from bus.transports.router import TransportRouter
from dispatcher.dispatcher import Dispatcher
from dispatcher.outcomes import RETRY
from dispatcher.retrying import Retrier
from tests.harness.gated_spool import once
from tests.unit.dispatcher.dispatcher_world import URL, World, statuses, subscription

LANE = (DESTINATION, "billing")


class Told:
    """Counts outcomes that are durable."""

    times = 0

    def recorded(self, tokens: Sequence[object]) -> None:
        self.times += len(tokens)


class Away(MemoryStore):
    away = False

    async def write(self, writes):
        if self.away:
            raise StoreUnavailable("the store is away")
        await super().write(writes)


class Retrying(World):
    """A dispatcher with its feed and its retrier on one spool that outlives them."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Away()

    @asynccontextmanager
    async def life(self) -> AsyncIterator[Dispatcher]:
        """Run a dispatcher; at the end it is killed: nothing is drained."""
        self.spool.crash()
        self.log = type(self.log)(self.spool, self.events, self.clock)
        offers: list[Dispatcher] = []

        def offer(delivery: Delivery) -> bool:
            return offers[0].take(delivery)

        self.retrier = retrier = Retrier(self.spool, self.log, offer, self.clock)
        router = TransportRouter([self.transport], self.clock)
        configured = Catalog([Destination(code=DESTINATION)], [subscription()])
        await router.apply(configured)
        dispatcher = Dispatcher(router, self.dependencies(passed=retrier.passed), all_permits())
        offers.append(dispatcher)
        source = Source(self.spool, "store", decode_outcome, Budget(lambda: None, lambda _: None), self.clock)
        source.written = retrier.written
        feed = StoreFeed(self.store, self.clock, [source], lambda _: None, tell_nobody)
        tasks = [
            asyncio.create_task(work)
            for work in (dispatcher.run(configured, asyncio.Event()), retrier.run(), feed.run())
        ]
        await self.clock.settle()
        try:
            yield dispatcher
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def held(self) -> int:
        """How many unfinished outcomes wait in the spool for their next attempt."""
        return sum(stats.records for stats in self.spool.stats().consumers if stats.consumer == RETRY)


@pytest.fixture
async def world() -> Retrying:
    return Retrying()


async def test_a_failure_is_retried_while_the_store_is_away_until_it_is_delivered(world: Retrying) -> None:
    world.store.away = True
    world.poster.script(URL, Reply(500), Reply(500), Reply(200))
    async with world.life():
        (sent,) = await world.publish()
        await world.clock.advance(0.9)
        assert len(world.poster.posted) == 1
        await world.clock.advance(10)
        assert len(world.poster.posted) == 3
        assert statuses(await world.outcomes()) == [Status.RETRYING, Status.RETRYING, Status.DELIVERED]
        assert world.held() == 0
        world.store.away = False
        await world.clock.advance(10)
        trace = await world.store.trace(sent.id)
        assert trace is not None
        delivery = trace.deliveries["billing"]
        assert delivery.status is Status.DELIVERED
        assert sorted((one.n, one.by) for one in delivery.attempts.values()) == [
            (1, Origin.TRANSPORT),
            (2, Origin.RETRY),
            (3, Origin.RETRY),
        ]
        assert await world.store.due(0) == {}


async def test_once_the_store_has_the_outcome_the_retry_is_the_compensators(world: Retrying) -> None:
    world.poster.script(URL, Reply(500))
    async with world.life():
        await world.publish()
        await world.clock.advance(60)
        assert len(world.poster.posted) == 1
        assert world.held() == 0
        assert await world.store.due(0) == {LANE: 1}


async def test_a_restart_without_the_store_goes_on_where_it_was(world: Retrying) -> None:
    world.store.away = True
    world.poster.script(URL, Reply(500), Reply(500), Reply(200))
    async with world.life():
        await world.publish()
        await world.clock.advance(3)
        assert len(world.poster.posted) == 2
    async with world.life():
        assert world.held() == 1
        await world.clock.advance(10)
        assert len(world.poster.posted) == 3
        assert world.held() == 0
    async with world.life():
        await world.clock.advance(60)
        assert len(world.poster.posted) == 3


async def test_a_store_that_comes_back_in_between_takes_over_without_a_second_post(world: Retrying) -> None:
    world.store.away = True
    world.poster.script(URL, Reply(500))
    async with world.life():
        await world.publish()
        await world.clock.advance(4)
        world.store.away = False
        await world.clock.until(lambda: world.held() == 0, within=10)
        posted = len(world.poster.posted)
        assert posted >= 2
        await world.clock.advance(60)
        assert len(world.poster.posted) == posted
        assert await world.store.due(0) == {LANE: 1}


async def test_many_failures_are_all_retried(world: Retrying) -> None:
    world.store.away = True
    world.poster.script(URL, *[Reply(503)] * 15, Reply(200))
    async with world.life():
        await world.publish(15)
        await world.clock.advance(60)
        assert len(world.poster.posted) == 30
        assert world.held() == 0


async def test_a_record_of_another_version_stays_in_view_and_holds_up_nobody(world: Retrying) -> None:
    world.store.away = True
    world.poster.script(URL, Reply(500), Reply(200))
    lane = f"{DESTINATION}/billing"
    world.spool.attach(lane, RETRY)
    await world.spool.append([NewRecord(lane, b"?", 1)])
    async with world.life():
        await world.publish()
        await world.clock.advance(10)
        assert len(world.poster.posted) == 2
        assert world.held() == 1


async def test_what_the_store_has_is_not_remembered_until_its_next_attempt_is_due(world: Retrying) -> None:
    world.poster.script(URL, *[*[Reply(500)] * 4, Reply(200)] * 150)  # so that the breaker stays closed
    async with world.life():
        await world.publish(750)
        await world.clock.until(lambda: len(world.poster.posted) == 750 and not world.held(), within=2)
        assert await world.store.due(0) == {LANE: 600}
        assert len(world.retrier._due) <= 64


async def test_a_clock_that_jumps_ahead_and_back_makes_no_retry_wait_for_longer(world: Retrying) -> None:
    world.store.away = True
    world.poster.script(URL, Reply(500), Reply(500), Reply(200))
    async with world.life():
        world.clock.jump(DAY)
        await world.publish()
        await world.clock.advance(0.5)
        world.clock.jump(-DAY)
        await world.clock.advance(3)
        assert len(world.poster.posted) == 2
        world.clock.jump(DAY)
        await world.clock.advance(0.1)
        assert len(world.poster.posted) == 2
    world.clock.jump(-DAY)
    async with world.life():
        await world.clock.advance(10)
        assert len(world.poster.posted) == 3
        assert world.held() == 0


async def test_an_outcome_acks_the_retry_that_it_ends_in_its_own_commit(world: Retrying) -> None:
    """Else a crash in between brings the retry again, although its delivery is finished."""
    sent, told = message(1), Told()
    retrier = Retrier(world.spool, world.log, lambda _: True, world.clock)
    running = [asyncio.create_task(work) for work in (retrier.run(), world.log.run())]
    failed = replace(outcome(sent, "billing", Status.RETRYING), attempts=1, message=encode_message(sent))
    world.log.record(failed, sent, told, None)
    await world.clock.until(lambda: retrier._held, within=1)
    world.spool.refuse = once(SpoolFull("the disk is full"))
    world.log.record(replace(outcome(sent, "billing", Status.DELIVERED), attempts=2), sent, told, None)
    await world.clock.settle()
    assert world.held() == 1
    await world.clock.until(lambda: told.times == 2, within=1)
    assert world.held() == 0
    for task in running:
        task.cancel()


@pytest.mark.parametrize("place", [0, 7])
async def test_what_the_store_has_from_an_earlier_life_is_left_to_it(world: Retrying, place: int) -> None:
    """The life that stored the outcome was killed before its retrier had claimed it."""
    lane = unfinished_lane(*LANE)
    world.spool.attach(lane, RETRY)
    sent = message(1)
    failed = replace(outcome(sent, "billing", Status.RETRYING), message=encode_message(sent), place=place)
    await world.spool.append([NewRecord(lane, encode_outcome(failed), 1)])
    await world.feed()
    async with world.life():
        await world.clock.advance(60)
        assert world.poster.posted == []
        assert world.held() == 0


async def test_what_another_process_has_delivered_since_an_earlier_life_is_not_posted(world: Retrying) -> None:
    world.store.away = True
    world.poster.script(URL, Reply(500), Reply(200))
    async with world.life():
        sent = await world.publish(2)
        await world.clock.advance(0.5)
        assert len(world.poster.posted) == 2
    world.store.away = False
    await world.store.write([replace(outcome(sent[0], "billing", Status.DELIVERED), attempts=2)])
    world.store.away = True
    async with world.life():
        await world.clock.advance(10)
        assert len(world.poster.posted) == 2
        world.store.away = False
        await world.clock.until(lambda: world.held() == 0, within=10)


async def test_what_keeps_an_order_is_offered_to_nobody(world: Retrying) -> None:
    """Its worker has it; offers of thousands of keys that are held up would be refused four times a second."""
    spool, clock = world.spool, world.clock
    lane = unfinished_lane(*LANE)
    spool.attach(lane, RETRY)
    late = replace(outcome(message(1), "billing", Status.RETRYING), due_at=clock.now())
    records = [NewRecord(lane, encode_outcome(replace(late, order_key="a", place=7)), 1)]
    await spool.append([*records, NewRecord(lane, encode_outcome(replace(late, message_id="b")), 1)])
    offered: list[Delivery] = []
    retrier = Retrier(spool, world.log, lambda delivery: bool(offered.append(delivery)), clock)
    running = asyncio.create_task(retrier.run())
    await clock.advance(5)
    running.cancel()
    assert offered
    assert not any(delivery.place for delivery in offered)
    retrier.written(await spool.claim("store", 9, lane))
    assert world.held() == 0
