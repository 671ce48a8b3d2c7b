"""The memory of accepted ids: enough to recognize a repetition, and little of each."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.identity import new_id
from bus.domain.times import DAY
from bus.testing.clock import ManualClock
from bus.testing.store import MemoryStore
from bus.testing.writes import message, outcome
from receiver.duplicates import _RECENT, MOST_AHEAD, RecentIds, content_of

CONTENT = content_of("orders", b"{}")
MOST_BYTES = 200  # of one id


def accepted(recent: RecentIds, count: int, first: int = 0) -> list[str]:
    """Have so many ids accepted, one each millisecond."""
    loop = asyncio.get_running_loop()
    ids = [new_id(first + number) for number in range(count)]
    for one in ids:
        recent.begin(one, CONTENT, loop.create_future())
        recent.finish(one)
    return ids


async def test_the_later_half_is_known_and_the_store_is_asked_for_the_others() -> None:
    clock = ManualClock(0)
    recent = RecentIds(MemoryStore(), clock)
    clock.jump(4 * _RECENT)
    ids = accepted(recent, 3 * _RECENT)
    assert all(recent.knows(one) for one in ids[-_RECENT // 2 :])
    assert sum(map(recent.knows, ids)) <= _RECENT
    assert all(recent.knows(one) or recent.is_doubtful(one) for one in ids)
    assert not recent.is_doubtful(new_id(4 * _RECENT))


async def test_what_is_on_its_way_is_not_forgotten() -> None:
    recent, stored = RecentIds(MemoryStore(), ManualClock(0)), asyncio.get_running_loop().create_future()
    slow = new_id(1)
    recent.begin(slow, CONTENT, stored)
    accepted(recent, 2 * _RECENT, first=2)
    assert recent.in_flight(slow) is stored
    recent.finish(slow)
    assert recent.in_flight(slow) is None
    assert recent.knows(slow)


async def test_an_id_that_could_not_be_stored_is_taken_back() -> None:
    recent = RecentIds(MemoryStore(), ManualClock(0))
    recent.begin(one := new_id(1), CONTENT, asyncio.get_running_loop().create_future())
    recent.forget(one)
    assert not recent.knows(one)
    assert recent.in_flight(one) is None


@pytest.mark.parametrize("is_strict", [False, True])
async def test_an_outcome_alone_says_of_no_message_with_a_strict_order_that_it_was_accepted(*, is_strict: bool) -> None:
    store, clock = MemoryStore(), ManualClock(0)
    sent = message(1)
    await store.write([outcome(sent, "billing", Status.DELIVERED)])
    recent = RecentIds(store, clock)
    await recent.recall({sent.id: is_strict})
    assert recent.knows(sent.id) is not is_strict
    await store.write([sent])
    await recent.recall({sent.id: is_strict})
    assert recent.knows(sent.id)


async def test_an_id_takes_few_bytes() -> None:
    recent = RecentIds(MemoryStore(), ManualClock(0))
    tracemalloc.start()
    try:
        accepted(recent, _RECENT // 4)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / (_RECENT // 4) < MOST_BYTES


async def test_ids_of_a_clock_that_was_ahead_are_asked_for_and_those_that_come_after_it_are_not() -> None:
    clock = ManualClock(DAY)
    recent = RecentIds(MemoryStore(), clock)
    clock.jump(3 * _RECENT)
    ids = accepted(recent, 3 * _RECENT, first=DAY)
    clock.jump(-DAY)
    assert all(recent.knows(one) or recent.is_doubtful(one) for one in ids)
    await clock.advance(MOST_AHEAD / 1000)
    assert not recent.is_doubtful(new_id(clock.now()))
    assert recent.is_doubtful(new_id(clock.now() - 1))


async def test_ids_of_an_earlier_life_are_asked_for_after_the_clock_was_put_back_for_a_moment() -> None:
    clock = ManualClock(DAY)
    recent = RecentIds(MemoryStore(), clock)
    earlier = new_id(DAY - 1)
    clock.jump(-DAY // 2)
    assert recent.is_doubtful(earlier)
    clock.jump(DAY // 2)
    assert recent.is_doubtful(earlier)


async def test_the_store_is_not_asked_for_everybody_because_one_producer_is_ahead() -> None:
    clock = ManualClock(DAY)
    recent = RecentIds(MemoryStore(), clock)
    ahead = accepted(recent, 10, first=DAY + MOST_AHEAD - 20)
    for _ in range(4):
        accepted(recent, _RECENT // 2, first=clock.now())
        clock.jump(_RECENT // 2)
    assert not recent.is_doubtful(new_id(clock.now()))
    assert all(recent.knows(one) for one in ahead)


async def test_ids_that_are_nearly_all_ahead_are_forgotten_and_asked_for() -> None:
    clock = ManualClock(DAY)
    recent = RecentIds(MemoryStore(), clock)
    ids = accepted(recent, 2 * _RECENT, first=DAY + MOST_AHEAD - 2 * _RECENT)
    assert sum(map(recent.knows, ids)) <= _RECENT
    assert all(recent.knows(one) or recent.is_doubtful(one) for one in ids)
