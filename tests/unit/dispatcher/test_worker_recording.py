"""A worker's outcomes are durable before its acks, and bounded while the disk is slow, full or failed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bus.domain.delivery.delivery import Outcome, Status
from bus.domain.lanes import unfinished_lane
from bus.domain.message import Message
from bus.domain.tracing.events import Stage
from bus.errors import SpoolFailed, SpoolFull
from bus.ports.spool import NewRecord
from bus.testing.writes import DESTINATION, outcome
from dispatcher.outcomes import OutcomeLog
from tests.unit.dispatcher.dispatcher_world import URL, World, fresh, statuses, subscription


async def test_the_outcome_is_durable_before_the_ack(world: World) -> None:
    async with world.worker():
        world.spool.gate.clear()
        await world.publish(3)
        await world.clock.settle()
        assert len(world.poster.posted) == 3
        assert world.holds() == 3
        assert await world.outcomes() == []
        world.spool.gate.set()
        await world.clock.settle()
        assert statuses(await world.outcomes()) == [Status.DELIVERED] * 3
        assert world.holds() == 0


class AcksFirst(OutcomeLog):
    """Planted: tells the owner before the outcome is on the disk."""

    def record(self, outcome: Outcome, of: Message, owner, token: object, **options: object) -> None:
        owner.recorded([token])
        super().record(outcome, of, _Nobody(), token, **options)


class _Nobody:
    def recorded(self, tokens: Sequence[object]) -> None:
        """Take no notice."""


async def test_an_ack_before_the_outcome_is_caught(world: World) -> None:
    world.log = AcksFirst(world.spool, world.events, world.clock)
    with pytest.raises(AssertionError, match="assert 0 == 3"):
        await test_the_outcome_is_durable_before_the_ack(world)


@pytest.mark.parametrize(("permits", "hurried"), [(1, [1, 1]), (2, [1, 1]), (100, [])])
async def test_outcomes_wait_for_company_unless_requests_wait_for_them(
    world: World, permits: int, hurried: list[int]
) -> None:
    async with world.worker(subscription(max_concurrency=permits)):
        for _ in range(2):
            await world.publish()
            await world.clock.settle()
        assert world.spool.hurried == hurried
        assert len(await world.outcomes()) == 2


@pytest.mark.parametrize(("limit", "least"), [(1, 2), (4, 4)])
async def test_outcomes_that_wait_for_the_disk_are_bounded(world: World, limit: int, least: int) -> None:
    async with world.worker(subscription(max_concurrency=limit)):
        world.spool.gate.clear()
        await world.publish(100)
        await world.clock.settle()
        assert least <= len(world.poster.posted) <= 2 * limit
        world.spool.gate.set()
        await world.clock.until(lambda: world.holds() == 0)


async def test_a_full_disk_stops_posts_until_there_is_room(world: World) -> None:
    async with world.worker(subscription(max_concurrency=4)) as worker:
        world.spool.refuse = lambda: SpoolFull("full")
        await world.publish(50)
        await world.clock.advance(30)
        assert len(world.poster.posted) <= 8
        assert worker.in_flight == 0
        assert world.holds() == 50
        world.spool.refuse = lambda: None
        await world.clock.until(lambda: world.holds() == 0, within=5)
    assert len(world.bodies()) == len(set(world.bodies())) == 50


async def test_a_full_disk_stops_the_posts_of_who_had_nothing_to_record(world: World) -> None:
    async with world.worker():
        world.spool.refuse = lambda: SpoolFull("full")
        await world.publish()
        await world.clock.advance(1)
        async with World.worker(_beside(world), subscription("mail", url="http://127.0.0.1:8001/")) as mail:
            await world.publish(5)
            await world.clock.advance(10)
            assert [posted.url for posted in world.poster.posted] == [URL]
            world.spool.refuse = lambda: None
            await world.clock.until(lambda: world.holds("mail") == 0, within=5)
            assert mail.in_flight == 0


def _beside(world: World) -> World:
    """Return another world that shares the spool, the log and the transport."""
    other = World()
    other.__dict__.update(world.__dict__)
    other.log = world.log
    return other


async def test_outcomes_that_fill_their_share_stop_the_posts_of_their_destination_alone(world: World) -> None:
    world.spool._limit = 10_000
    world.log._share_of = lambda _: 0.2
    async with world.worker(subscription(max_concurrency=1)):
        await world.publish(40)
        await world.clock.advance(5)
        posted = len(world.poster.posted)
        assert 2 <= posted < 30
        assert world.log.has_room
        assert not world.log.has_room_for(DESTINATION)
        assert world.log.has_room_for("other")
        for consumer in ("store", "watch"):
            world.spool.ack(consumer, await world.spool.claim(consumer, 5, DESTINATION))
        await world.clock.advance(5)
        assert posted < len(world.poster.posted) < 40


async def test_unfinished_outcomes_of_an_earlier_life_count_for_their_destination(world: World) -> None:
    world.spool._limit = 10_000
    await world.spool.append([NewRecord(unfinished_lane(DESTINATION, name), bytes(2000), 1) for name in ("a", "b")])
    log = OutcomeLog(world.spool, world.events, world.clock, lambda _: 0.3)
    assert not log.has_room_for(DESTINATION)
    assert log.has_room_for("other")


async def test_with_the_disk_at_its_reserve_a_little_of_each_destination_is_recorded(world: World) -> None:
    log = OutcomeLog(world.spool, world.events, world.clock, lambda _: 0.66)
    for code, size in ((DESTINATION, 2_000_000), ("other", 1000)):
        await world.spool.append([NewRecord(code, bytes(size), 1)])
    assert log.has_room_for(DESTINATION)
    world.spool.full = True
    assert not log.has_room_for(DESTINATION)
    assert log.has_room_for("other")


async def test_a_failed_disk_ends_the_recording(world: World) -> None:
    await world.ensure()
    world.spool.refuse = lambda: SpoolFailed("EIO")
    recording = asyncio.create_task(world.log.run())
    message = fresh(1, world.clock)
    world.log.record(outcome(message, "billing", Status.DELIVERED), message, _Nobody(), 1)
    with pytest.raises(SpoolFailed):
        await recording


async def test_an_owner_that_fails_ends_the_recording(world: World) -> None:
    class Failing:
        def recorded(self, _: Sequence[object]) -> None:
            raise ZeroDivisionError

    await world.ensure()
    recording = asyncio.create_task(world.log.run())
    message = fresh(1, world.clock)
    world.log.record(outcome(message, "billing", Status.DELIVERED), message, Failing(), 1)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(recording, 5)


async def test_drain_waits_for_what_is_being_written(world: World) -> None:
    told: list[object] = []

    class Owner:
        def recorded(self, tokens: Sequence[object]) -> None:
            told.extend(tokens)

    recording = asyncio.create_task(world.log.run())
    world.spool.gate.clear()
    for number in range(3):
        message = fresh(number, world.clock)
        world.log.record(outcome(message, "billing", Status.DELIVERED), message, Owner(), number)
        await world.clock.settle()
    draining = asyncio.create_task(world.log.drain())
    await world.clock.settle()
    assert not draining.done()
    world.spool.gate.set()
    await draining
    assert told == [0, 1, 2]
    recording.cancel()
    await asyncio.gather(recording, return_exceptions=True)


async def test_an_outcome_is_told_once_it_is_durable(world: World) -> None:
    async with world.worker():
        world.spool.gate.clear()
        (sent,) = await world.publish()
        await world.clock.settle()
        assert len(world.poster.posted) == 1
        assert world.events.told == []
        world.spool.gate.set()
        await world.clock.settle()
        (event,) = world.events.of(Stage.SETTLED)
        assert (event.id, event.status, event.subscription, event.code) == (sent.id, "delivered", "billing", 200)
        assert event.bytes == len(sent.body)
