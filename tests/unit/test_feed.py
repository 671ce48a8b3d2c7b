"""From a spool to the store: nothing is acked before it is durable there, at rates that change while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from bus.domain.claim import IDEMPOTENCY, Claim, claim_of
from bus.domain.delivery.delivery import Outcome, Status, decode_outcome, encode_outcome
from bus.domain.message import Message, decode_message, encode_message
from bus.domain.times import day_of
from bus.errors import StoreError, StoreUnavailable
from bus.ports.spool import NewRecord
from bus.stores.budget import Budget
from bus.stores.feed import BATCH, TICK, Source, StoreFeed
from bus.testing.clock import ManualClock
from bus.testing.spool import MemorySpool
from bus.testing.store import MemoryStore, tell_nobody
from bus.testing.writes import message, outcome


class Shelf(MemoryStore):
    """A store that can be down or slow, and that tells what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.most = 2 * BATCH
        self.refused: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.batches: list[list[Message | Outcome]] = []
        self.calls = 0

    async def write(self, writes: Sequence[Message | Outcome]) -> None:
        self.calls += 1
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        if len(writes) > self.most:
            raise StoreUnavailable("it did not answer in time")
        if any(isinstance(write, Message) and write.id in self.refused for write in writes):
            raise StoreError("too large")
        await super().write(writes)
        self.batches.append(list(writes))

    @property
    def written(self) -> int:
        return sum(len(batch) for batch in self.batches)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.spool = MemorySpool(consumers=("store", "publish"))
        self.store = Shelf()
        self.total: float | None = None
        self.rates: dict[str, float] = {}
        self.counted: list[Message | Outcome] = []
        budget = Budget(lambda: self.total, self.rates.get)
        self.source = Source(self.spool, "store", decode_message, budget, self.clock)
        self.feed = StoreFeed(self.store, self.clock, [self.source], self.counted.extend, tell_nobody)
        self._made = 0

    async def put(self, count: int, lane: str = "orders") -> None:
        numbers = range(self._made, self._made + count)
        self._made += count
        messages = [message(n, destination=lane) for n in numbers]
        await self.spool.append([NewRecord(lane, encode_message(one), one.received_at) for one in messages])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.feed.run())
        await self.clock.settle()
        yield
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def waiting(self, lane: str = "orders") -> int:
        return sum(s.records for s in self.spool.stats().consumers if (s.lane, s.consumer) == (lane, "store"))

    def count(self, lane: str) -> int:
        return sum(one.destination == lane for batch in self.store.batches for one in batch)


@pytest.fixture
async def world() -> World:
    return World()


async def test_what_is_in_the_spool_comes_into_the_store(world: World) -> None:
    await world.put(3)
    async with world.running():
        await world.put(2)
        await world.clock.advance(TICK)
        assert world.store.written == 5
        assert world.waiting() == 0
        assert await world.store.message(message(4).id) == message(4)


async def test_many_share_a_batch_and_lanes_take_turns(world: World) -> None:
    await world.put(BATCH + 1000)
    await world.put(5, "mails")
    async with world.running():
        assert world.store.written == BATCH + 1005
    sizes = [len(batch) for batch in world.store.batches]
    assert max(sizes) == BATCH
    assert world.count("mails") == 5
    assert any(one.destination == "mails" for batch in world.store.batches[:2] for one in batch)


async def test_a_store_that_is_slow_with_large_batches_makes_progress(world: World) -> None:
    """For more than 100 records it exceeds its deadline."""
    world.store.most = 100
    await world.put(1000)
    async with world.running():
        await world.clock.advance(30)
        assert world.waiting() == 0
        world.store.most = 2 * BATCH
        await world.put(2 * BATCH)
        await world.clock.advance(2)
        assert max(map(len, world.store.batches)) > BATCH / 2


async def test_nothing_is_acked_before_it_is_durable(world: World) -> None:
    world.store.gate.clear()
    await world.put(3)
    async with world.running():
        await world.clock.advance(60)
        assert world.store.calls == 1
        assert world.waiting() == 3
        world.store.gate.set()
        await world.clock.settle()
        assert world.waiting() == 0


async def test_what_the_store_has_is_counted_once(world: World) -> None:
    world.store.error = StoreUnavailable("down")
    await world.put(3)
    async with world.running():
        await world.clock.advance(60)
        assert world.counted == []
        world.store.error = None
        await world.clock.advance(60)
        assert world.counted == [message(0), message(1), message(2)]


class AcksFirst(StoreFeed):
    """Planted: acks what it claimed before the store has it."""

    async def _write(self, batch) -> None:
        for item in batch:
            item.source.finish([item.record])
        await super()._write(batch)


async def test_an_ack_before_the_store_has_it_is_caught(world: World) -> None:
    world.feed.__class__ = AcksFirst
    with pytest.raises(AssertionError, match="assert 0 == 3"):
        await test_nothing_is_acked_before_it_is_durable(world)


async def test_a_record_that_the_store_refuses_holds_up_no_other(world: World, caplog) -> None:
    world.store.refused = {message(number).id for number in (3, 700, 701)}
    await world.put(1000)
    async with world.running():
        await world.clock.advance(1)
        assert world.store.written == 997
        assert world.waiting() == 3
        assert world.feed.up
        assert world.store.calls < 60
        assert len(caplog.records) == 3
        await world.put(1)
        await world.clock.advance(0)
        assert world.store.written == 998
        assert not await world.feed.caught_up(0.01)
        await world.clock.advance(60)
        assert len(caplog.records) == 3
        world.store.refused = set()
        await world.clock.advance(30)
        assert world.store.written == 1001
        assert world.waiting() == 0
        assert await world.feed.caught_up(10)


async def test_a_store_that_refuses_all_is_asked_less_and_less_and_loses_nothing(world: World) -> None:
    world.store.error = StoreError("no login")
    await world.put(3000)
    async with world.running():
        await world.clock.advance(600)
        assert not world.feed.up
        assert world.store.calls < 600 / 5 * 40
        assert world.waiting() == 3000
        world.store.error = None
        await world.clock.advance(40)
        assert world.feed.up
        assert world.waiting() == 0
        assert len({one.id for batch in world.store.batches for one in batch}) == 3000


async def test_a_store_that_is_down_is_asked_less_and_less_and_loses_nothing(world: World) -> None:
    error = StoreUnavailable("down")
    world.store.error = error
    await world.put(4)
    async with world.running():
        assert not world.feed.up
        await world.clock.advance(3)
        early = world.store.calls
        await world.clock.advance(600)
        assert 4 <= early <= 6
        assert world.store.calls - early == pytest.approx(120, abs=3)
        assert world.waiting() == 4
        await world.put(3, "mails")
        world.store.error = None
        await world.clock.advance(5)
        assert world.feed.up
        assert world.store.written == 7
        assert len({one.id for batch in world.store.batches for one in batch}) == 7
        world.store.error = error
        before = world.store.calls
        await world.put(1)
        await world.clock.advance(0.15)
        assert world.store.calls == before + 2


async def test_a_destinations_rate_holds_up_no_other(world: World) -> None:
    world.rates["orders"] = 10
    await world.put(100)
    await world.put(100, "mails")
    async with world.running():
        assert (world.count("orders"), world.count("mails")) == (0, 100)
        await world.clock.advance(3)
        assert world.count("orders") == pytest.approx(30, abs=1)
        world.rates["orders"] = 50
        await world.clock.advance(1)
        assert world.count("orders") == pytest.approx(80, abs=6)
        del world.rates["orders"]
        await world.clock.advance(0.5)
        assert world.count("orders") == 100


async def test_the_total_rate_is_for_all(world: World) -> None:
    world.total = 20
    await world.put(300)
    await world.put(300, "mails")
    async with world.running():
        await world.clock.advance(3)
        assert world.store.written == pytest.approx(60, abs=1)
        await world.clock.advance(3)
        assert min(world.count("orders"), world.count("mails")) > 0
        world.total = 200
        await world.clock.advance(1)
        assert world.store.written == pytest.approx(320, abs=21)
        world.total = None
        await world.clock.advance(0.5)
        assert world.store.written == 600


async def test_a_slow_rate_is_polled_seldom(world: World) -> None:
    world.total = 0.1
    await world.put(3)
    async with world.running():
        await world.clock.advance(31)
        assert world.store.written == 3
        assert world.store.calls == 3


async def test_a_key_is_in_the_store_before_its_message_is_acked(world: World) -> None:
    """Else a kill in between would leave nothing that says which message the key stands for."""
    put, refused = world.store.put, [StoreUnavailable("down")]

    async def failing(*args: object, **kwargs: object) -> int:
        if refused:
            raise refused.pop()
        return await put(*args, **kwargs)  # type: ignore[arg-type]

    world.store.put = failing  # type: ignore[method-assign]
    first = message(1, claim="aa")
    await world.spool.append([NewRecord("orders", encode_message(one), 1) for one in (first, message(2))])
    async with world.running():
        assert world.waiting() == 2
        await world.clock.advance(10)
        assert world.waiting() == 0
        await world.spool.append([NewRecord("orders", encode_message(message(3, claim="aa")), 1)])
        await world.clock.advance(10)
        assert world.waiting() == 0
    (kept,) = await world.store.list(IDEMPOTENCY)
    assert kept.key == f"{day_of(first.received_at)}/aa"
    assert msgspec.json.decode(kept.value, type=Claim) == claim_of(first)


async def test_caught_up_waits_until_all_is_written(world: World) -> None:
    world.store.gate.clear()
    await world.put(600)
    async with world.running():
        assert not await world.feed.caught_up(0.01)
        catching = asyncio.create_task(world.feed.caught_up(10))
        await world.clock.settle()
        world.store.gate.set()
        assert await catching
        assert world.store.written == 600


async def test_caught_up_before_the_feed_ran_knows_what_waits(world: World) -> None:
    await world.put(1)
    assert not await world.feed.caught_up(0.01)
    async with world.running():
        assert await world.feed.caught_up(10)


async def test_an_earlier_emptiness_is_not_a_later_one(world: World) -> None:
    async with world.running():
        assert await world.feed.caught_up(10)
        await world.put(1)
        assert await world.feed.caught_up(10)
        assert world.store.written == 1
        world.store.gate.clear()
        await world.put(1)
        await world.clock.advance(TICK)
        assert not await world.feed.caught_up(0.01)
        world.store.gate.set()
        assert await world.feed.caught_up(10)


async def test_what_a_rate_holds_back_is_not_caught_up(world: World) -> None:
    async with world.running():
        assert await world.feed.caught_up(10)
        world.rates["orders"] = 1
        await world.put(5)
        await world.clock.settle()
        assert not await world.feed.caught_up(0.01)
        assert world.waiting() == 5


async def test_a_record_of_another_version_stays_in_view_and_holds_up_nothing(world: World) -> None:
    await world.spool.append([NewRecord("orders", b"of another version", 1)])
    await world.put(2)
    async with world.running():
        await world.clock.advance(5)
        assert world.store.written == 2
        assert world.waiting() == 1
        assert await world.feed.caught_up(10)


async def test_only_records_of_another_version_write_nothing(world: World) -> None:
    await world.spool.append([NewRecord("orders", b"of another version", 1)])
    async with world.running():
        await world.clock.advance(5)
        assert world.waiting() == 1
        assert world.store.written == 0


async def test_outcomes_are_not_held_up_by_many_messages(world: World) -> None:
    outcomes = MemorySpool(consumers=("store",))
    budget = Budget(lambda: None, lambda _: None)
    sources = [world.source, Source(outcomes, "store", decode_outcome, budget, world.clock)]
    world.feed = StoreFeed(world.store, world.clock, sources, world.counted.extend, tell_nobody)
    await world.put(5 * BATCH)
    done = outcome(message(0), "billing", Status.DELIVERED)
    await outcomes.append([NewRecord("orders", encode_outcome(done), 1)])
    async with world.running():
        assert done in world.store.batches[0]
        assert world.store.written == 5 * BATCH + 1  # and no tick goes by while there is more to write


async def test_a_few_that_come_all_the_time_do_not_slow_a_backlog(world: World) -> None:
    """Each is written in a batch that is not full, for half of it is kept for others."""
    outcomes = MemorySpool(consumers=("store",))
    budget = Budget(lambda: None, lambda _: None)
    sources = [world.source, Source(outcomes, "store", decode_outcome, budget, world.clock)]
    world.feed = StoreFeed(world.store, world.clock, sources, world.counted.extend, tell_nobody)
    records = [NewRecord("orders", encode_outcome(outcome(message(n), "b", Status.DELIVERED)), 1) for n in range(9)]
    write, left = world.store.write, iter(records)

    async def writes_and_more_comes(writes: Sequence[Message | Outcome]) -> None:
        await write(writes)
        await outcomes.append([record for record in [next(left, None)] if record is not None])

    world.store.write = writes_and_more_comes  # type: ignore[method-assign]
    await outcomes.append([next(left)])
    await world.put(4 * BATCH)
    async with world.running():
        assert not world.source.lanes  # all of the backlog was written at once
