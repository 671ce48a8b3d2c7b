"""From the receiver's spool to the destination's transport, or into the store for later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from bus.domain.catalog import Catalog
from bus.domain.delivery.delivery import Origin
from bus.domain.destination import TransportName
from bus.domain.message import decode_message
from bus.domain.tracing.events import Stage
from bus.ports.spool import NewRecord
from bus.ports.transport import OutgoingMessage
from bus.registry import Registry
from bus.security.secrets import SecretBox
from bus.telemetry import metrics
from bus.testing.transport import MemoryTransport
from bus.transports.router import TransportRouter
from tests.unit.receiver.receiver_world import World


@pytest.fixture
async def world() -> World:
    world = World()
    await world.destination("orders", "billing")
    return world


@asynccontextmanager
async def publishing(world: World) -> AsyncIterator[None]:
    stopping = asyncio.Event()
    running = asyncio.create_task(world.publisher.run(stopping))
    await world.clock.settle()
    try:
        yield
    finally:
        stopping.set()
        await world.clock.settle()
        assert running.done()
        running.result()


def on_transport(world: World, destination: str = "orders") -> list[bytes]:
    return [one.body for one in world.transport._messages if one.destination == destination]


def waiting(world: World, lane: str = "orders") -> int:
    return sum(s.records for s in world.spool.stats().consumers if (s.lane, s.consumer) == (lane, "publish"))


def published(world: World, result: str) -> float:
    return metrics.PUBLISHED.labels("orders", "direct", result)._value.get()


async def test_what_is_accepted_is_published_in_order(world: World) -> None:
    before = published(world, "confirmed")
    await world.send(b"earlier life")
    async with publishing(world):
        for number in range(5):
            await world.send(b"%d" % number)
        await world.clock.settle()
        assert on_transport(world) == [b"earlier life", b"0", b"1", b"2", b"3", b"4"]
        assert waiting(world) == 0
        assert published(world, "confirmed") == before + 6


async def test_what_the_transport_refuses_stays_and_is_tried_less_and_less(world: World) -> None:
    before = published(world, "failed")
    world.transport.refusing = True
    async with publishing(world):
        await world.send(b"1")
        await world.clock.advance(1)
        early = published(world, "failed") - before
        await world.clock.advance(100)
        late = published(world, "failed") - before - early
        assert 4 <= early <= 6
        assert late == pytest.approx(22, abs=3)
        assert waiting(world) == 1
        world.transport.refusing = False
        await world.clock.advance(5)
        assert on_transport(world) == [b"1"]
        assert waiting(world) == 0
        world.transport.refusing = True
        await world.send(b"2")
        await world.clock.advance(0.06)
        world.transport.refusing = False
        await world.clock.advance(0.2)
        assert on_transport(world) == [b"1", b"2"]


class Slow:
    """A transport that confirms when it is told to."""

    def __init__(self, world: World) -> None:
        self.answers = asyncio.Event()
        self._plain, world.transport.publish = world.transport.publish, self.publish

    async def publish(self, batch: Sequence[OutgoingMessage]) -> list[bool | None]:
        found = await self._plain(batch)
        await self.answers.wait()
        return found


async def test_a_stop_sees_the_end_of_what_is_under_way_so_that_nothing_is_published_twice(world: World) -> None:
    slow = Slow(world)
    stopping = asyncio.Event()
    running = asyncio.create_task(world.publisher.run(stopping))
    await world.send(b"1")
    await world.clock.settle()
    stopping.set()
    await world.clock.settle()
    assert not running.done()
    assert waiting(world) == 1
    slow.answers.set()
    await world.clock.settle()
    assert running.done()
    assert waiting(world) == 0
    assert on_transport(world) == [b"1"]


async def test_a_stop_does_not_wait_for_a_transport_that_hangs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("receiver.publishing._ENDING", 0.05)
    Slow(world)
    stopping = asyncio.Event()
    running = asyncio.create_task(world.publisher.run(stopping))
    await world.send(b"1")
    await world.clock.settle()
    stopping.set()
    async with asyncio.timeout(5):
        await running
    assert waiting(world) == 1


class Narrow:
    """A transport that takes messages while it has room for them, and counts what it is asked for."""

    def __init__(self, world: World) -> None:
        self.room = 0
        self.asked: list[int] = []
        self._plain, world.transport.publish = world.transport.publish, self.publish

    async def publish(self, batch: Sequence[OutgoingMessage]) -> list[bool | None]:
        self.asked.append(len(batch))
        taken, self.room = batch[: self.room], self.room - min(self.room, len(batch))
        await self._plain(taken)
        return [True] * len(taken) + [None] * (len(batch) - len(taken))


async def test_what_the_transport_has_no_room_for_is_no_failure_and_one_message_asks_for_all(world: World) -> None:
    failed, confirmed = published(world, "failed"), published(world, "confirmed")
    narrow = Narrow(world)
    for number in range(600):
        await world.send(b"%d" % number)
    narrow.room = 100
    async with publishing(world):
        await world.clock.advance(60)
        assert len(on_transport(world)) == 100
        assert narrow.asked[0] == 256
        assert 10 < len(narrow.asked) < 30
        assert set(narrow.asked[1:]) == {1}
        assert [event.status for event in world.events.of(Stage.PUBLISHED)] == ["confirmed"] * 100
        assert (published(world, "failed"), published(world, "confirmed")) == (failed, confirmed + 100)
        assert waiting(world) == 500
        narrow.room = 600
        await world.clock.advance(6)
        assert on_transport(world) == [b"%d" % number for number in range(600)]
        assert narrow.asked[-3:] == [1, 256, 243]
        assert waiting(world) == 0


async def test_what_moved_at_all_has_the_rest_tried_soon(world: World) -> None:
    narrow = Narrow(world)
    for number in range(600):
        await world.send(b"%d" % number)
    async with publishing(world):
        await world.clock.advance(60)
        assert waiting(world) == 600
        for _ in range(100):
            narrow.room = 3
            await world.clock.advance(0.2)
        assert waiting(world) < 450


async def test_a_store_that_is_away_holds_up_nothing_that_the_transport_takes_and_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.store.down = True
    await world.send(b"later", deliver_at=world.clock.now() + 3600_000)
    async with publishing(world):
        await world.clock.advance(60)
        for number in range(600):
            await world.send(b"%d" % number)
        await world.clock.advance(6)
        assert len(on_transport(world)) == 600
        assert caplog.text.count("wait in the spool for the store") == 1


async def test_a_message_for_later_ahead_in_the_lane_holds_up_none_that_has_room(world: World) -> None:
    narrow = Narrow(world)
    world.store.down = True
    await world.send(b"later", deliver_at=world.clock.now() + 3600_000)
    for body in (b"1", b"2"):
        await world.send(body)
    async with publishing(world):
        await world.clock.advance(60)
        assert waiting(world) == 3
        narrow.room = 9
        await world.clock.advance(6)
        assert on_transport(world) == [b"1", b"2"]
        narrow.room = 0
        await world.send(b"3")
        world.store.down = False
        await world.clock.advance(6)
        assert waiting(world) == 1
        assert await world.store.due(0) == {("orders", ""): 1}


async def test_what_a_broker_does_not_take_goes_straight_to_a_dispatcher(world: World) -> None:
    broker = MemoryTransport(TransportName.KAFKA)
    world.router = TransportRouter([world.transport, broker], world.clock)
    world.registry = Registry(world.store, SecretBox(None))
    world.registry.listen(world.router.apply)
    world.restart()
    await world.destination("paid", "billing", transport=TransportName.KAFKA)
    async with publishing(world):
        broker.refusing = True
        await world.send(b"1", "paid")
        await world.clock.settle()
        world.transport.refusing = True
        await world.send(b"2", "paid")
        await world.clock.settle()
        assert held_by(broker) == []
        assert held_by(world.transport) == [b"1"]
        assert waiting(world, "paid") == 1
        broker.refusing = False
        await world.send(b"3", "paid")
        await world.clock.advance(1)
        assert sorted(held_by(broker)) == [b"2", b"3"]
        assert held_by(world.transport) == [b"1"]
        assert waiting(world, "paid") == 0


def held_by(transport: MemoryTransport) -> list[bytes]:
    return [transport.message(number).body for number in transport.queue(("paid", "billing")).waiting]


async def test_of_a_batch_only_what_was_not_confirmed_comes_again(world: World) -> None:
    plain = world.transport.publish

    async def fickle(batch):
        taken = [item for item in batch if item.message.body != b"no"]
        await plain(taken)
        return [item in taken for item in batch]

    world.transport.publish = fickle
    for body in (b"1", b"no", b"2"):
        await world.send(body)
    async with publishing(world):
        await world.clock.advance(1)
        assert on_transport(world) == [b"1", b"2"]
        assert waiting(world) == 1
        world.transport.publish = plain
        await world.clock.advance(5)
        assert on_transport(world) == [b"1", b"2", b"no"]


async def test_a_transport_that_hangs_holds_up_no_other_destination(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("receiver.publishing._ENDING", 0)
    await world.destination("mails", "outbox")
    plain = world.transport.publish

    async def hangs(batch):
        if batch[0].message.destination == "orders":
            await asyncio.Event().wait()
        return await plain(batch)

    world.transport.publish = hangs
    async with publishing(world):
        await world.send(b"1")
        await world.send(b"2", "mails")
        await world.clock.settle()
        assert on_transport(world, "mails") == [b"2"]


async def test_a_paused_destination_holds_until_it_is_resumed(world: World) -> None:
    await world.destination("orders", paused=True)
    async with publishing(world):
        await world.send(b"1")
        await world.clock.advance(3600)
        assert on_transport(world) == []
        assert waiting(world) == 1
        assert world.clock.sleepers == 0, "nothing looks again and again"
        await world.destination("mails", "billing")
        await world.destination("orders")
        await world.clock.settle()
        assert on_transport(world) == [b"1"]


async def test_a_message_for_later_becomes_a_due_row(world: World) -> None:
    due_at = world.clock.now() + 60_000
    async with publishing(world):
        answer = await world.send(b"later", deliver_at=due_at)
        await world.send(b"past", deliver_at=world.clock.now() - 1)
        await world.clock.settle()
        assert on_transport(world) == [b"past"]
        assert waiting(world) == 0
        (row,) = await world.store.lease(due_at, due_at + 1, {("orders", ""): 9}, 9)
        assert (row.message_id, row.due_at, row.by, row.generation) == (answer.id, due_at, Origin.TRANSPORT, 0)
        assert decode_message(row.message).body == b"later"


async def test_a_message_for_later_stays_in_the_spool_until_the_store_has_it(world: World) -> None:
    async with publishing(world):
        world.store.down = True
        await world.send(b"later", deliver_at=world.clock.now() + 3600_000)
        await world.clock.advance(60)
        assert waiting(world) == 1
        await world.send(b"now")
        await world.clock.advance(6)
        assert on_transport(world) == [b"now"]
        assert waiting(world) == 1
        world.store.down = False
        await world.clock.advance(6)
        assert waiting(world) == 0
        assert await world.store.due(0) == {("orders", ""): 1}


async def test_a_message_for_later_that_became_due_in_the_spool_takes_the_transport(world: World) -> None:
    async with publishing(world):
        world.store.down = True
        await world.send(b"later", deliver_at=world.clock.now() + 30_000)
        await world.clock.advance(60)
        assert on_transport(world) == [b"later"]
        assert waiting(world) == 0


async def test_messages_of_a_removed_destination_leave_the_spool(world: World) -> None:
    await world.destination("bare")
    await world.send(b"1", "bare")
    await world.registry.remove_destination("bare")
    async with publishing(world):
        await world.clock.settle()
        assert waiting(world, "bare") == 0
        assert on_transport(world, "bare") == []


async def test_messages_of_a_destination_that_was_lost_wait_until_it_is_made_again(world: World) -> None:
    await world.destination("bare", "shop")
    await world.send(b"1", "bare")
    known = world.registry.catalog
    await world.registry._enforce(Catalog())
    async with publishing(world):
        await world.clock.advance(10)
        assert waiting(world, "bare") == 1
        assert "bare" in str(world.publisher.trouble)
        await world.registry._enforce(known)
        await world.clock.settle()
        assert on_transport(world, "bare") == [b"1"]
        assert world.publisher.trouble == ""


async def test_with_an_old_configuration_messages_of_an_unknown_destination_wait(world: World) -> None:
    await world.destination("bare", "shop")
    await world.send(b"1", "bare")
    known = world.registry.catalog
    world.old = True
    await world.registry._enforce(Catalog())
    async with publishing(world):
        await world.clock.advance(10)
        assert waiting(world, "bare") == 1
        world.old = False
        await world.registry._enforce(known)
        await world.clock.settle()
        assert on_transport(world, "bare") == [b"1"]


async def test_a_record_of_another_version_stays_in_view_and_holds_up_nothing(world: World) -> None:
    await world.spool.append([NewRecord("orders", b"of another version", 1)])
    await world.send(b"1")
    async with publishing(world):
        await world.clock.settle()
        assert on_transport(world) == [b"1"]
        assert waiting(world) == 1


async def test_stop_leaves_the_rest_in_the_spool(world: World) -> None:
    world.transport.refusing = True
    async with publishing(world):
        await world.send(b"1")
        await world.clock.settle()
    world.transport.refusing = False
    await world.send(b"2")
    assert waiting(world) == 2
    assert on_transport(world) == []


async def test_many_that_nobody_takes_hold_up_no_others_behind_them(world: World) -> None:
    plain = world.transport.publish

    async def without_partition(batch):
        taken = [item for item in batch if item.message.body != b"held"]
        await plain(taken)
        return [item in taken for item in batch]

    world.transport.publish = without_partition
    for _ in range(600):  # more than is claimed at once
        await world.send(b"held")
    for number in range(5):
        await world.send(b"%d" % number)
    async with publishing(world):
        await world.clock.advance(30)
        assert on_transport(world) == [b"0", b"1", b"2", b"3", b"4"]
        assert waiting(world) == 600
        world.transport.publish = plain
        await world.clock.advance(10)
        assert waiting(world) == 0
