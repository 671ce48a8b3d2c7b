"""Receivers of strictly ordered destinations over groups of brokers in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from bus.bootstrap import Asgi
from bus.domain.destination import Ordering, TransportName
from bus.domain.message import Message
from bus.domain.ordering.chain import Chain, Role
from bus.domain.ordering.document import COLLECTION, decode_chain, encode_chain
from bus.http.messages import PREFIX
from bus.testing.broker_group import MemoryGroup
from bus.testing.clock import NOON, ManualClock
from bus.testing.cluster import alone, leading
from bus.transports.chains.chains import Chains
from bus.transports.chains.transport import ChainTransport
from bus.transports.router import TransportRouter
from receiver.forwarding import OrderForwarder
from receiver.key_owners import KeyOwners
from receiver.producers_app import PREFIX as PRODUCERS
from receiver.producers_app import ProducersApp
from tests.unit.receiver.receiver_world import SlowStore, World


class StrictWorld(World):
    """One receiver; several have the same groups, store and clock."""

    def __init__(self, name: str, groups: dict[str, MemoryGroup], store: SlowStore, clock: ManualClock) -> None:
        super().__init__(store, clock)
        self.url = f"http://{name}"
        self.chains = Chains(store, {"kafka": groups}, name, self.url, {Role.SENDER}, self._again, clock)
        self.router = TransportRouter([self.transport, ChainTransport("kafka", groups, self.chains)], clock)
        self.registry._listeners[:] = [self.router.apply, self.chains.apply]
        members = alone(store, clock)
        leaders = leading(store, members, clock)
        self.elsewhere = OrderForwarder(leaders, self.chains, KeyOwners(members), None, clock)  # type: ignore[arg-type]
        self.restart()
        self.producers = ProducersApp(self.chains, self.registry, self.keyring)

    async def _again(self, _owner: str, _code: str, _message: Message) -> bool:
        return False

    async def strict(self, code: str = "orders") -> None:
        """Have a strictly ordered destination with one subscription."""
        await self.destination(code, "billing", ordering=Ordering.STRICT, transport=TransportName.KAFKA)

    @property
    def asgi(self) -> Asgi:
        """What its port answers."""

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await (self.producers if scope["path"].startswith(PRODUCERS) else self.app)(scope, receive, send)

        return app

    def client(self) -> httpx.AsyncClient:
        """Return a client of its port."""
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.asgi), base_url="http://127.0.0.1")

    async def take(self, owner: str, code: str = "orders", **more: float) -> httpx.Response:
        async with self.client() as client:
            return await client.post(f"{PRODUCERS}/{code}", json={"owner": owner, **more})

    async def release(self, owner: str, code: str = "orders") -> httpx.Response:
        async with self.client() as client:
            return await client.delete(f"{PRODUCERS}/{code}/{owner}")

    async def batch(self, *bodies: int, producer: int = 0, code: str = "orders") -> list[dict[str, Any]]:
        """Send a line for each number; return what became of them."""
        line = '{"destination": "%s", "producer": %d, "body": %d}'
        content = "\n".join(line % (code, producer, body) for body in bodies)
        async with self.client() as client:
            headers = {"content-type": "application/x-ndjson"}
            answer = await client.post(PREFIX, content=content, headers=headers)
            return answer.json()["results"]

    async def chain(self, code: str = "orders") -> Chain:
        found = await self.store.get(COLLECTION, code)
        assert found is not None
        return decode_chain(found.value)

    async def put_chain(self, chain: Chain, code: str = "orders") -> None:
        """Change the document, as a person's command does."""
        found = await self.store.get(COLLECTION, code)
        assert found is not None
        await self.store.put(COLLECTION, code, encode_chain(chain), version=found.version)


def held(groups: dict[str, MemoryGroup], code: str = "orders") -> list[bytes]:
    """Return the bodies that the groups hold."""
    return [
        message.body
        for group in groups.values()
        for (of, _), queue in group._queues.items()
        if of == code
        for message in queue.waiting
    ]


@asynccontextmanager
async def receivers(*names: str, now: int = NOON) -> AsyncIterator[tuple[list[StrictWorld], dict[str, MemoryGroup]]]:
    """Run receivers; the first one sends."""
    groups = {"a": MemoryGroup("a"), "b": MemoryGroup("b")}
    store, clock = SlowStore(), ManualClock(now)
    worlds = [StrictWorld(name, groups, store, clock) for name in names]
    await worlds[0].strict()
    for world in worlds[1:]:
        await world.registry.refresh()
    tasks = [asyncio.create_task(world.chains.run()) for world in worlds]
    await clock.settle()
    try:
        yield worlds, groups
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
