"""A receiver's surroundings in memory, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from typing import Any

from bus.cluster.configuration import Configuration
from bus.domain.destination import Destination
from bus.domain.identity import new_id
from bus.domain.message import Message, decode_message
from bus.domain.subscription import Subscription
from bus.errors import StoreUnavailable
from bus.http.draft import Draft
from bus.http.messages import AcceptedMessage
from bus.ports.claims import Claims
from bus.ports.spans import NO_SPANS, Spans
from bus.registry import Registry
from bus.security.keyring import Keyring
from bus.security.principals import ANYONE
from bus.security.secrets import SecretBox
from bus.testing.clock import ManualClock
from bus.testing.cluster import OneProcess, without_groups
from bus.testing.events import MemoryEvents
from bus.testing.store import MemoryStore
from bus.testing.transport import MemoryTransport
from bus.transports.publishing import DestinationPublisher
from bus.transports.router import TransportRouter
from receiver.app import IngestApp
from receiver.duplicates import IdempotencyKeys, RecentIds
from receiver.ingest import Ingest
from receiver.known_producers import KnownProducers
from receiver.placement import Placement
from receiver.publishing import SpoolPublisher
from receiver.quotas import Quotas
from receiver.rejections import Rejections
from receiver.routing import HERE, OtherReceivers, Route
from receiver.strict_writing import StrictSenders, StrictWriting
from receiver.throttled_sources import TurnedAway
from tests.harness.gated_spool import GatedSpool


class SlowStore(MemoryStore):
    """A store that can be down, and that lets others run before it answers, as one that asks a disk does."""

    down = False

    async def _pass(self) -> None:
        if self.down:
            raise StoreUnavailable("down")
        await asyncio.sleep(0)

    async def trace(self, message_id):
        await self._pass()
        return await super().trace(message_id)

    async def get(self, collection, key):
        await self._pass()
        return await super().get(collection, key)

    async def put(self, collection, key, value, *, version=None):
        await self._pass()
        return await super().put(collection, key, value, version=version)

    async def compensate(self, rows):
        await self._pass()
        await super().compensate(rows)


class Alone:
    """The only receiver of a bus without destinations that keep an order."""

    def is_here(self, _: str) -> bool:
        return True

    def route(self, *_: str) -> Route:
        return HERE

    def is_alone(self) -> bool:
        return True

    async def forward(self, *_: object) -> None:
        raise AssertionError("there is no other process")


class World:
    def __init__(self, store: SlowStore | None = None, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.events = MemoryEvents()
        self.spans: Spans = NO_SPANS
        self.store = store or SlowStore()
        self.spool = GatedSpool("publish", "store")
        self.transport = MemoryTransport()
        self.router = TransportRouter([self.transport], self.clock)
        self.old = False
        self.claims: Claims | None = None
        self.configuration: Configuration = OneProcess()
        self.elsewhere: OtherReceivers = Alone()
        self.chains: StrictSenders = without_groups(self.store, self.clock)
        self.registry = Registry(self.store, SecretBox(None), lambda: self.old)
        self.registry.listen(self.router.apply)
        self.keyring = Keyring(self.store, self.clock.now)
        self.restart()

    def restart(self) -> None:
        """Begin another life of the receiver on the same spool and store."""
        self.publisher = SpoolPublisher(
            self.registry,
            DestinationPublisher(self.router, self.events, self.clock, self.spans),
            self.spool,
            self.store,
            self.clock,
        )
        self.turned_away = TurnedAway(self.clock)
        self.ingest = Ingest(
            self.registry,
            self.configuration,
            self.elsewhere,
            StrictWriting(self.chains),
            Placement(self.spool, self.router),
            RecentIds(self.store, self.clock),
            IdempotencyKeys(self.store, self.clock),
            self.claims,
            Quotas(self.turned_away, self.clock),
            self.publisher,
            self.events,
            self.clock,
            self.spans,
        )
        self.rejections, self.producers = Rejections(self.clock), KnownProducers(self.clock)
        self.app = IngestApp(self.ingest, self.keyring, self.rejections, self.producers)

    async def destination(self, code: str = "orders", *subscriptions: str, **changes: Any) -> None:
        known = self.registry.catalog.destinations.get(code)
        await self.registry.put_destination(Destination(code=code, version=known.version if known else 0, **changes))
        for name in subscriptions:
            await self.registry.put_subscription(Subscription(destination=code, name=name, url="http://a.example/"))

    async def send(self, body: bytes = b"{}", destination: str = "orders", **fields: Any) -> AcceptedMessage:
        return await self.ingest.accept_one(Draft(destination, body, **fields), ANYONE)

    def id(self, *, before: int = 0) -> str:
        """Make an id of so many milliseconds ago."""
        return new_id(self.clock.now() - before)

    @property
    def stored(self) -> list[Message]:
        """What is in the spool, in order."""
        lanes = self.spool._lanes.values()
        return [decode_message(record.payload) for lane in lanes for record in lane.records.values()]

    async def write_stored(self) -> None:
        """Do what the feed does: bring all that is in the spool into the store."""
        await self.store.write(self.stored)


def drafts(*ids: str, key: str = "", body: bytes = b"{}") -> list[Draft]:
    """Return what somebody sends under these ids."""
    return [Draft("orders", body, id=one, idempotency_key=key) for one in ids]
