"""Whatever happens to dispatchers and to the store: never more requests in flight than a subscription allows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import pytest

from tests.unit.cluster.cluster_world import TOTALS, Process, World

OWNERS = ("a", "b", "c", "d")
# By owner: none, two pairs on a machine each, two beside two that are alone, and all on one machine.
GROUPS: tuple[dict[str, str], ...] = (
    {},
    {"a": "a", "b": "a", "c": "c", "d": "c"},
    {"b": "b", "d": "b"},
    dict.fromkeys(OWNERS, "a"),
)
TICK = 0.1
SECONDS = 150
CALM = 20
FOLLOWS = 0.3
"""How likely it is in a tick that workers follow the shares of now."""
# Permits go round every ten seconds, and a request of twelve keeps one from going on: a single one is rarely owned.
RECOVERS_WITHIN = 100


class Request(NamedTuple):
    """One in flight: until when, for what, on which slot, and in which life of the process; in none of a frozen one."""

    until: float
    name: str
    slot: int
    life: object


class Worker:
    """Makes as many requests as a process may, some of them long, on slots that it shares with those of its machine.

    Of other shares it learns late.
    """

    def __init__(self, process: Process, dice: random.Random) -> None:
        self.process = process
        self.dice = dice
        self.open: list[Request] = []
        self.machine: list[Worker] = [self]
        self.followed: tuple[object, int] = (None, 0)
        self.limits: dict[str, int] = {}
        process.beyond = ()
        process.follows = lambda: self.followed == self.now_to_follow

    @property
    def now_to_follow(self) -> tuple[object, int]:
        return self.process.members, self.process.members.shares.version

    def counted(self, name: str) -> int:
        """Return requests in flight, without those that were begun before the process stood still or died."""
        return sum(one.name == name and one.life is self.process.members for one in self.open)

    def stood_still(self) -> None:
        self.open = [one._replace(life=None) for one in self.open]

    def died(self) -> None:
        self.open = []

    def tick(self, now: float) -> None:
        if not self.process.is_up:
            return
        self.open = [one for one in self.open if one.until > now]
        shares = {name: self.process.members.shares.of(name, total) for name, total in TOTALS.items()}
        if self.followed[0] is not self.process.members or self.dice.random() < FOLLOWS:
            self.followed, self.limits = self.now_to_follow, shares
        for name in TOTALS if self.process.members.may_start else ():
            taken = {one.slot for worker in self.machine for one in worker.open if one.name == name}
            for slot in set(range(self.limits[name])) - taken:
                until = now + self.dice.choice([0.05, 0.3, 1, 12])
                self.open.append(Request(until, name, slot, self.process.members))
        self.process.beyond = frozenset(one.name for one in self.open if one.slot >= shares[one.name])


class Fate:
    """Does something bad to somebody every now and then, and puts it right some time later."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self.world = world
        self.dice = dice
        self.workers = {owner: Worker(process, dice) for owner, process in world.processes.items()}
        for worker in self.workers.values():
            sharer = worker.process.members.me.sharer
            worker.machine = [one for one in self.workers.values() if one.process.members.me.sharer == sharer]
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
        world.add(owner, group=GROUPS[seed % len(GROUPS)].get(owner, ""))
    fate = Fate(world, dice)
    for _ in range(round(SECONDS / TICK)):
        if dice.random() < TICK / 3:
            fate.strike()
        await tick(world, fate)
    assert await recovers(world, fate)
    assert len(fate.seen) >= 4
    await world.close()
