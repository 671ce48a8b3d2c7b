"""Processes of a bus over two groups of brokers in memory, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from bus.domain.catalog import Catalog
from bus.domain.destination import Destination, Ordering, TransportName
from bus.domain.message import Message
from bus.domain.ordering.chain import TAKEOVER, Chain, Role
from bus.domain.ordering.document import COLLECTION, decode_chain
from bus.domain.ordering.tenure import terms_of
from bus.domain.subscription import Subscription
from bus.ports.transport import IncomingMessage
from bus.testing.broker_group import MemoryGroup
from bus.testing.clock import ManualClock
from bus.testing.store import MemoryStore
from bus.testing.writes import message
from bus.transports.chains.chains import Chains
from bus.transports.chains.consumer import ChainConsumer
from bus.transports.chains.transport import ChainTransport

CODE = "orders"
ORDERS = Destination(code=CODE, transport=TransportName.KAFKA, ordering=Ordering.STRICT)
BOTH = frozenset(Role)
Found = TypeVar("Found")


def catalog_of(*names: str) -> Catalog:
    """Return the configuration of the destination with these subscriptions."""
    found = [Subscription(destination=CODE, name=name, url="http://a.example/") for name in names]
    return Catalog([ORDERS], found)


class ChainsWorld:
    """Several processes, of which each sees the same groups, coordinator and clock."""

    def __init__(self, *names: str) -> None:
        self.names = names or ("billing",)
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.groups = {"a": MemoryGroup("a"), "b": MemoryGroup("b")}
        self.processes: dict[str, Chains] = {}
        self.transports: dict[str, ChainTransport] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._numbers = 0

    async def begin(self, name: str, roles: frozenset[Role] = BOTH, takeover: float = TAKEOVER) -> Chains:
        """Start a process."""
        url, terms = f"http://{name}", terms_of(takeover)
        chains = Chains(self.store, {"kafka": self.groups}, name, url, roles, self._again, self.clock, terms)
        transport = ChainTransport("kafka", self.groups, chains)
        await transport.ensure(
            ORDERS, [Subscription(destination=CODE, name=one, url="http://a/") for one in self.names]
        )
        await chains.apply(catalog_of(*self.names))
        self.processes[name], self.transports[name] = chains, transport
        self._running[name] = asyncio.create_task(chains.run())
        await self.clock.settle()
        return chains

    async def end(self, name: str) -> None:
        """Have a process gone without a word."""
        self.processes.pop(name)
        running = self._running.pop(name)
        running.cancel()
        await asyncio.wait([running])

    async def close(self) -> None:
        """End all."""
        for name in list(self.processes):
            await self.end(name)

    def messages(self, count: int) -> list[Message]:
        """Return messages with numbers for bodies, that go on from those before."""
        first, self._numbers = self._numbers, self._numbers + count
        return [
            message(number, destination=CODE, body=b"%d" % number, received_at=self.clock.now())
            for number in range(first, first + count)
        ]

    async def chain(self) -> Chain:
        """Return what the coordinator has."""
        found = await self.store.get(COLLECTION, CODE)
        assert found is not None
        return decode_chain(found.value)

    async def _again(self, owner: str, code: str, late: Message) -> bool:
        process = self.processes.get(owner)
        return process is not None and await process.send_again(code, late)


async def received(consumer: ChainConsumer, clock: ManualClock, count: int) -> list[IncomingMessage]:
    """Return so many messages, acking each before the next one is asked for."""
    found: list[IncomingMessage] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            items = await passing(consumer.receive(1), clock)
            found += items
            consumer.ack(items)
    return found


async def passing(wait: Coroutine[Any, Any, Found], clock: ManualClock) -> Found:
    """Return what a wait gives, while simulated time passes; a consumer waits on the loop's own clock as well."""
    task = asyncio.create_task(wait)
    try:
        while not task.done():
            await clock.advance(0.05)
            await asyncio.wait([task], timeout=0.01)
        return task.result()
    finally:
        task.cancel()


def bodies(items: Sequence[IncomingMessage]) -> list[int]:
    """Return their numbers."""
    return [int(item.message.body) for item in items]


@asynccontextmanager
async def world_of(*names: str) -> AsyncIterator[ChainsWorld]:
    """Yield a world; whatever runs in it ends."""
    world = ChainsWorld(*names)
    try:
        yield world
    finally:
        await world.close()
