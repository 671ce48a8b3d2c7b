"""Lookup proxies that move topics: one store, clusters that say what a test says, and files of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import httpx
import msgspec

from bus.cluster.member import COLLECTION as MEMBERS
from bus.cluster.member import Member
from bus.domain.routing.evidence import ChannelSeen, PartSeen, TopicObservation
from bus.errors import StoreUnavailable
from bus.localized_text import AnyText
from bus.ports.store import Document
from bus.security.audit_log import AuditLog
from bus.security.clients import networks_of
from bus.security.keyring import Keyring
from bus.stores.snapshot import Snapshot
from bus.testing.clock import ManualClock
from bus.testing.store import MemoryStore
from lookup import failovers
from lookup.api import LookupApi
from lookup.failovers import Failovers
from lookup.failovers_api import FailoversResource
from lookup.migrating import migrations
from lookup.migrating.migrations import Migrations
from lookup.migrating.migrator import Migrator
from lookup.migrating.planning import MigrationPlanner
from lookup.migrating.preparation import Change
from lookup.migrating.resource import MigrationsResource
from lookup.nsqlookupd import NsqlookupdClient
from lookup.routing import Routing

META = {"partition_num": 2, "ordered": True, "replica": 1}
INTERVAL = 10.0
PROXIES = networks_of("127.0.0.0/8")


class Documents:
    """The store as one proxy reaches it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_away = False

    def _reach(self) -> MemoryStore:
        if self.is_away:
            raise StoreUnavailable("it is away")
        return self._world.store

    async def get(self, collection: str, key: str) -> Document | None:
        return await self._reach().get(collection, key)

    async def list(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[Document]:
        if collection == MEMBERS:
            self._reach()
            return [Document(one.owner, 1, msgspec.json.encode(one)) for one in self._world.members]
        return await self._reach().list(collection, prefix=prefix, after=after, limit=limit)

    async def put(self, collection: str, key: str, value: bytes, *, version: int | None = None) -> int:
        return await self._reach().put(collection, key, value, version=version)

    async def delete(self, collection: str, key: str) -> bool:
        return await self._reach().delete(collection, key)


class World:
    """Clusters ``a`` and ``b``, and what their nsqds say of topics."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.members: list[Member] = []
        self.sights = {"a": topic("a", "billing"), "b": topic("b", "billing")}
        self.made: list[tuple[str, Change]] = []
        self.refusal: AnyText = ""

    async def look(self, _: object, name: str, __: str, ___: Collection[str] = ()) -> TopicObservation:
        return self.sights[name]

    async def plan(
        self, _: object, topic: str, __: int, own: TopicObservation, other: TopicObservation
    ) -> list[Change]:
        missing = sorted(own.lacking(other.channels))
        return [Change("/channel/create", {"topic": topic, "channel": channel}) for channel in missing]

    async def make(self, cluster: Any, changes: list[Change]) -> AnyText:
        self.made += [(cluster.name, change) for change in changes]
        if not self.refusal:
            names = [str(change.query["channel"]) for change in changes]
            self.sights[cluster.name] = topic(cluster.name, *sorted({*self.sights[cluster.name].channels, *names}))
        return self.refusal

    def proxy(self, name: str = "p1", **changes: Any) -> Proxy:
        """Start a proxy, or start one again under its name."""
        self.members = [one for one in self.members if one.owner != name]
        member = Member(
            owner=name, node=f"node-{name}", url="", roles=("lookup",), version="1", started_at=self.clock.now()
        )
        self.members.append(member)
        return Proxy(self, member, **changes)


def topic(cluster: str, *channels: str, **fields: Any) -> TopicObservation:
    """Return a topic that is empty, and that nobody writes to."""
    parts = tuple(PartSeen(f"{cluster}:1/{n}", 1, 7, 0, tuple(map(ChannelSeen, channels))) for n in range(2))
    given: dict[str, Any] = {"exists": True, "partitions": 2, "meta": META, "parts": parts, "producers": 0} | fields
    return TopicObservation(cluster=cluster, is_fork=given["meta"] is not None, **given)


class Proxy:
    """One proxy."""

    def __init__(self, world: World, member: Member, *, produce: str = "a", is_away: bool = False) -> None:
        self.world = world
        self.member = member
        self.path = world.folder / f"{member.owner}.json"
        self.write(produce)
        self.documents = Documents(world)
        self.documents.is_away = is_away
        data = world.folder / member.owner
        kept = Snapshot(self.documents, data, frozenset({migrations.COLLECTION, failovers.COLLECTION}), migrations.MARK)
        self.migrations, self.failovers = Migrations(self.documents, kept, data), Failovers(kept, data)
        self.routing = Routing(
            self.path, NsqlookupdClient(member.owner, world.clock.monotonic), world.clock, lambda: 0.5
        )
        parts: Any = world
        self.migrator = Migrator(
            self.migrations,
            self.failovers,
            self.routing,
            parts,
            parts,
            lambda: member,
            world.clock,
        )
        planning = MigrationPlanner(self.migrations, self.routing, parts, parts, world.clock)
        self.keyring = Keyring(world.store, world.clock.now)
        self.audit = AuditLog(self.documents, world.clock)
        resources = (
            MigrationsResource(self.migrations, self.migrator, planning, world.clock),
            FailoversResource(self.failovers, self.routing, parts, world.clock),
        )
        self.app = LookupApi(resources, self.keyring, self.audit, PROXIES)

    def write(self, produce: str, consume: str = "") -> None:
        """Write its file."""
        topics = [{"orders": {"#P": produce, "#C": [consume or produce]}}]
        self.path.write_text(json.dumps({"topics": topics, "lookupSchema": {"a": "h:1", "b": "h:2", "c": "h:3"}}))

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Make a request of its API."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body) if body is not None else b""
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://127.0.0.1") as client:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return await client.request(method, f"/api/v1/lookup{path}", content=content, headers=named)

    async def start(self, **fields: Any) -> dict[str, Any]:
        """Begin to move the topic to the other cluster."""
        answer = await self.call("POST", "/migrations", {"topic": "orders", "to": "b", "interval": INTERVAL, **fields})
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    @property
    def route(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Where producers and consumers of the topic are sent."""
        found = self.routing.route("orders")
        assert found is not None
        return tuple(found)


async def turn(*proxies: Proxy, seconds: float = 1.0) -> None:
    """Let a second pass in which each proxy follows and moves."""
    for proxy in proxies:
        await proxy.migrator.follow()
    for proxy in proxies:
        await proxy.migrator.move()
    await proxies[0].world.clock.advance(seconds)


async def until(check: Callable[[], object], *proxies: Proxy, turns: int = 200) -> None:
    """Let seconds pass until something is so."""
    for _ in range(turns):
        if check():
            return
        await turn(*proxies)
    raise AssertionError(f"not within {turns} turns: {[one.migrations.latest() for one in proxies]}")
