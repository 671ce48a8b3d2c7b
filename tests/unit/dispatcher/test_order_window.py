"""Keys that are held up leave memory and the window to the others, however many they are and whatever comes."""

from __future__ import annotations

import asyncio
import string
from typing import Any

import pytest
from msgspec.structs import replace

from bus.domain.delivery.delivery import Delivery
from bus.domain.delivery.retry import RetryPolicy, Schedule
from bus.domain.delivery.verdict import behind
from bus.domain.destination import Ordering
from bus.testing.writes import DESTINATION
from dispatcher.worker import SubscriptionWorker
from tests.unit.dispatcher.dispatcher_world import World, fresh
from tests.unit.dispatcher.test_worker_in_order import SLOW, Scripted, bodies, decide, of, policy, publish

KEYS = string.ascii_lowercase
EACH = 70


def holds(worker: SubscriptionWorker) -> int:
    return len(worker._pending)


async def poisoned(world: World, retry: RetryPolicy) -> None:
    """Leave keys that are held up by their first message, with more rows behind each than are read at once."""
    Scripted(world, *[f"{key}1" for key in KEYS for _ in range(9)])
    async with world.worker(of(retry=retry), Ordering.KEY):
        await publish(world, *(f"{key}{n}" for key in KEYS for n in range(1, EACH)))
        await world.clock.advance(5)
    await world.feed()


async def test_what_fails_again_takes_nothing_of_the_window(world: World) -> None:
    await poisoned(world, SLOW)
    async with world.worker(of(retry=SLOW), Ordering.KEY) as worker:
        await world.clock.advance(70)
        await world.feed()
        await world.clock.advance(5)
        assert bodies(world).count("a1") == 2
        assert holds(worker) == 0
        assert worker._pending.body_bytes == 0


async def test_keys_that_wait_for_a_person_are_not_in_memory_after_a_restart(world: World) -> None:
    await poisoned(world, policy(1))
    async with world.worker(of(retry=policy(1)), Ordering.KEY) as worker:
        peak, hold = 0, worker._pending.hold

        def count(entry) -> None:
            nonlocal peak
            hold(entry)
            peak = max(peak, holds(worker))

        worker._pending.hold = count  # type: ignore[method-assign]
        await world.clock.advance(5)
        await publish(world, "A1", "A2")
        await world.clock.settle()
        assert bodies(world)[-2:] == ["A1", "A2"]
        assert peak <= len(KEYS)
        assert holds(worker) == 0


async def test_rows_of_many_keys_are_read_as_there_is_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    most, place = 1000, 0
    monkeypatch.setattr("dispatcher.batching.MOST_HELD", most)
    names = [chr(0x4E00 + n) for n in range(most // 32)]
    for name in names:
        for n in range(1, EACH):
            place += 1
            of_key = Delivery(fresh(place, world.clock, key=name, body=f"{name}{n}".encode()), "billing")
            row = behind(replace(of_key, order_key=name, place=place), of(), world.clock.now())
            await world.store.write([row])
    async with world.worker(of(paused=True), Ordering.KEY) as worker:
        await world.clock.advance(70)
        assert most // 2 < holds(worker) <= most
        await publish(world, *(f"{name}{EACH}" for name in names))
        worker.update(of(max_concurrency=64))
        await world.clock.advance(200)
        for name in names:
            assert bodies(world, name) == [f"{name}{n}" for n in range(1, EACH + 1)]
        assert world.holds() == 0


async def test_what_was_resent_under_way_is_not_forgotten_behind_one_that_is_held_up(world: World) -> None:
    script = Scripted(world, "a1", "a3", "a3")
    soon = RetryPolicy(Schedule((1000, 5000)), 3_600_000, None)
    async with world.worker(of(retry=soon), Ordering.KEY) as worker:
        first, *_ = await publish(world, "a1", "a2")
        await world.store.write([first])
        await world.clock.settle()
        await world.feed()
        await world.clock.advance(0.5)
        script.hold = reply = asyncio.Event()
        await world.clock.advance(0.6)  # its second attempt is under way
        await decide(world, first, is_resent=True)
        await publish(world, "a3", "a4")
        reply.set()
        await world.clock.advance(0.1)
        await world.feed()
        await world.clock.advance(0.8)
        worker.update(of(retry=SLOW))
        await world.clock.advance(5)
        await world.feed()
        await world.clock.advance(70)
        await world.feed()
        await world.clock.advance(70)
        assert bodies(world).count("a1") == 3
        await world.feed()
        assert await world.store.ordered_keys(DESTINATION, "billing") == []


async def test_a_clock_that_is_put_back_makes_no_key_wait_for_longer(world: World) -> None:
    Scripted(world, "a1")
    async with world.worker(of(retry=SLOW), Ordering.KEY):
        await publish(world, "a1", "a2")
        await world.clock.advance(1)
    await world.feed()
    world.clock.jump(-86_400_000)
    async with world.worker(of(retry=SLOW), Ordering.KEY):
        await world.clock.advance(65)
        assert bodies(world) == ["a1", "a1", "a2"]


async def test_many_that_failed_and_were_delivered_hold_up_no_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each the row is looked for once it has ended, in case a person has resent it meanwhile."""
    monkeypatch.setattr("dispatcher.ordering.in_order._LOOKED_BACK", 4)
    names = [chr(0x4E00 + n) for n in range(40)]
    Scripted(world, *[f"{name}1" for name in names])
    async with world.worker(of(max_concurrency=64), Ordering.KEY) as worker:
        for name in names:
            await publish(world, *(f"{key}1" for key in (name, "a", "b", "c", "d", "e", "f")))
            await world.clock.settle()
        await world.feed()
        await world.clock.advance(3)
        assert worker._in_order is not None
        assert len(worker._in_order._ended) == len(names)
        await world.feed()
        read, asked = world.store.ordered_rows, 0

        async def counted(*given: Any, **named: Any) -> Any:
            nonlocal asked
            asked += 1
            return await read(*given, **named)

        monkeypatch.setattr(world.store, "ordered_rows", counted)
        await world.clock.advance(1.2)
        assert asked == len(names)
        assert not worker._in_order._ended


async def test_what_is_held_up_for_long_leaves_no_body_in_memory(world: World) -> None:
    await poisoned(world, policy(1))
    async with world.worker(of(retry=policy(1)), Ordering.KEY) as worker:
        await world.clock.advance(3)
        assert worker._in_order is not None
        held = worker._in_order._order.held(99)
        assert len(held) == len(KEYS)
        assert {one.by.delivery.message.body for one in held} == {b""}


async def test_a_decision_does_not_wait_for_the_rows_of_all_other_keys(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.ordering.in_order._READ", 4)
    await poisoned(world, policy(1))
    calls: list[str] = []
    read, look = world.store.ordered_rows, world.store.trace

    async def reading(*given: Any, **named: Any) -> Any:
        calls.append("rows")
        return await read(*given, **named)

    async def looking(message_id: str) -> Any:
        calls.append("trace")
        return await look(message_id)

    monkeypatch.setattr(world.store, "ordered_rows", reading)
    monkeypatch.setattr(world.store, "trace", looking)
    async with world.worker(of(retry=policy(1)), Ordering.KEY):
        await world.clock.settle()
        assert calls.count("rows") == len(KEYS)
        assert calls.index("trace") == 4
