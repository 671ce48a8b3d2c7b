"""Processes of one port that share the slots of a subscription."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from bus.cluster.concurrency_slots import SharedSlots, SlotFiles, SubscriptionSlots
from bus.testing.clock import ManualClock

NAME = "orders/billing"


class Processes:
    """Three processes, what each was told, and the slots of one subscription in each."""

    def __init__(self, opened: ExitStack) -> None:
        self.clock = ManualClock()
        self.files = SlotFiles()
        opened.callback(self.files.close)
        self.channels = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(3)]
        for one in (end for channel in self.channels for end in channel):
            one.setblocking(False)
            opened.enter_context(one)
        self.pools = [self.open(number) for number in range(3)]
        self.freed: list[int] = []
        self.spent: list[tuple[int, int]] = []
        self.slots = [self.join(number) for number in range(3)]

    def open(self, number: int) -> SharedSlots:
        wakeups = [ends[0 if to == number else 1] for to, ends in enumerate(self.channels)]
        return SharedSlots(self.files.open(), number, wakeups, self.clock)

    def join(self, number: int, name: str = NAME) -> SubscriptionSlots:
        def spent(count: int) -> None:
            self.spent.append((number, count))

        return self.pools[number].join(name, lambda: self.freed.append(number), spent)

    def read(self) -> list[int]:
        """Have all read, and return which of them have heard of a free slot."""
        self.freed.clear()
        for pool in self.pools:
            pool.read()
        return self.freed


@pytest.fixture
def processes() -> Iterator[Processes]:
    with ExitStack() as opened:
        found = Processes(opened)
        yield found
        for pool in found.pools:
            pool.close()


def takes(slots: SubscriptionSlots, limit: int) -> int:
    """Take as many as there are, and return how many these were."""
    count = 0
    while not slots.take(limit):
        count += 1
    return count


def test_one_process_may_have_all_slots_and_another_those_that_are_left(processes: Processes) -> None:
    a, b, c = processes.slots
    assert [a.take(5) for _ in range(3)] == [0.0] * 3
    assert takes(b, 5) == 2
    assert takes(c, 5) == 0
    assert processes.join(2, "orders/other").take(1) == 0.0


async def test_a_slot_given_back_goes_to_the_process_that_waits_and_no_clock_has_to_move(processes: Processes) -> None:
    a, b, _ = processes.slots
    assert takes(a, 1) == 1
    assert takes(b, 1) == 0
    assert b.is_waiting
    a.give_back()
    assert a.take(1) > 0, "the other one goes first"
    assert processes.read() == [1]
    assert b.take(1) == 0.0
    assert not b.is_waiting
    await processes.clock.advance(0.002)
    assert a.take(1) > 0


async def test_a_process_that_stands_still_holds_another_up_for_a_moment_only(processes: Processes) -> None:
    a, b, _ = processes.slots
    assert takes(a, 1) == 1
    assert takes(b, 1) == 0
    for _ in range(5):
        a.give_back()
        wait = a.take(1)
        assert 0 < wait < 0.01
        await processes.clock.advance(wait)
        assert a.take(1) == 0.0


async def test_a_process_with_work_goes_on_for_some_turns_of_its_loop_and_then_the_other_has_its_turn(
    processes: Processes,
) -> None:
    a, b, _ = processes.slots
    turn: list[Callable[[], None]] = []
    processes.pools[0].defer = turn.append
    assert takes(a, 1) == 1
    assert takes(b, 1) == 0
    for _ in range(2):
        a.give_back()
        assert a.take(1) == 0.0
        turn.pop()()
        await processes.clock.advance(0.0015)
        assert processes.read() == []
    a.give_back()
    assert a.take(1) > 0
    assert b.take(1) > 0, "not before the turn has ended"
    turn.pop()()
    assert processes.read() == [1]
    assert takes(b, 1) == 1


def test_what_is_given_back_beyond_a_smaller_limit_is_not_taken_again(processes: Processes) -> None:
    a, b, _ = processes.slots
    turn: list[Callable[[], None]] = []
    processes.pools[0].defer = turn.append
    assert takes(a, 2) == 2
    for _ in range(2):
        a.give_back()
    assert a.exceeds(1)
    assert a.take(1) > 0
    turn.pop()()
    assert not a.exceeds(0)
    assert (takes(b, 1), takes(a, 1)) == (1, 0)


def test_processes_that_wait_are_woken_in_turn(processes: Processes) -> None:
    a, b, c = processes.slots
    assert (takes(a, 1), takes(b, 1), takes(c, 1)) == (1, 0, 0)
    turns = []
    for _ in range(4):
        holder = next(slots for slots in (a, b, c) if slots.exceeds(0))
        holder.give_back()
        takes(holder, 1)
        (woken,) = processes.read()
        assert takes(processes.slots[woken], 1) == 1
        turns.append(woken)
        for slots in (a, b, c):
            slots._look_at = 0
            takes(slots, 1)
    assert turns == [1, 2, 0, 1]


async def test_what_a_process_that_died_held_is_found_without_its_word(processes: Processes) -> None:
    a, b, _ = processes.slots
    assert takes(a, 2) == 2
    assert takes(b, 2) == 0
    processes.pools.pop(0).close()
    assert processes.read() == []
    await processes.clock.advance(0.5)
    assert takes(b, 2) == 2


async def test_what_a_process_that_died_held_is_taken_while_a_copy_of_its_files_is_kept(processes: Processes) -> None:
    copies = [os.dup(file) for file in processes.pools[0]._files]
    a, b, c = processes.slots
    assert (takes(a, 2), takes(b, 2), takes(a, 2)) == (2, 0, 0)
    processes.pools.pop(0).close()
    await processes.clock.advance(0.5)
    assert takes(b, 2) == 0
    b.close()
    assert takes(c, 2) == 0
    for copy in copies:
        os.close(copy)
    await processes.clock.advance(0.5)
    assert takes(c, 2) == 2


def test_the_slot_that_was_taken_first_goes_back_first_so_that_a_smaller_limit_is_kept_soon(
    processes: Processes,
) -> None:
    a = processes.slots[0]
    assert takes(a, 3) == 3
    assert a.exceeds(2)
    a.give_back()
    assert takes(a, 2) == 1
    a.give_back()
    a.give_back()
    assert not a.exceeds(2)


def test_one_that_leaves_waits_no_more_and_keeps_its_slots_until_its_requests_have_ended(processes: Processes) -> None:
    a, b, c = processes.slots
    assert (takes(a, 1), takes(b, 1), takes(c, 1)) == (1, 0, 0)
    b.close()
    a.close()
    assert takes(c, 1) == 0
    a.give_back()
    assert processes.read() == [2]
    assert takes(c, 1) == 1


def test_messages_of_the_rate_are_reported_to_the_others(processes: Processes) -> None:
    processes.slots[1].spend(3)
    assert processes.read() == []
    assert processes.spent == [(0, 3), (2, 3)]
    processes.slots[0].close()
    processes.slots[1].spend(1)
    processes.read()
    assert processes.spent[2:] == [(2, 1)]


def test_parts_add_up(processes: Processes) -> None:
    for share in range(9):
        assert sum(pool.part(share) for pool in processes.pools) == share


async def test_a_process_listens_until_it_is_closed(processes: Processes) -> None:
    a, b, _ = processes.slots
    processes.pools[1].start()
    assert (takes(a, 1), takes(b, 1)) == (1, 0)
    a.give_back()
    async with asyncio.timeout(10):
        while not processes.freed:  # noqa: ASYNC110 - what is waited for is a socket
            await asyncio.sleep(0)
    assert processes.freed == [1]
