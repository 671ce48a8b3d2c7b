"""While the store is away failed deliveries are retried from the dispatcher's spool, and by nobody twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from bus.domain.catalog import Catalog
from bus.domain.delivery.delivery import Compensation, Delivery, Origin, Outcome, Status, decode_outcome, encode_outcome
from bus.domain.delivery.leases import lease_time
from bus.domain.delivery.retry import RetryPolicy, Schedule
from bus.domain.destination import Destination
from bus.domain.lanes import unfinished_lane
from bus.domain.message import encode_message
from bus.domain.times import DAY
from bus.errors import SpoolFull, StoreError, StoreUnavailable
from bus.ports.spool import NewRecord
from bus.ports.store import DeliveryKey
from bus.stores.budget import Budget
from bus.stores.feed import Source, StoreFeed
from bus.testing.cluster import all_permits
from bus.testing.poster import Reply
from bus.testing.store import MemoryStore, tell_nobody
from bus.testing.writes import DESTINATION, message, outcome
from bus.transports.router import TransportRouter
from dispatcher.dispatcher import Dispatcher
from dispatcher.outcomes import RETRY
from dispatcher.retries.retrier import Retrier
from tests.harness.gated_spool import once
from tests.unit.dispatcher.dispatcher_world import URL, World, statuses, subscription

LANE = (DESTINATION, "billing")
TIMEOUT = 10_000
SLOW = RetryPolicy(Schedule((60_000,)))


class Told:
    """Counts outcomes that are durable."""

    times = 0

    def recorded(self, tokens: Sequence[object]) -> None:
        self.times += len(tokens)


class Refused(StoreError):
    retriable = False


class Away(MemoryStore):
    """A store that may be away, or take a while for each change."""

    away = refuses = loses_answers = False
    delay = 0.0
    poison = ""

    def __init__(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        super().__init__()
        self._sleep = sleep
        self.leaving: list[Any] = []

    async def write(self, writes):
        self.leaving += writes
        if self.delay:
            await self._sleep(self.delay)
        if self.away:
            raise StoreUnavailable("the store is away")
        if any(isinstance(one, Outcome) and (self.refuses or self.poison == one.message_id) for one in writes):
            raise Refused("too large")
        await super().write(writes)
        if self.loses_answers:
            raise StoreUnavailable("the answer is lost")

    async def reclaim(self, owner: str) -> int:
        if self.delay:
            await self._sleep(self.delay)
        if self.away:
            raise StoreUnavailable("the store is away")
        return await super().reclaim(owner)


class HeldUp(Source):
    """A source of which some lanes wait for the store, behind many records before theirs."""

    def __init__(self, world: Retrying) -> None:
        super().__init__(world.spool, "store", decode_outcome, Budget(lambda: None, lambda _: None), world.clock)
        self._world = world

    @property
    def lanes(self) -> Sequence[str]:
        return [lane for lane in super().lanes if lane not in self._world.held_up]

    async def wait(self) -> None:
        await (self._world.clock.sleep(0.1) if super().lanes else super().wait())


class Retrying(World):
    """A dispatcher with its feed and its retrier on one spool that outlives them."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Away(self.clock.sleep)
        self.timeouts = {LANE: TIMEOUT}
        self.room: Callable[[tuple[str, str]], int] = lambda _: 1
        self.held_up: set[str] = set()

    @asynccontextmanager
    async def life(self, **changes: Any) -> AsyncIterator[Dispatcher]:
        """Run a dispatcher of one subscription; at the end it is killed: nothing is drained."""
        self.spool.crash()
        self.log = type(self.log)(self.spool, self.events, self.clock)
        offers: list[Dispatcher] = []

        def offer(delivery: Delivery, until: float) -> bool:
            return offers[0].take(delivery, until)

        def room(key: tuple[str, str]) -> int:
            return offers[0].room_of(key)

        self.room = room
        self.retrier = retrier = self.new_retrier(offer)
        router = TransportRouter([self.transport], self.clock)
        configured = Catalog([Destination(code=DESTINATION)], [subscription(**changes)])
        await router.apply(configured)
        dispatcher = Dispatcher(router, self.dependencies(passed=retrier.passed), all_permits())
        offers.append(dispatcher)
        source = HeldUp(self)
        source.follower = retrier
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

    def new_retrier(self, offer: Callable[[Delivery, float], bool]) -> Retrier:
        return Retrier(
            self.spool, self.log, self.room, offer, self.clock, self.store, self.timeouts.get, "here/retries"
        )

    async def others(self) -> list[Compensation]:
        """Lease what other processes may make, as long as they have room for it."""
        now = self.clock.now()
        rows = await self.store.lease(now, now, {LANE: 10}, 10, owner="there")
        return [
            row
            for row in rows
            if not await self.store.finished(
                [DeliveryKey(row.message_id, row.retention_days, "billing", row.generation)]
            )
        ]

    def others_have(self) -> bool:
        """Whether others may make a retry by now."""
        now = self.clock.now()
        return any(max(row.due_at, row.lease_until) <= now for row in self.store._rows.values())

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


async def test_a_retry_that_is_due_soon_is_made_here_when_it_is_due(world: Retrying) -> None:
    world.poster.script(URL, Reply(500), Reply(200))
    async with world.life():
        await world.publish()
        await world.clock.advance(0.5)
        assert await world.store.due(0) == {LANE: 1}
        assert world.held() == 0
        await world.clock.advance(0.45)
        assert len(world.poster.posted) == 1
        await world.clock.advance(0.1)
        assert len(world.poster.posted) == 2
        await world.clock.advance(1)
        assert await world.store.due(0) == {}


@pytest.mark.parametrize("delay", [0.0, 1.5, 3.0, 20.0])
async def test_nobody_else_gets_a_retry_that_is_made_here(world: Retrying, delay: float) -> None:
    """A store that lags has the failure while the success is on its way; others may not take that for a retry."""
    world.store.delay = delay
    world.poster.script(URL, Reply(500), Reply(500), Reply(500), Reply(200))
    async with world.life():
        (sent,) = await world.publish()
        for _ in range(1000):
            await world.clock.advance(0.1)
            assert await world.others() == []
        assert len(world.poster.posted) == 4
        trace = await world.store.trace(sent.id)
        assert trace is not None
        assert trace.deliveries["billing"].status is Status.DELIVERED


async def test_a_retry_that_is_due_later_is_free(world: Retrying) -> None:
    world.poster.script(URL, Reply(500))
    async with world.life(retry=SLOW):
        await world.publish()
        await world.clock.advance(60)
        assert len(world.poster.posted) == 1
        assert world.held() == 0
        assert len(await world.others()) == 1


async def test_only_so_many_retries_are_kept(world: Retrying, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.retries.retrier._MOST", 2)
    world.poster.script(URL, *[Reply(503)] * 3, Reply(200))
    async with world.life():
        await world.publish(3)
        await world.clock.advance(2)
        assert len(world.poster.posted) == 5
        assert len(await world.others()) == 1


async def test_the_retries_of_an_earlier_life_are_free(world: Retrying) -> None:
    world.poster.script(URL, Reply(500))
    async with world.life(retry=RetryPolicy(Schedule((20_000,)))):
        await world.publish()
        await world.clock.advance(10)
    await world.clock.advance(20)
    assert await world.others() == []
    async with world.life():
        assert len(await world.others()) == 1


async def test_the_retries_of_a_life_that_was_killed_at_its_start_are_free(world: Retrying) -> None:
    world.store.away = True
    world.poster.script(URL, Reply(500))
    async with world.life(retry=RetryPolicy(Schedule((20_000,)))):
        await world.publish()
        await world.clock.advance(1)
    world.store.away, world.store.delay = False, 1.0
    async with world.life():
        await world.clock.advance(3)
        assert world.store.leaving
    await world.clock.advance(20)
    async with world.life():
        await world.clock.until(world.others_have, within=3)


async def test_a_dispatcher_that_leaves_in_order_lets_others_make_its_retries(world: Retrying) -> None:
    world.poster.script(URL, Reply(500))
    async with world.life(retry=RetryPolicy(Schedule((20_000,)))):
        await world.publish()
        await world.clock.advance(10)
        world.retrier.stop()
        await world.retrier.give_up()
    await world.clock.advance(20)
    assert len(await world.others()) == 1


async def test_what_its_worker_cannot_start_in_time_is_free(world: Retrying) -> None:
    world.poster.script(URL, Reply(500), Reply(200))
    async with world.life(rate=0.01):
        await world.publish()
        await world.clock.advance(30)
        assert await world.others() == []
        await world.clock.until(lambda: not world.retrier._held, within=40)
        await world.clock.advance(30)
        assert len(await world.others()) == 1
        await world.clock.advance(200)
        assert len(world.poster.posted) == 1


async def test_what_a_person_has_resent_or_discarded_meanwhile_is_not_posted(world: Retrying) -> None:
    world.poster.script(URL, Reply(500))
    async with world.life():
        (sent,) = await world.publish()
        await world.clock.advance(0.5)
        await world.store.write([replace(outcome(sent, "billing", Status.RESEND), generation=1, attempts=1)])
        await world.clock.advance(100)
        assert len(world.poster.posted) == 1
        assert not world.retrier._held


async def test_a_lease_whose_write_is_under_way_counts_after_a_stop(world: Retrying) -> None:
    """The process is suspended for an hour while the store makes the row; then others have had the retry."""
    world.poster.script(URL, Reply(500), Reply(200))
    async with world.life():
        await world.clock.settle()
        world.store.delay = 3.0
        await world.publish()
        await world.clock.advance(0.5)
        await MemoryStore.write(world.store, [world.store.leaving[-1]])
        world.clock.suspend(3600)
        assert len(await world.others()) == 1
        await world.clock.advance(2)
        assert len(world.poster.posted) == 1
        await world.clock.until(lambda: not world.retrier._held, within=10)


async def test_the_first_lease_counts_that_the_store_may_have(world: Retrying) -> None:
    """The answer to a write was lost; what is written again does not replace the row and its lease."""
    world.poster.script(URL, Reply(500), Reply(200))
    world.store.loses_answers = True
    async with world.life(rate=0.01):
        await world.publish()
        await world.clock.advance(40)
        first = world.store.leaving[0].lease_until
        assert world.store.leaving[-1].lease_until > first
        world.store.loses_answers = False
        await world.clock.advance((first - world.clock.now()) / 1000)
        assert len(await world.others()) == 1
        await world.clock.advance(200)
        assert len(world.poster.posted) == 1


@pytest.mark.parametrize("most", [0, 100])
async def test_what_the_store_refuses_is_retried_here(
    world: Retrying, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Also what is over its lease, or never had one."""
    monkeypatch.setattr("dispatcher.retries.retrier._MOST", most)
    world.store.refuses = True
    world.poster.script(URL, Reply(500), Reply(500), Reply(200))
    async with world.life(retry=RetryPolicy(Schedule((1000, 200_000)))):
        await world.publish()
        await world.clock.advance(10)
        assert len(world.poster.posted) == 2
        await world.clock.advance(210)
        assert len(world.poster.posted) == 3


async def test_a_retry_whose_lease_is_over_starts_at_once_or_not(world: Retrying) -> None:
    """The answer to the first write was lost; the store is away until shortly before others may make the retry."""
    world.poster.script(URL, Reply(500), Reply(200))
    async with world.life(rate=1 / 75):
        world.store.loses_answers = True
        await world.publish()
        await world.clock.advance(0.05)
        world.store.loses_answers, world.store.away = False, True
        await world.clock.advance(54)
        world.store.away = False
        await world.clock.until(world.others_have, within=20)
        await world.clock.advance(100)
        assert len(world.poster.posted) == 1


async def test_an_outage_of_the_store_makes_leases_no_longer(world: Retrying) -> None:
    world.store.away = True
    world.poster.script(URL, Reply(500), Reply(200))
    async with world.life(rate=0.001):
        await world.publish()
        await world.clock.advance(600)
        world.store.away = False
        await world.clock.until(world.others_have, within=120)


async def test_a_retry_that_was_begun_before_the_store_came_back_is_nobody_elses(world: Retrying) -> None:
    world.store.away = True
    answer = asyncio.Event()
    world.poster.script(URL, Reply(500), Reply(hold=answer))
    async with world.life():
        await world.publish()
        await world.clock.advance(4)
        assert len(world.poster.posted) == 2
        world.store.away = False
        await world.clock.advance(6)
        assert await world.others() == []
        answer.set()


@pytest.mark.parametrize("failures", [1, 2, 5])
async def test_an_outcome_that_waits_is_written_before_the_lease_of_the_one_before_ends(
    world: Retrying, failures: int
) -> None:
    replies = [*[Reply(500)] * failures, Reply(200)]
    world.poster.script(URL, *replies)
    world.held_up = {DESTINATION}
    async with world.life():
        await world.publish()
        for _ in range(200):
            await world.clock.advance(1)
            assert not await world.others()
    assert len(world.poster.posted) == len(replies)


async def test_an_outcome_that_the_store_refuses_holds_up_no_other(world: Retrying) -> None:
    world.poster.script(URL, *[Reply(500)] * 3, *[Reply(200)] * 3)
    world.held_up = {DESTINATION}
    async with world.life():
        sent = await world.publish(3)
        await world.clock.advance(10)
        world.store.poison = sent[1].id
        for _ in range(90):
            await world.clock.advance(1)
            assert {row.message_id for row in await world.others()} <= {world.store.poison}


async def test_an_outcome_that_the_feed_could_not_write_is_still_written_in_time(world: Retrying) -> None:
    world.poster.script(URL, Reply(500), Reply(200))
    async with world.life():
        await world.publish()
        await world.clock.advance(0.5)
        world.store.away = True
        await world.clock.advance(3)
        world.held_up = {DESTINATION}
        world.store.away = False
        for _ in range(90):
            await world.clock.advance(1)
            assert not await world.others()
    assert len(world.poster.posted) == 2


@pytest.mark.parametrize("reply", [Reply(200), Reply(500)])
async def test_what_a_compensator_handed_over_is_written_before_its_lease_ends(world: Retrying, reply: Reply) -> None:
    world.poster.script(URL, Reply(500), reply, Reply(200))
    async with world.life(retry=RetryPolicy(Schedule((60_000,)))) as dispatcher:
        (sent,) = await world.publish()
        await world.clock.advance(61)
        now = world.clock.now()
        (row,) = await world.store.lease(now, now + lease_time([TIMEOUT]), {LANE: 1}, 1, owner="here")
        world.held_up = {DESTINATION, unfinished_lane(*LANE)}
        delivery = Delivery(
            sent, "billing", row.generation, row.attempts, row.tries, row.since, row.by, handed_over=True
        )
        assert dispatcher.take(delivery)
        await world.clock.advance(59)
        assert len(world.poster.posted) == 2
        for _ in range(60):
            await world.clock.advance(0.5)
            assert not [row for row in await world.others() if row.attempts == 1]


async def test_what_waits_for_the_store_and_for_room_is_held_once(world: Retrying) -> None:
    world.store.away = True
    world.poster.script(URL, *[Reply(503)] * 15, Reply(200))
    async with world.life(rate=0.001):
        await world.publish(3)
        await world.clock.advance(1800)
        assert len(world.retrier._held) <= 3
        assert sum(map(len, world.retrier._ready.values())) <= 3
        assert len(world.retrier._due) <= 70


async def test_nothing_is_kept_of_a_subscription_that_is_removed(world: Retrying) -> None:
    world.poster.script(URL, *[Reply(503)] * 5, Reply(200))
    async with world.life(retry=RetryPolicy(Schedule((20_000,)))):
        await world.publish(5)
        await world.clock.advance(1)
        assert world.retrier._leased == 5
        world.timeouts.clear()
        await world.clock.advance(200)
        assert (world.retrier._held, world.retrier._keys, world.retrier._leased) == ({}, {}, 0)
        assert world.retrier._leased_bytes == 0


async def test_retries_follow_each_other_without_a_wait(world: Retrying) -> None:
    world.poster.script(URL, *[Reply(503)] * 15, Reply(200))
    async with world.life(max_concurrency=1):
        await world.publish(15)
        await world.clock.advance(1.1)
        assert len(world.poster.posted) == 30


async def test_a_clock_that_is_put_back_leaves_a_lease_its_length(world: Retrying) -> None:
    world.store.delay = 3.0
    world.poster.script(URL, Reply(500), Reply(200))
    async with world.life(retry=RetryPolicy(Schedule((20_000,)))):
        await world.publish()
        await world.clock.advance(0.5)
        world.clock.jump(-DAY)
        await world.clock.advance(10)
        await world.store.rewind(world.clock.now(), 0)
        await world.clock.advance(15)
        assert await world.others() == []


async def test_a_restart_without_the_store_goes_on_where_it_was(world: Retrying) -> None:
    world.store.away = True
    world.poster.script(URL, Reply(500), Reply(500), Reply(200))
    async with world.life():
        await world.publish()
        await world.clock.advance(1.5)
        assert len(world.poster.posted) == 2
    async with world.life():
        assert world.held() == 1
        await world.clock.advance(10)
        assert len(world.poster.posted) == 3
        assert world.held() == 0
    async with world.life():
        await world.clock.advance(60)
        assert len(world.poster.posted) == 3


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


async def test_what_is_free_is_not_remembered_until_it_is_due(world: Retrying) -> None:
    world.poster.script(URL, *[*[Reply(500)] * 4, Reply(200)] * 150)  # so that the breaker stays closed
    async with world.life(retry=SLOW):
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
        await world.clock.advance(1)
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
    retrier = world.new_retrier(lambda *_: True)
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
    retrier = world.new_retrier(lambda delivery, _: bool(offered.append(delivery)))
    running = asyncio.create_task(retrier.run())
    await clock.advance(5)
    running.cancel()
    assert offered
    assert not any(delivery.place for delivery in offered)
    retrier.written(await spool.claim("store", 9, lane))
    assert world.held() == 0
