"""Every accepted message ends delivered or dead for everybody it was for, whatever fails, restarts or is resent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bus.domain.delivery.delivery import RANK, Status
from bus.ports.poster import PostFailure
from bus.testing.poster import Reply
from tests.stateful.delivery_world import ATTEMPTS, CODE, GOOD, PERMITS, SOME, Poster, World, url

NAMES = st.sampled_from(sorted(PERMITS))
ANSWERS = st.lists(
    st.sampled_from(
        [GOOD, GOOD, SOME, Reply(500), Reply(302), Reply(503, (("retry-after", "3"),))]
        + [Reply(failure=kind) for kind in (PostFailure.REFUSED, PostFailure.RESET, PostFailure.TIMEOUT)]
    ),
    min_size=1,
    max_size=8,
)
END = 900.0


class DeliveryMachine(RuleBasedStateMachine):
    """Does to the bus what the world does to it."""

    make_world = World

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.seen: dict[tuple[str, str], tuple[int, int]] = {}

    def run(self, work: Awaitable[Any]) -> None:
        async def settled() -> None:
            await work
            await self.world.clock.settle()

        self.runner.run(settled())

    @initialize(seed=st.integers(0, 99))
    def begin(self, seed: int) -> None:
        self.world = self.make_world(seed=seed)
        self.run(self.world.begin())
        self.run(self.world.configure())

    @rule(count=st.integers(1, 6))
    def accept(self, count: int) -> None:
        for _ in range(count):
            self.run(self.world.accept())

    @rule(delay=st.integers(1, 10_000))
    def accept_for_later(self, delay: int) -> None:
        self.run(self.world.accept(delay))

    @rule(name=NAMES, answers=ANSWERS)
    def answer(self, name: str, answers: list[Reply]) -> None:
        self.world.poster.script(url(name), *answers)

    @rule(seconds=st.floats(0.01, 30))
    def wait(self, seconds: float) -> None:
        self.run(self.world.clock.advance(seconds))

    @rule(count=st.integers(0, 4), turns=st.integers(0, 40), seconds=st.sampled_from([0.0, 1.0, 1.5]))
    def crash(self, count: int, turns: int, seconds: float) -> None:
        """Kill the process in the middle of work."""

        async def work() -> None:
            world = self.world
            await world.clock.advance(seconds)
            for _ in range(count):
                await world.accept()
            for _ in range(turns):
                await asyncio.sleep(0)
            await world.kill()
            await world.begin()

        self.run(work())

    @rule(name=NAMES, pick=st.integers(0, 99))
    def resend(self, name: str, pick: int) -> None:
        if self.world.accepted and not self.world.store.down:
            ids = list(self.world.accepted)
            self.run(self.world.resend(ids[pick % len(ids)], name))

    @rule(name=NAMES)
    def lose(self, name: str) -> None:
        """The transport loses what waits for a subscription."""
        self.world.transport.lose(CODE, name)

    @rule(is_refusing=st.booleans())
    def refuse(self, is_refusing: bool) -> None:
        self.world.transport.refusing = is_refusing

    @rule(name=NAMES, is_paused=st.booleans())
    def pause(self, name: str, is_paused: bool) -> None:
        self.run(self.world.subscribe(name, paused=is_paused))

    @rule()
    def lose_the_store(self) -> None:
        self.world.store.down = True
        self.world.outages += 1

    @rule()
    def find_the_store(self) -> None:
        self.world.store.down = False

    @invariant()
    def nothing_died(self) -> None:
        for task in self._tasks():
            assert not task.done(), task

    @invariant()
    def permits_are_kept(self) -> None:
        for name, permits in PERMITS.items():
            assert self._poster().most[name] <= permits

    @invariant()
    def bodies_are_as_they_were_sent(self) -> None:
        for message_id, body in self._poster().bodies.items():
            if message_id in self.world.accepted:
                assert body == self.world.accepted[message_id][0]

    @invariant()
    def no_state_is_undone(self) -> None:
        for message_id, trace in self.world.store._traces.items():
            for name, delivery in trace.deliveries.items():
                known = self.seen.get((message_id, name), (0, 0))
                now = (delivery.generation, RANK[delivery.status])
                assert now >= known, (message_id, name, known, now)
                self.seen[message_id, name] = now

    @invariant()
    def nothing_is_delivered_twice_without_a_reason(self) -> None:
        if self.world.crashes or self.world.outages:
            return
        for key, count in self._poster().delivered.items():
            assert count <= 1 + self.world.resends[key], key

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self.runner.run(self._end())
        finally:
            self.runner.close()

    async def _end(self) -> None:
        """Let all be well, and see what becomes of it."""
        world = self.world
        world.store.down = world.transport.refusing = False
        for name in PERMITS:
            world.poster.script(url(name), GOOD)
            await world.subscribe(name)
        try:
            with contextlib.suppress(AssertionError):
                await world.clock.until(world.is_at_rest, within=END)
            assert world.unfinished() == [], world.unfinished()
            assert world.store._rows == {}
            assert world.is_at_rest()
            self._check_ends()
            for check in (self.nothing_died, self.permits_are_kept, self.no_state_is_undone):
                check()
            self.bodies_are_as_they_were_sent()
            self.nothing_is_delivered_twice_without_a_reason()
        finally:
            await world.kill()

    def _check_ends(self) -> None:
        """What is delivered was answered with success; what is dead had all its attempts."""
        world = self.world
        for message_id, (_, expected) in world.accepted.items():
            for name in expected:
                delivery = world.store._traces[message_id].deliveries[name]
                if delivery.status is Status.DELIVERED:
                    assert world.poster.delivered[message_id, name]
                else:
                    assert delivery.status is Status.DEAD
                    assert delivery.attempts_made >= ATTEMPTS

    def _poster(self) -> Poster:
        return self.world.poster

    def _tasks(self) -> list[asyncio.Task[None]]:
        return self.world.life.tasks


SETTINGS = settings(suppress_health_check=list(HealthCheck))

TestDelivery = DeliveryMachine.TestCase

TestDelivery.settings = SETTINGS
