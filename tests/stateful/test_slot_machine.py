"""Slots shared by processes that die, stand still, and learn of other limits at any time: never too many, none idle."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bus.cluster.concurrency_slots import SharedSlots, SlotFiles
from bus.testing.clock import ManualClock

NAME = "orders/billing"
MOST = 5


class MovedClock(ManualClock):
    """A clock that is moved outside of a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.elapsed = 0.0

    def monotonic(self) -> float:
        return self.elapsed


class Process:
    """One process: how many messages wait in it, and how many requests it has in flight."""

    def __init__(self, files: list[int], number: int, wakeups: Sequence[socket.socket], clock: MovedClock) -> None:
        self.pool = SharedSlots(files, number, wakeups, clock)
        self.turn: list[Callable[[], None]] = []
        self.pool.defer = self.turn.append
        self.slots = self.pool.join(NAME, self.go_on, self.spend)
        self.limit = MOST
        self.waiting = self.in_flight = self.spent = 0

    def go_on(self) -> None:
        """Start what may start, as a worker does."""
        while self.waiting and self.in_flight < self.limit and not self.slots.take(self.limit):
            self.waiting -= 1
            self.in_flight += 1

    def spend(self, count: int) -> None:
        self.spent += count

    def end_turn(self) -> None:
        """Do what waits for the end of a turn of the loop."""
        while self.turn:
            self.turn.pop()()

    def die(self) -> None:
        """End as by a kill: nothing but the kernel gives anything back."""
        self.pool.close()


class SlotMachine(RuleBasedStateMachine):
    @initialize(count=st.integers(2, 4))
    def start(self, count: int) -> None:
        self.files = SlotFiles()
        self.clock = MovedClock()
        self.channels = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count)]
        for one in (end for channel in self.channels for end in channel):
            one.setblocking(False)
        self.processes = [self._born(number) for number in range(count)]
        self.frozen: set[int] = set()

    def _born(self, number: int) -> Process:
        wakeups = [ends[0 if to == number else 1] for to, ends in enumerate(self.channels)]
        return Process(self.files.open(), number, wakeups, self.clock)

    def teardown(self) -> None:
        if not hasattr(self, "processes"):
            return
        try:
            self.calm_down()
        finally:
            for process in self.processes:
                process.pool.close()
            for one in (end for channel in self.channels for end in channel):
                one.close()
            self.files.close()

    def _runs(self, number: int) -> Process | None:
        process = self.processes[number % len(self.processes)]
        return None if process.pool.number in self.frozen else process

    @rule(number=st.integers(0, 3), count=st.integers(1, 4))
    def accept(self, number: int, count: int) -> None:
        if process := self._runs(number):
            process.waiting += count
            process.go_on()

    @rule(number=st.integers(0, 3))
    def answer(self, number: int) -> None:
        process = self._runs(number)
        if process and process.in_flight:
            process.in_flight -= 1
            process.slots.give_back()
            process.go_on()

    @rule(number=st.integers(0, 3))
    def end_turn(self, number: int) -> None:
        if process := self._runs(number):
            process.end_turn()

    @rule(number=st.integers(0, 3))
    def read(self, number: int) -> None:
        if process := self._runs(number):
            process.end_turn()
            process.pool.read()

    @rule(seconds=st.sampled_from([0.0005, 0.002, 0.6]))
    def wait(self, seconds: float) -> None:
        self.clock.elapsed += seconds

    @rule(number=st.integers(0, 3), limit=st.integers(1, MOST))
    def learn(self, number: int, limit: int) -> None:
        if process := self._runs(number):
            process.limit = limit
            process.go_on()

    @rule(number=st.integers(0, 3))
    def kill(self, number: int) -> None:
        number %= len(self.processes)
        self.processes[number].die()
        self.frozen.discard(number)
        self.processes[number] = self._born(number)

    @rule(number=st.integers(0, 3))
    def stop(self, number: int) -> None:
        self.frozen.add(number % len(self.processes))

    @rule(number=st.integers(0, 3))
    def go_on(self, number: int) -> None:
        self.frozen.discard(number % len(self.processes))

    @rule()
    def calm_down(self) -> None:
        """Let the living read and look; then no slot is free that one of them waits for."""
        limit = min(process.limit for process in self.processes)
        for process in self.processes:
            process.limit = limit
        for _ in range(3 * len(self.processes)):
            self.clock.elapsed += 0.6
            for number in range(len(self.processes)):
                if process := self._runs(number):
                    process.end_turn()
                    process.pool.read()
                    process.go_on()
        # What is over a smaller limit takes none of the slots below it.
        used = sum(process.in_flight for process in self.processes)
        waits = any(process.waiting for process in self.processes if process.pool.number not in self.frozen)
        assert not waits or used >= limit

    @invariant()
    def no_more_are_in_flight_than_the_largest_limit(self) -> None:
        if hasattr(self, "processes"):
            assert sum(process.in_flight for process in self.processes) <= MOST
            for limit in range(1, MOST + 1):
                if not any(process.slots.exceeds(limit) for process in self.processes):
                    assert sum(process.in_flight for process in self.processes) <= limit


TestSlots = SlotMachine.TestCase
TestSlots.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
