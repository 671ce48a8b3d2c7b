"""A compensator's surroundings in memory, with a dispatcher that takes what the test lets it take."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from bus.cluster.cluster_backlog import ClusterBacklog
from bus.cluster.member import COLLECTION, Member
from bus.domain.delivery.delivery import Compensation, Delivery, Outcome, Status
from bus.domain.destination import Destination
from bus.domain.message import Message, encode_message
from bus.domain.subscription import Subscription
from bus.domain.tracing.trace import DeliveryTrace
from bus.errors import StoreUnavailable
from bus.ports.spans import NO_SPANS, Spans
from bus.ports.store import untold
from bus.ports.transport import OutgoingMessage
from bus.registry import Registry
from bus.security.secrets import SecretBox
from bus.stores.cancellations import Cancellations
from bus.stores.rollups import Rollups
from bus.testing.clock import ManualClock
from bus.testing.cluster import alone
from bus.testing.events import MemoryEvents
from bus.testing.spool import MemorySpool
from bus.testing.store import MemoryStore
from bus.testing.transport import MemoryTransport
from bus.testing.writes import DESTINATION, message, outcome
from bus.transports.publishing import DestinationPublisher
from bus.transports.router import TransportRouter
from compensator.cancellation import Cancellation
from compensator.compensator import Compensator
from compensator.expiry import Expiry
from compensator.stuck import StuckSearch

LANE = (DESTINATION, "billing")
MAIL = (DESTINATION, "mail")
OWNER = "owner-1"


class FickleStore(MemoryStore):
    """A store that can be down, and counts what is asked of it."""

    down = False
    leases = 0

    def _check(self) -> None:
        if self.down:
            raise StoreUnavailable("down")

    async def lease(self, now, until, room, limit, *, owner="", over=None):
        self._check()
        self.leases += 1
        return await super().lease(now, until, room, limit, owner=owner, over=over)

    async def unsettled(self, destination, subscription, before, limit):
        self._check()
        return await super().unsettled(destination, subscription, before, limit)

    async def put(self, collection, key, value, *, version=None):
        self._check()
        return await super().put(collection, key, value, version=version)

    async def expire(self, now):
        self._check()
        return await super().expire(now)

    async def cancel(self, destination, subscription, now, ended=untold):
        self._check()
        return await super().cancel(destination, subscription, now, ended)

    async def subscribed(self):
        self._check()
        return await super().subscribed()

    async def due(self, now):
        self._check()
        return await super().due(now)

    async def finished(self, keys):
        self._check()
        return await super().finished(keys)


class FakeDispatching:
    """Takes what there is room for, until the test says otherwise."""

    def __init__(self) -> None:
        self.free: dict[tuple[str, str], int] = {LANE: 100, MAIL: 100}
        self.refused: set[str] = set()
        self.offered: list[Delivery] = []
        self.asked: list[set[tuple[str, str]]] = []

    is_local = True

    async def room(self, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        self.asked.append(set(keys))
        return {lane: count for lane in keys if (count := self.free.get(lane, 0))}

    async def offer(self, deliveries: Sequence[Delivery]) -> list[bool]:
        rooms = [self.free.get((one.message.destination, one.subscription)) for one in deliveries]
        return [self._offer(one) or bool(room) for one, room in zip(deliveries, rooms, strict=True)]

    def _offer(self, delivery: Delivery) -> bool:
        if delivery.message.id in self.refused:
            return False
        self.offered.append(delivery)
        return True

    @property
    def ids(self) -> list[str]:
        return [delivery.message.id for delivery in self.offered]


class OtherProcess:
    """Another process of the bus, whose clock is ahead."""

    def __init__(self, world: World, role: str, ahead: int) -> None:
        self._world = world
        self._role = role
        self.ahead = ahead

    def now(self) -> int:
        return self._world.clock.now() + self.ahead

    async def tell(self, **figures: Any) -> None:
        """Tell of itself, as it does every second, and have this process look."""
        own = {"owner": "other", "node": "node-2", "url": "", "roles": (self._role,), "version": "1", "started_at": 0}
        me = Member(**own, told_at=self.now(), **figures)
        await self._world.store.put(COLLECTION, me.owner, msgspec.json.encode(me))
        await self._world.members.step()


class World:
    def __init__(self) -> None:
        self.spans: Spans = NO_SPANS
        self.clock = ManualClock()
        self.store = FickleStore()
        self.members = alone(self.store, self.clock)
        self.transport = MemoryTransport()
        self.router = TransportRouter([self.transport], self.clock)
        self.registry = Registry(self.store, SecretBox(None))
        self.registry.listen(self.router.apply)
        self.dispatching = FakeDispatching()
        self.events = MemoryEvents()
        self.spool = MemorySpool(consumers=("publish", "store"))
        self.outcomes = MemorySpool(consumers=("store",))
        self.due = asyncio.Event()
        self.compensator = self.restarted()
        self.stuck = StuckSearch(self.store, self.registry, self.router, self.waiting(), self.clock)
        self.rollups = Rollups(self.store, self.clock, OWNER, lambda: None)
        self.cancellation = Cancellation(
            self.store, self.registry, self.clock, Cancellations(self.store, self.rollups, self.events)
        )
        self.expiry = Expiry(self.store, self.clock)

    def restarted(self) -> Compensator:
        self.members = alone(self.store, self.clock)
        publisher = DestinationPublisher(self.router, self.events, self.clock, self.spans)
        return Compensator(
            self.store,
            self.registry,
            publisher,
            self.dispatching,
            self.events,
            self.clock,
            OWNER,
            self.waiting(),
            self.due,
            self.spans,
        )

    def waiting(self) -> ClusterBacklog:
        """Return what waits, for a process that begins now."""
        return ClusterBacklog(self.members, {"receiver": self.spool, "outcomes": self.outcomes})

    async def other(self, role: str, *, ahead: int) -> OtherProcess:
        """Have another process join whose clock is so many milliseconds ahead."""
        other = OtherProcess(self, role, ahead)
        await other.tell()
        return other

    async def destination(self, code: str = DESTINATION, **changes: Any) -> None:
        known = self.registry.catalog.destinations.get(code)
        await self.registry.put_destination(Destination(code=code, version=known.version if known else 0, **changes))

    async def subscription(self, name: str = "billing", **changes: Any) -> None:
        known = self.registry.catalog.subscriptions.get((DESTINATION, name))
        version = known.version if known else 0
        fields: dict[str, Any] = {"destination": DESTINATION, "name": name, "url": "http://a.example/"}
        await self.registry.put_subscription(Subscription(**fields | changes, version=version))

    async def failed(self, number: int, name: str = "billing", **changes: Any) -> Message:
        """Write a message whose delivery failed once and is due a second later."""
        sent = message(number)
        await self.store.write([sent, outcome(sent, name, Status.RETRYING, **changes)])
        return sent

    async def publish(self, *messages: Message) -> None:
        await self.transport.publish([OutgoingMessage(one, encode_message(one)) for one in messages])

    async def row(self, of: Message, name: str = "billing") -> Compensation:
        return self.store._rows[of.id, name]

    async def delivery(self, of: Message, name: str = "billing") -> DeliveryTrace:
        trace = await self.store.trace(of.id)
        assert trace is not None
        return trace.deliveries[name]


def delivered(of: Message, name: str = "billing", attempts: int = 2, **changes: Any) -> Outcome:
    return outcome(of, name, Status.DELIVERED, attempts, **changes)
