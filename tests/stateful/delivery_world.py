"""The bus on spools, a store, a transport and a poster in memory, on a simulated clock.

The roles are the real ones. A crash drops all objects of a life and keeps what spools, store and transport hold.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from typing import Any

import msgspec
import pytest

from admin.repair.resender import Cause, Resender
from bus.bootstrap import Context, RoleServices, compose
from bus.bootstrap.feeding import make_feed
from bus.cluster.peers import PeerKey, Peers
from bus.domain.delivery.delivery import FINAL, Outcome
from bus.domain.delivery.retry import RetryPolicy, Schedule
from bus.domain.destination import Destination
from bus.domain.identity import new_id
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.errors import Conflict, NotFound, StoreUnavailable
from bus.http.draft import Draft
from bus.http.messages import PREFIX
from bus.network.descriptors import Descriptors
from bus.ports.poster import PostResult
from bus.ports.spool import NewRecord
from bus.registry import Registry
from bus.security.egress import EgressPolicy
from bus.security.keyring import Keyring
from bus.security.principals import ANYONE
from bus.security.secrets import SecretBox
from bus.settings import Settings
from bus.stores.feed import StoreFeed
from bus.stores.own_events import OwnEvents
from bus.stores.rollups import Rollups
from bus.testing.clock import ManualClock
from bus.testing.cluster import OneProcess, alone, leading, without_groups
from bus.testing.events import MemoryEvents
from bus.testing.poster import MemoryPoster, MemoryTarget, Reply
from bus.testing.spool import MemorySpool
from bus.testing.store import MemoryStore
from bus.testing.transport import MemoryTransport
from bus.transports.router import TransportRouter
from compensator.role import CompensatorService
from dispatcher.role import DispatcherService
from receiver.role import ReceiverService

CODE = "orders"
PERMITS = {"billing": 1, "mail": 3, "packed": 2}
BATCH = {"packed": 4}
ATTEMPTS = 4
GOOD = Reply(200)
SOME = Reply(200, body=b"some")
"""Of a batch every other message has failed; a message alone is delivered."""


def url(name: str) -> str:
    return f"http://127.0.0.1:8000/{name}"


class Spool(MemorySpool):
    """Its appends take a moment, so that a crash may fall before or after them."""

    async def append(self, records: Sequence[NewRecord], *, urgent: bool = False) -> list[int]:
        await asyncio.sleep(0)
        positions = await super().append(records, urgent=urgent)
        await asyncio.sleep(0)
        return positions


class Store(MemoryStore):
    """Its calls take a moment; while it is down it answers nobody. Writes come in any order, and more than once."""

    down = False

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self._dice = dice
        self._earlier: list[Outcome] = []

    async def _moment(self) -> None:
        await asyncio.sleep(0)
        if self.down:
            raise StoreUnavailable("down")

    async def write(self, writes: Sequence[Message | Outcome]) -> None:
        await self._moment()
        repeated = self._dice.sample(self._earlier, min(2, len(self._earlier)))
        shuffled = [*writes, *repeated]
        self._dice.shuffle(shuffled)
        self._earlier += [one for one in writes if isinstance(one, Outcome)]
        await super().write(shuffled)


def _slowed(name: str) -> Callable[..., Awaitable[Any]]:
    async def call(self: Store, *args: Any, **kwargs: Any) -> Any:
        await self._moment()
        return await getattr(MemoryStore, name)(self, *args, **kwargs)

    return call


_SLOWED = (
    *("trace", "finished", "unsettled", "compensate", "lease", "unlease", "finish", "due", "subscribed"),
    *("ordered_keys", "ordered_rows"),
)
for _name in _SLOWED:
    setattr(Store, _name, _slowed(_name))


class Poster(MemoryPoster):
    """Counts what is under way to each subscriber, and remembers what was answered with success."""

    batched: Container[str] = BATCH

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(EgressPolicy(allow_loopback=True), sleep=clock.sleep)
        self.under_way: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.delivered: Counter[tuple[str, str]] = Counter()
        self.bodies: dict[str, bytes] = {}

    async def post(self, target, headers, body: bytes, timeout: float) -> PostResult:  # noqa: ASYNC109
        assert isinstance(target, MemoryTarget)
        name = target.url.rsplit("/", 1)[1]
        bodies = _entries(body) if name in self.batched else {dict(headers)["webhook-id"]: body}
        self.bodies |= bodies
        self.under_way[name] += 1
        self.most[name] = max(self.most[name], self.under_way[name])
        try:
            await asyncio.sleep(0)
            result = await super().post(target, headers, body, timeout)
        finally:
            self.under_way[name] -= 1
        if result.status == 200:
            failed = list(bodies)[::2] if name in self.batched and result.response == SOME.body else []
            self.delivered.update((message_id, name) for message_id in bodies.keys() - set(failed))
            result = result._replace(response=msgspec.json.encode({"failed": failed}))
        return result


def _entries(body: bytes) -> dict[str, bytes]:
    entries = [msgspec.json.decode(line) for line in body.splitlines()]
    assert len(entries) <= max(BATCH.values())
    return {entry["id"]: base64.b64decode(entry["body_base64"]) for entry in entries}


async def _has_all(feed: StoreFeed, _: float) -> bool:
    return feed._has_all


class Life:
    """One process: what a crash drops."""

    def __init__(self, world: World) -> None:
        self.registry = Registry(world.store, SecretBox(None))
        router = TransportRouter([world.transport], world.clock)
        members = alone(world.store, world.clock, roles=("dispatcher", "receiver"))
        leaders = leading(world.store, members, world.clock)
        self.registry.listen(leaders.apply)
        self.registry.listen(router.apply)
        self.context = Context(
            settings=Settings(),
            node="node-1",
            owner=world.owner,
            clock=world.clock,
            noise=world.noise.random,
            store=world.store,
            registry=self.registry,
            keyring=Keyring(world.store, world.clock.now),
            router=router,
            poster=world.poster,
            descriptors=Descriptors(1_000_000, world.clock.monotonic),
            egress=EgressPolicy(allow_loopback=True),
            spools={**world.spools},
            members=members,
            configuration=OneProcess(),
            leaders=leaders,
            chains=without_groups(world.store, world.clock),
            peer_key=(peer_key := PeerKey(world.store, world.clock)),
            peers=Peers(peer_key, world.poster),
            rollups=(rollups := Rollups(world.store, world.clock, world.owner, lambda: None)),
            claims=None,
            own_events=(own_events := OwnEvents(world.store, lambda: False)),
            feed=make_feed(world.spools, world.store, self.registry, rollups, own_events, world.clock),
            events=MemoryEvents(),
        )
        self.tasks: list[asyncio.Task[None]] = []
        self.stopping = asyncio.Event()

    async def start(self, clock: ManualClock) -> None:
        await self.registry.load()
        roles = (DispatcherService, ReceiverService, CompensatorService)
        services, offers = compose(self.context, roles, RoleServices())
        self.ingest = offers.routes[PREFIX]._ingest
        for service in services:
            ready = asyncio.Event()
            self.tasks.append(asyncio.create_task(service.run(ready, self.stopping)))
            await clock.until(ready.is_set, within=60)


class World:
    """What survives a crash, and the life of now."""

    owner = "owner-1"

    def __init__(self, *, seed: int) -> None:
        self.clock = ManualClock()
        self.noise = random.Random(seed)
        self.store = Store(self.noise)
        self.transport = MemoryTransport()
        self.spools = {
            "receiver": Spool(consumers=("publish", "store")),
            "direct": Spool(consumers=()),
            "outcomes": Spool(consumers=("store",)),
        }
        self.poster = Poster(self.clock)
        self.crashes = 0
        self.outages = 0
        self.accepted: dict[str, tuple[bytes, tuple[str, ...]]] = {}
        self.resends: Counter[tuple[str, str]] = Counter()
        self.made = itertools.count()

    async def begin(self) -> None:
        self.life = Life(self)
        await self.life.start(self.clock)

    async def configure(self, names: Iterable[str] = PERMITS, **changes: Any) -> None:
        await self.life.registry.put_destination(Destination(code=CODE))
        for name in names:
            await self.subscribe(name, **changes)

    async def subscribe(self, name: str, **changes: Any) -> None:
        known = self.life.registry.catalog.subscriptions.get((CODE, name))
        retry = RetryPolicy(Schedule((1000, 2000)), 86_400_000, ATTEMPTS)
        fields: dict[str, Any] = {"destination": CODE, "name": name, "url": url(name), "retry": retry}
        fields |= {"timeout": 2000, "stuck_after": 20_000, "max_concurrency": PERMITS[name]}
        fields["batch"] = BATCH.get(name, 1)
        version = known.version if known else 0
        await self.life.registry.put_subscription(Subscription(**fields | changes, version=version))

    async def accept(self, delay: int = 0, key: str = "") -> None:
        number = next(self.made)
        now = self.clock.now()
        body = b"body %d" % number
        message_id = new_id(now, self.noise.randbytes(10))
        draft = Draft(CODE, body, id=message_id, key=key, deliver_at=now + delay if delay else 0)
        expected = self.life.registry.catalog.names(CODE)
        answer = await self.life.ingest.accept_one(draft, ANYONE)
        self.accepted[answer.id] = (body, expected)

    async def kill(self) -> None:
        """End the life at this very moment."""
        self._lose_grip()
        for task in self.life.tasks:
            task.cancel()
        await asyncio.gather(*self.life.tasks, return_exceptions=True)
        # What it took in its last moments is not held by anybody either.
        self._lose_grip()
        self.crashes += 1
        self.store.down = False

    async def stop(self) -> None:
        """End the life in order, as a signal does."""
        running = list(self.life.tasks)
        self.life.stopping.set()
        with pytest.MonkeyPatch.context() as patch:
            # Else what is left for the store is waited for by the real clock.
            patch.setattr(StoreFeed, "caught_up", _has_all)
            while not all(task.done() for task in running):
                await self.clock.advance(0.1)
        for task in running:
            task.result()
        await self.kill()

    def _lose_grip(self) -> None:
        self.transport.crash()
        for spool in self.spools.values():
            spool.crash()

    async def resend(self, message_id: str, name: str) -> None:
        resender = Resender(self.store, self.life.registry, self.clock, asyncio.Event())
        with contextlib.suppress(Conflict, NotFound):
            trace = await self.store.trace(message_id)
            if trace is None:
                return
            targets = resender.choose(trace, [name])
            await resender.apply(message_id, targets, Cause("job", "ann", "by hand"))
            self.resends[message_id, name] += 1

    def is_at_rest(self) -> bool:
        """Whether every delivery has ended, and neither a transport nor a spool nor the store has work left."""
        lags = self.transport.lags() or {}
        left = [lag.records for lag in lags.values()] + [spool.stats().records for spool in self.spools.values()]
        return not (any(left) or self.store._rows or self.unfinished())

    def unfinished(self) -> list[tuple[str, str, str]]:
        found = []
        for message_id, (_, expected) in self.accepted.items():
            trace = self.store._traces.get(message_id)
            for name in expected:
                delivery = trace.deliveries.get(name) if trace is not None else None
                if delivery is None or delivery.status not in FINAL:
                    found.append((message_id, name, str(delivery.status) if delivery else "unknown"))
        return found
