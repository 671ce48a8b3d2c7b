"""The admin API over a context in memory, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import httpx

from admin.app import make_app
from admin.services import AdminServices
from bus.bootstrap import Context, RoleServices, introspect
from bus.bootstrap.feeding import make_feed
from bus.bootstrap.opening import peer_poster
from bus.cluster.peers import PeerKey, Peers
from bus.domain.delivery.delivery import Compensation, Outcome, Status
from bus.domain.message import Message
from bus.domain.ordering.chain import Role
from bus.domain.tracing.trace import DeliveryTrace
from bus.errors import StoreUnavailable
from bus.network.descriptors import Descriptors
from bus.ports.store import DocumentWrite
from bus.registry import Registry
from bus.security.egress import EgressPolicy
from bus.security.keyring import Keyring
from bus.security.secrets import SecretBox
from bus.settings import Settings
from bus.stores.own_events import OwnEvents
from bus.stores.rollups import Rollups
from bus.testing.broker_group import MemoryGroup
from bus.testing.clock import ManualClock
from bus.testing.cluster import NoDispatching, OneProcess, alone, leading, over_groups
from bus.testing.events import MemoryEvents
from bus.testing.poster import MemoryPoster
from bus.testing.spool import MemorySpool
from bus.testing.store import MemoryStore
from bus.testing.transport import MemoryTransport
from bus.testing.writes import attempt, message, outcome
from bus.transports.chains.transport import ChainTransport
from bus.transports.router import TransportRouter

URL = "http://127.0.0.1:9000/hook"
BILLING = "/destinations/orders/subscriptions/billing"
SUBSCRIPTION = {
    "name": "billing",
    "url": URL,
    "max_concurrency": 16,
    "rate": None,
    "timeout_seconds": 10.0,
    "retry": ["5s", "30s", "2m", "10m", "1h", "3h", "8h", "12h"],
    "retry_max_age": "7d",
    "retry_max_attempts": None,
    "secret": None,
    "filter": None,
    "headers": {},
    "batch": 1,
    "batch_format": "ndjson",
    "on_failure": "block",
    "paused": False,
    "routing_pattern": "#",
    "stuck_after": "5m",
    "owner": "",
    "alarms": {"backlog": None, "age": None, "p99": None, "error_rate": None},
    "dead_on": [],
    "paused_reason": "",
}


class FickleStore(MemoryStore):
    """A store that can be down, and that dies after so many writes of documents or traces, or within a write."""

    down = False
    dies_within = False
    left: int | None = None

    async def write(self, writes: Sequence[Message | Outcome], documents: Sequence[DocumentWrite] = ()) -> None:
        await self._change()
        if self.dies_within:
            writes, self.down = [], True
        await super().write(writes, documents)
        self._check()

    async def put(self, collection, key, value, *, version=None):
        await self._change()
        return await super().put(collection, key, value, version=version)

    async def note(self, documents):
        await self._change()
        await super().note(documents)

    async def get(self, collection, key):
        self._check()
        return await super().get(collection, key)

    async def delete(self, collection, key):
        self._check()
        return await super().delete(collection, key)

    async def search(self, selection, *, cursor=None, limit=50):
        self._check()
        return await super().search(selection, cursor=cursor, limit=limit)

    async def trace(self, message_id):
        self._check()
        return await super().trace(message_id)

    async def _change(self) -> None:
        await asyncio.sleep(0)
        self._check()
        if self.left is not None:
            if not self.left:
                self.down = True
            self.left -= 1
        self._check()

    def _check(self) -> None:
        if self.down:
            raise StoreUnavailable("down")


class World:
    """``brokers`` are further transports, ``groups`` those of Kafka for strictly ordered destinations.

    For these the process has the roles ``works_as``.
    """

    def __init__(
        self, *brokers: MemoryTransport, groups: Sequence[MemoryGroup] = (), works_as: Collection[Role] = ()
    ) -> None:
        self.groups = {group.name: group for group in groups}
        self.works_as = works_as
        self.clock = ManualClock()
        self.store = FickleStore()
        self.transport = MemoryTransport()
        self.brokers = brokers
        self.keyring = Keyring(self.store, self.clock.now)
        self.egress = EgressPolicy(allow_loopback=True)
        self.events = MemoryEvents()
        self.spools = {name: MemorySpool(consumers=("store",)) for name in ("receiver", "direct", "outcomes")}
        self.restart()

    def restart(self) -> None:
        """Begin another life on the same store."""
        chains = over_groups(self.store, self.clock, {"kafka": self.groups} if self.groups else {}, self.works_as)
        carriers = [ChainTransport("kafka", self.groups, chains)] if self.groups else []
        router = TransportRouter([self.transport, *self.brokers, *carriers], self.clock)
        registry = Registry(self.store, SecretBox(None))
        registry.listen(chains.apply)
        registry.listen(router.apply)
        self.context = Context(
            settings=Settings(),
            node="node-1",
            owner="owner-1",
            clock=self.clock,
            noise=lambda: 0.5,
            store=self.store,
            registry=registry,
            keyring=self.keyring,
            router=router,
            poster=MemoryPoster(self.egress, sleep=self.clock.sleep),
            descriptors=Descriptors(1_000_000, self.clock.monotonic),
            egress=self.egress,
            spools=dict(self.spools),
            members=(members := alone(self.store, self.clock)),
            configuration=OneProcess(),
            leaders=leading(self.store, members, self.clock),
            chains=chains,
            peer_key=(peer_key := PeerKey(self.store, self.clock)),
            peers=Peers(peer_key, peer_poster()),
            own_events=(own_events := OwnEvents(self.store, lambda: False)),
            rollups=(rollups := Rollups(self.store, self.clock, "owner-1", lambda: None)),
            claims=None,
            feed=make_feed(self.spools, self.store, registry, rollups, own_events, self.clock),
            events=self.events,
        )
        self.introspection = introspect(self.context, RoleServices(dispatching=NoDispatching()))
        self.services = AdminServices(self.context, self.introspection)
        self.app = make_app(self.services)

    def offer(self, **changes: Any) -> None:
        """Have the roles of this process offer something else."""
        self.introspection.offers = dataclasses.replace(self.introspection.offers, **changes)

    @property
    def registry(self) -> Registry:
        return self.context.registry

    def client(self, key: str | None = None) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        transport = httpx.ASGITransport(self.app)
        hooks = {"response": [is_documented]}
        return httpx.AsyncClient(
            transport=transport, base_url="http://localhost/api/v1", headers=headers, event_hooks=hooks
        )

    async def written(
        self, count: int, *states: Status, names: Sequence[str] = ("billing",), **changes: Any
    ) -> list[Message]:
        """Write messages whose deliveries have these states, in turn."""
        sent = [message(number, expected=tuple(names), **changes) for number in range(count)]
        await self.store.write(sent)
        for number, one in enumerate(sent):
            status = states[number % len(states)] if states else Status.PENDING
            if status is not Status.PENDING:
                await self.store.write([outcome(one, name, status) for name in names])
        return sent

    async def delivery(self, message_id: str, name: str = "billing") -> DeliveryTrace:
        trace = await self.store.trace(message_id)
        assert trace is not None
        return trace.deliveries[name]

    async def rows(self) -> list[Compensation]:
        return list(self.store._rows.values())

    async def attempted(self, row: Compensation, status: Status, **more: Any) -> None:
        """Do what a dispatcher does with a row that was handed over."""
        n = row.attempts + 1
        made = attempt(f"{row.message_id}.{row.subscription}.{row.generation}.{n}", n, self.clock.now())
        changes: dict[str, Any] = {"generation": row.generation, "at": self.clock.now(), "attempt": made, **more}
        await self.store.write([outcome(await self._message(row), row.subscription, status, n, **changes)])

    async def _message(self, row: Compensation) -> Message:
        found = await self.store.message(row.message_id)
        assert found is not None
        return found


@cache
def _documented() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    paths = World().app.openapi()["paths"]
    # Of two paths that match, the one with fewer parameters: /resends/deliveries, not /resends/{job_id}.
    by_values = sorted(paths, key=lambda path: path.count("{"))
    return [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), paths[path]) for path in by_values]


async def is_documented(answer: httpx.Response) -> None:
    """Check that the OpenAPI document lists this status for the operation, if it has the operation."""
    request = answer.request
    operations = next((found for path, found in _documented() if path.fullmatch(request.url.path)), {})
    operation = operations.get(request.method.lower())
    if operation is not None:
        assert str(answer.status_code) in map(str, operation["responses"]), (request.method, request.url.path)


def problem(answer: httpx.Response, status: int, field: str | None = None) -> dict[str, Any]:
    """Check that an answer is a problem document of this status and field."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert document["title"] not in ("", "Error")
    assert document["detail"]
    if field is not None:
        assert document.get("field") == field, document
    return document


async def put(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    """Ask for the subscription ``billing`` of ``orders``."""
    return await client.put(BILLING, json={"url": URL, **fields})


async def made(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    """Make the subscription ``billing`` of ``orders``."""
    answer = await put(client, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def subscribed(*brokers: MemoryTransport) -> World:
    """Return a world with a destination and two subscriptions, a minute later."""
    world = World(*brokers)
    async with world.client() as client:
        await client.put("/destinations/orders", json={})
        for name in ("billing", "mail"):
            await client.put(f"/destinations/orders/subscriptions/{name}", json={"url": URL})
    await world.clock.advance(60)
    return world


@asynccontextmanager
async def running(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """Have somebody work on the jobs; it must not end by itself."""
    runner = asyncio.create_task(world.services.runner.run())
    try:
        async with world.client() as client:
            yield client
    finally:
        assert not runner.done(), runner
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
