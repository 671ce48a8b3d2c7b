"""Several processes of one bus in memory, each of which can be stopped, killed, and cut off from the store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from bus.cluster.lease import Promise, Question
from bus.cluster.member import COLLECTION, HeldMessages, Member
from bus.cluster.members import Members
from bus.domain.health.vitals import SpoolFigures
from bus.errors import StoreUnavailable
from bus.ports.store import Document
from bus.testing.clock import ManualClock
from bus.testing.cluster import MemoryViews
from bus.testing.store import MemoryStore

TOTALS = {"orders/one": 1, "orders/five": 5, "orders/many": 16}
_PROBED = 10


class PausedClock:
    """The common clock as a process that may be stopped sees it: whoever sleeps wakes when it goes on."""

    def __init__(self, base: ManualClock) -> None:
        self._base = base
        self.ahead = 0
        self.goes = asyncio.Event()
        self.goes.set()

    def now(self) -> int:
        return self._base.now() + self.ahead

    def monotonic(self) -> float:
        return self._base.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._base.sleep(seconds)
        await self.goes.wait()


class Reach:
    """The common store as one process reaches it, late, or not at all; it may act and not answer."""

    def __init__(self, store: MemoryStore, clock: PausedClock) -> None:
        self._store = store
        self._clock = clock
        self.down = 0
        """By how many faults it is cut off."""
        self.is_read_only = False
        self.delay: Callable[[], float] = lambda: 0.0
        self.loses_answer: Callable[[], bool] = lambda: False

    async def _ask(self, call: Callable[[], Any]) -> Any:
        await self._clock.sleep(self.delay())
        if self.down:
            raise StoreUnavailable("down")
        answer = await call()
        await self._clock.sleep(self.delay())
        if self.down or self.loses_answer():
            raise StoreUnavailable("it did not answer")
        return answer

    async def get(self, collection: str, key: str) -> Document | None:
        return await self._ask(lambda: self._store.get(collection, key))

    async def list(self, collection: str, **_: Any) -> list[Document]:
        return await self._ask(lambda: self._store.list(collection))

    async def put(self, collection: str, key: str, value: bytes, *, version: int | None = None) -> int:
        if self.is_read_only:
            raise StoreUnavailable("read only")
        return await self._ask(lambda: self._store.put(collection, key, value, version=version))

    async def delete(self, collection: str, key: str) -> bool:
        return await self._ask(lambda: self._store.delete(collection, key))


class Process:
    """One life after the other of a process; ``members`` is that of the present one."""

    def __init__(self, world: World, owner: str, roles: tuple[str, ...], group: str) -> None:
        self.world = world
        self.owner = owner
        self.group = group
        self.roles = roles
        self.clock = PausedClock(world.clock)
        self.reach = Reach(world.store, self.clock)
        self.kept = MemoryViews()
        self.revision = 0
        self.beyond: Collection[str] = ()
        self.follows: Callable[[], bool] = lambda: True
        self.probed: list[str] = []
        self.answers = True
        self.held: dict[str, HeldMessages] = {}
        self.records = 0
        self.longest = 0.0
        """How long a request may last, in seconds."""
        self.probe = self._reaches
        self._task: asyncio.Task[None] | None = None
        self.members = self._born()

    def _born(self) -> Members:
        me = Member(
            owner=self.owner,
            group=self.group,
            node=self.owner,
            url=f"http://{self.owner}",
            roles=self.roles,
            version="1",
            started_at=self.clock.now(),
        )
        members = Members(self.reach, self.clock, me, self._probe, self._ask, self.kept)  # type: ignore[arg-type]
        members.describe = self._describe
        members.beyond = lambda: frozenset(self.beyond)
        members.is_reshared = self._is_reshared
        members.slower = lambda age: frozenset(TOTALS) if age <= self.longest else frozenset()
        return members

    def _is_reshared(self) -> bool:
        return self.follows()

    def _describe(self, me: Member) -> Member:
        fields = {name: getattr(me, name) for name in me.__struct_fields__}
        spools = {"direct": SpoolFigures(self.records, 0, 0, 0, None)}
        return Member(**fields | {"revision": self.revision, "held": self.held, "spools": spools})

    async def _probe(self, member: Member) -> bool | None:
        self.probed.append(member.owner)
        found = self.world.processes[member.owner]
        for _ in range(_PROBED):
            if self.probe(found):
                return True
            if self._is_refused(found):
                return False
            await self.clock.sleep(1 / _PROBED)
        return None

    async def _ask(self, member: Member, question: Question) -> Promise | None:
        found = self.world.processes[member.owner]
        if not self._reaches(found):
            await self.clock.sleep(0 if self._is_refused(found) else 1)
            return None
        return found.members.promise(question)

    def _is_refused(self, other: Process) -> bool:
        return not other.is_running and not self._is_cut(other)

    def _reaches(self, other: Process) -> bool:
        return other.is_up and other.answers and not self._is_cut(other)

    def _is_cut(self, other: Process) -> bool:
        return self.world.cuts[frozenset((self.owner, other.owner))] > 0

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def is_up(self) -> bool:
        """Whether it runs and is not stopped."""
        return self.is_running and self.clock.goes.is_set()

    def start(self) -> None:
        """Begin a life; it works once the clock has moved a little."""
        self.members = self._born()
        self._task = asyncio.create_task(self._live(self.members))

    async def _live(self, members: Members) -> None:
        await members.join()
        await members.run()

    def stop(self) -> None:
        """SIGSTOP."""
        self.clock.goes.clear()

    def go_on(self) -> None:
        """SIGCONT."""
        self.clock.goes.set()

    async def kill(self) -> None:
        """SIGKILL."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._task = None
        self.go_on()

    async def leave(self) -> None:
        """Stop in order."""
        await self.kill()
        await self.members.leave()

    def share(self, name: str = "orders/many") -> int:
        """Return how many requests it may have in flight now."""
        if not self.is_up or not self.members.may_start:
            return 0
        return self.members.shares.of(name, TOTALS[name])


class World:
    """The processes, and what they share."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.processes: dict[str, Process] = {}
        self.cuts: Counter[frozenset[str]] = Counter()
        """By how many faults two processes are cut off from each other."""

    def add(self, owner: str, *roles: str, group: str = "") -> Process:
        self.processes[owner] = Process(self, owner, roles or ("dispatcher",), group)
        return self.processes[owner]

    def start(self, owner: str, *roles: str, group: str = "") -> Process:
        process = self.add(owner, *roles, group=group)
        process.start()
        return process

    def shares(self, name: str = "orders/many") -> list[int]:
        return [process.share(name) for process in self.processes.values()]

    def is_whole(self) -> bool:
        """Whether every permit is somebody's, and of a group all processes may use its share."""
        return all(self._is_whole(name, total) for name, total in TOTALS.items())

    def _is_whole(self, name: str, total: int) -> bool:
        found = {(process.members.me.sharer, process.share(name)) for process in self.processes.values()}
        return len(dict(found)) == len(found) and sum(share for _, share in found) == total

    async def documents(self) -> dict[str, bytes]:
        return {found.key: found.value for found in await self.store.list(COLLECTION)}

    async def wipe(self) -> None:
        """Delete the store's data."""
        for found in await self.store.list(COLLECTION):
            await self.store.delete(COLLECTION, found.key)

    async def close(self) -> None:
        for process in self.processes.values():
            await process.kill()
