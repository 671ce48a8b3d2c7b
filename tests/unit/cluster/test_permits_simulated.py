"""Whatever happens to dispatchers and to the store: never more requests in flight than a subscription allows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import pytest

from bus.cluster.lease import Lease
from bus.cluster.members import Members
from bus.domain.delivery.concurrency_shares import View
from bus.testing.cluster import MemoryViews
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
LONGEST = (0.3, 12)
"""How long (seconds) a request may last in a run."""
SECONDS = 150
CALM = 20
FOLLOWS = 0.3
"""How likely it is in a tick that workers follow the shares of now."""
# Permits go round every ten seconds, and a request of twelve keeps one from going on: a single one is rarely owned.
RECOVERS_WITHIN = 100


class Request(NamedTuple):
    """One in flight: until when, for what, and on which slot."""

    until: float
    name: str
    slot: int


class Worker:
    """Makes as many requests as a process may, some of them long, on slots that it shares with those of its machine.

    Of other shares it learns late.
    """

    def __init__(self, process: Process, dice: random.Random, longest: float) -> None:
        self.process = process
        self.dice = dice
        self.open: list[Request] = []
        self.machine: list[Worker] = [self]
        self.followed: tuple[object, int] = (None, 0)
        self.limits: dict[str, int] = {}
        process.beyond = ()
        process.longest = longest + TICK
        process.follows = lambda: self.followed == self.now_to_follow

    @property
    def now_to_follow(self) -> tuple[object, int]:
        return self.process.members, self.process.members.shares.version

    def counted(self, name: str) -> int:
        return sum(one.name == name for one in self.open)

    def died(self) -> None:
        self.open = []

    def tick(self, now: float) -> None:
        self.open = [one for one in self.open if one.until > now]
        if not self.process.is_up:
            return
        shares = {name: self.process.members.shares.of(name, total) for name, total in TOTALS.items()}
        if self.followed[0] is not self.process.members or self.dice.random() < FOLLOWS:
            self.followed, self.limits = self.now_to_follow, shares
        for name in TOTALS if self.process.members.may_start else ():
            taken = {one.slot for worker in self.machine for one in worker.open if one.name == name}
            for slot in set(range(self.limits[name])) - taken:
                until = now + self.dice.choice([0.05, 0.3, self.process.longest - TICK])
                self.open.append(Request(until, name, slot))
        self.process.beyond = frozenset(one.name for one in self.open if one.slot >= shares[one.name])


class Fate:
    """Does something bad to somebody every now and then, and puts it right some time later."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self.world = world
        self.dice = dice
        longest = dice.choice(LONGEST)
        self.workers = {owner: Worker(process, dice, longest) for owner, process in world.processes.items()}
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
            [self.pause, self.kill, self.lose, self.leave, self.cut_off, self.part, self.outage, self.slow, self.wipe]
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

    async def pause(self, process: Process, _: Worker) -> None:
        process.stop()
        await self.sleep(0.2, 1.2, 5, 9, 20)
        process.go_on()

    async def kill(self, process: Process, worker: Worker) -> None:
        await process.kill()
        worker.died()
        await self.sleep(0.1, 1, 4, 6.5, 12)
        process.start()
        await self.sleep(3)

    async def lose(self, process: Process, worker: Worker) -> None:
        """Lose its host, which answers nobody."""
        with self.cut({process.owner}):
            await self.kill(process, worker)

    async def leave(self, process: Process, worker: Worker) -> None:
        await process.leave()
        worker.died()
        await self.sleep(0.1, 2, 9)
        process.start()
        await self.sleep(3)

    async def cut_off(self, process: Process, _: Worker) -> None:
        """Away from the store, not from the others."""
        with self.without_store({process.owner}):
            await self.sleep(0.5, 4, 15)

    async def part(self, process: Process, _: Worker) -> None:
        """Cut some off from the others, and those or the others from the store."""
        side = {process.owner, *self.dice.sample(OWNERS, self.dice.randrange(3))}
        with self.cut(side), self.without_store(self.dice.choice([set(), side, set(OWNERS) - side, set(OWNERS)])):
            await self.sleep(3, 8, 20, 40)

    async def outage(self, _process: Process, _: Worker) -> None:
        """Take the store away from everybody."""
        with self.without_store(set(OWNERS)):
            await self.sleep(0.5, 4, 15, 40)

    @contextmanager
    def without_store(self, owners: set[str]) -> Iterator[None]:
        for owner in owners:
            self.world.processes[owner].reach.down += 1
        yield
        for owner in owners:
            self.world.processes[owner].reach.down -= 1

    @contextmanager
    def cut(self, owners: set[str]) -> Iterator[None]:
        """Cut the machines of these off from the others."""
        side = {worker.process.owner for owner in owners for worker in self.workers[owner].machine}
        pairs = [frozenset((one, other)) for one in side for other in set(OWNERS) - side]
        self.world.cuts.update(pairs)
        yield
        self.world.cuts.subtract(pairs)

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


@asynccontextmanager
async def fated(seed: int) -> AsyncIterator[tuple[World, Fate]]:
    """Let bad things happen to four processes that share permits; they run until it is left."""
    dice = random.Random(seed)
    world = World()
    for owner in OWNERS:
        world.start(owner, group=GROUPS[seed % len(GROUPS)].get(owner, ""))
    await world.clock.until(world.is_whole, within=30)  # one that never was with the others has no subscriptions either
    fate = Fate(world, dice)
    try:
        for _ in range(round(SECONDS / TICK)):
            if dice.random() < TICK / 3:
                fate.strike()
            await tick(world, fate)
        yield world, fate
    finally:
        running = list(fate.tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await world.close()


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


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.proof) for seed in range(8, 400))])
async def test_no_interleaving_has_more_in_flight_than_there_are_permits(seed: int) -> None:
    async with fated(seed) as (world, fate):
        assert await recovers(world, fate)
        assert len(fate.seen) >= 4


def has_no_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lease, "is_held", property(lambda self: self._until > 0))


def is_had_by_half(patch: pytest.MonkeyPatch) -> None:
    def has_half(sharers: set[str], views: Sequence[View]) -> bool:
        return all(2 * len(sharers & set(view.owners)) >= len(view.owners) > 0 for view in views)

    patch.setattr("bus.cluster.members.has_majority", has_half)


def grows_beside_a_majority(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("bus.cluster.members.have_majority", lambda *_: False)


def forgets_requests_in_flight(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Members, "_still_in_flight", lambda *_: frozenset())


def keeps_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryViews, "write", lambda *_: asyncio.sleep(0))


@pytest.mark.parametrize(
    "plant", [has_no_end, is_had_by_half, grows_beside_a_majority, forgets_requests_in_flight, keeps_nothing]
)
async def test_the_simulation_finds_a_lease_that(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(100):
        try:
            async with fated(seed):
                pass
        except AssertionError:
            print(plant.__name__, seed)
            return
    raise AssertionError(plant.__name__)
