"""A topic of two clusters, lookup proxies as processes, and clients that find nsqds through them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from tests.harness.bus_process import BusProcess
from tests.harness.http import PLAIN
from tests.harness.nsq_clients import Consumer, Producer, inversions, missing
from tests.harness.waiting import until

TOPIC: Final = "orders"
CHANNEL: Final = "billing"
EVERY: Final = 0.2
"""Seconds between two lookups of a client, well below the interval that migrations are told."""
PREFIX: Final = "/api/v1/lookup/migrations"


class Proxies:
    """Lookup proxies that share a store, of which any may be killed and started again.

    Parameters
    ----------
    clusters
        By name ``HOST:PORT`` of one nsqlookupd; the first one is produced to.
    """

    def __init__(self, folder: Path, clusters: Mapping[str, str], count: int = 1) -> None:
        self.path = folder / "lookup.json"
        self._clusters = clusters
        self.route(next(iter(clusters)))
        env = {"BUS_LOOKUP_CONFIG": str(self.path), "BUS_STORE": f"sqlite:///{folder / 'shared.db'}"}
        self.processes = [BusProcess(folder / f"proxy-{n}", role="lookup", env=env) for n in range(count)]

    def route(self, name: str) -> None:
        """Write the file so that all topics are in a cluster."""
        topics = [{"#D": {"#C": [name], "#P": name}}]
        self.path.write_text(json.dumps({"topics": topics, "lookupSchema": dict(self._clusters)}))

    @property
    def urls(self) -> list[str]:
        """Where they are."""
        return [process.url for process in self.processes]

    def call(self, method: str, path: str = "", body: object = None, proxy: int = 0) -> dict[str, Any]:
        """Make a request of the API of one of them."""
        answer = httpx.request(method, f"{self.urls[proxy]}{PREFIX}{path}", json=body, timeout=30, **PLAIN)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def status(self, migration_id: str) -> dict[str, Any]:
        """Return a migration as whichever of them answers knows it."""
        async with httpx.AsyncClient(**PLAIN) as client:
            while True:
                for url in self.urls:
                    try:
                        answer = await client.get(f"{url}{PREFIX}/{migration_id}")
                    except httpx.TransportError:
                        await asyncio.sleep(0.05)
                        continue
                    found: dict[str, Any] = answer.raise_for_status().json()
                    return found

    async def kill(self, number: int) -> None:
        """Kill one and start it again."""
        process = self.processes[number]
        await asyncio.to_thread(process.kill)
        await asyncio.to_thread(process.start)


class Traffic(NamedTuple):
    """Clients under way."""

    producers: Sequence[Producer]
    consumers: Sequence[Consumer]

    @property
    def sent(self) -> dict[str, int]:
        """By key the last number that was confirmed."""
        return {key: number for producer in self.producers for key, number in producer.sent.items()}

    @property
    def count(self) -> int:
        """How many messages were confirmed."""
        return sum(self.sent.values())

    @property
    def lost(self) -> dict[str, list[int]]:
        """What was confirmed and did not come."""
        return missing(self.sent, *self.consumers)

    @property
    def inverted(self) -> list[dict[str, list[int]]]:
        """What came out of order."""
        return [found for consumer in self.consumers if (found := inversions(consumer))]

    async def flows(self, more: int = 50) -> None:
        """Wait until so many more messages were confirmed."""
        count = self.count + more
        await until(lambda: self.count >= count, within=60, what=f"{more} more messages are sent")

    async def end(self, within: float = 30) -> None:
        """Send no more, and wait until all has come."""
        for producer in self.producers:
            producer.stopping = True
        await until(lambda: not self.lost, within=within, what="all messages come", state=lambda: self.lost)


@asynccontextmanager
async def traffic(
    urls: Sequence[str], *, rate: float, producers: int = 1, consumers: int = 1, is_ordered: bool = False
) -> AsyncIterator[Traffic]:
    """Produce and consume, so many messages a second in all."""
    async with AsyncExitStack() as stack:
        consuming = [
            await stack.enter_async_context(Consumer(urls, TOPIC, CHANNEL, EVERY, is_ordered=is_ordered))
            for _ in range(consumers)
        ]
        producing = [
            await stack.enter_async_context(
                Producer(urls, TOPIC, EVERY, [f"p{n}-k{key}" for key in range(10)], rate / producers)
            )
            for n in range(producers)
        ]
        yield Traffic(producing, consuming)
