"""Whatever happens to dispatchers and to the store: never more requests in flight than a subscription allows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.unit.cluster.cluster_world import TOTALS, Process, World

OWNERS = ("a", "b", "c", "d")
TICK = 0.1
SECONDS = 150
CALM = 20
# Permits go round every ten seconds, and a request of twelve keeps one from going on: a single one is rarely owned.
RECOVERS_WITHIN = 100


class Worker:
    """Makes as many requests as a process may, some of them long."""

    def __init__(self, process: Process, dice: random.Random) -> None:
        self.process = process
        self.dice = dice
        self.open: list[tuple[float, str, object]] = []
        process.beyond = ()

    def in_flight(self, name: str) -> int:
        return sum(found == name for _, found, _ in self.open)

    def counted(self, name: str) -> int:
        """Return requests in flight, without those that were begun before the process stood still or died."""
        return sum(found == name and life is self.process.members for _, found, life in self.open)

    def stood_still(self) -> None:
        self.open = [(until, name, None) for until, name, _ in self.open]

    def died(self) -> None:
        self.open = []

    def tick(self, now: float) -> None:
        if not self.process.is_up:
            return
        self.open = [item for item in self.open if item[0] > now]
        for name in TOTALS:
            while self.in_flight(name) < self.process.share(name):
                self.open.append((now + self.dice.choice([0.05, 0.3, 1, 12]), name, self.process.members))
        shares = {name: self.process.members.shares.of(name, total) for name, total in TOTALS.items()}
        self.process.beyond = frozenset(name for name in TOTALS if self.in_flight(name) > shares[name])


class Fate:
    """Does something bad to somebody every now and then, and puts it right some time later."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self.world = world
        self.dice = dice
        self.workers = {owner: Worker(process, dice) for owner, process in world.processes.items()}
        self.busy: set[str] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.seen: set[str] = set()
        self.calm_until = 0.0

    def strike(self) -> None:
        owner = self.dice.choice(OWNERS)
        if owner in self.busy or self.world.clock.monotonic() < self.calm_until:
            return
        process = self.world.processes[owner]
        if not process.is_running:
            process.start()
            return
        bad: Callable[[Process, Worker], Coroutine[Any, Any, None]] = self.dice.choice(
            [self.pause, self.kill, self.leave, self.cut_off, self.outage, self.slow, self.wipe]
        )
        self.seen.add(bad.__name__)
        self.busy.add(owner)
        task = asyncio.create_task(self._do(bad, owner))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _do(self, bad: Callable[[Process, Worker], Coroutine[Any, Any, None]], owner: str) -> None:
        try:
            await bad(self.world.processes[owner], self.workers[owner])
        finally:
            self.busy.discard(owner)

    async def pause(self, process: Process, worker: Worker) -> None:
        process.stop()
        worker.stood_still()
        await self.sleep(0.2, 1.2, 5, 9, 20)
        process.go_on()

    async def kill(self, process: Process, worker: Worker) -> None:
        await process.kill()
        worker.died()
        await self.sleep(0.1, 1, 4, 6.5, 12)
        process.start()
        await self.sleep(3)

    async def leave(self, process: Process, worker: Worker) -> None:
        await process.leave()
        worker.died()
        await self.sleep(0.1, 2, 9)
        process.start()
        await self.sleep(3)

    async def cut_off(self, process: Process, _: Worker) -> None:
        """Away from the store, not from the others."""
        process.reach.down = True
        await self.sleep(0.5, 4, 15)
        process.reach.down = False

    async def outage(self, _process: Process, _: Worker) -> None:
        """Take the store away from everybody; a start meanwhile would take the share it had last, so there is none."""
        if not self.is_quiet():
            return
        self.calm_until = float("inf")
        for process in self.world.processes.values():
            process.reach.down = True
        await self.sleep(0.5, 4, 15)
        for process in self.world.processes.values():
            process.reach.down = False
        self.calm_until = self.world.clock.monotonic()

    async def slow(self, process: Process, _: Worker) -> None:
        """A store that is late, and now and then does not say that it wrote."""
        process.reach.delay = lambda: self.dice.choice([0, 0.1, 0.7, 2])
        process.reach.loses_answer = lambda: self.dice.random() < 0.2
        await self.sleep(5, 15)
        process.reach.delay = lambda: 0.0
        process.reach.loses_answer = lambda: False

    async def wipe(self, _process: Process, _: Worker) -> None:
        """Delete the store's data; who starts within seconds could not know of the others, so nobody does."""
        if not self.is_quiet():
            return
        self.calm_until = self.world.clock.monotonic() + 12
        await self.world.wipe()

    def is_quiet(self) -> bool:
        return len(self.busy) == 1 and all(process.is_up for process in self.world.processes.values())

    async def sleep(self, *seconds: float) -> None:
        await self.world.clock.sleep(self.dice.choice(seconds))


async def tick(world: World, fate: Fate) -> None:
    """Let some time pass, and look at what is in flight."""
    await world.clock.advance(TICK)
    for worker in fate.workers.values():
        worker.tick(world.clock.monotonic())
    for name, total in TOTALS.items():
        in_flight = sum(worker.counted(name) for worker in fate.workers.values())
        assert in_flight <= total, (name, world.clock.monotonic())


async def recovers(world: World, fate: Fate) -> bool:
    """Let nothing bad happen any more; whether all permits are somebody's after a while."""
    while fate.tasks:
        await tick(world, fate)
    for process in world.processes.values():
        if not process.is_running:
            process.start()
    for _ in range(round(CALM / TICK)):
        await tick(world, fate)
    for _ in range(round(RECOVERS_WITHIN / TICK)):
        if world.is_whole():
            return True
        await tick(world, fate)
    return False


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.proof) for seed in range(8, 100))])
async def test_no_interleaving_has_more_in_flight_than_there_are_permits(seed: int) -> None:
    dice = random.Random(seed)
    world = World()
    for owner in OWNERS:
        world.add(owner)
    fate = Fate(world, dice)
    for _ in range(round(SECONDS / TICK)):
        if dice.random() < TICK / 3:
            fate.strike()
        await tick(world, fate)
    assert await recovers(world, fate)
    assert len(fate.seen) >= 4
    await world.close()
