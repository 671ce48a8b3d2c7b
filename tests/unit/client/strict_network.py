"""Receivers of a strictly ordered destination in memory, as an SDK in other threads reaches them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from bus import Bus
from bus.clock import SystemClock
from bus.domain.ordering.chain import produced_by
from bus.testing.broker_group import MemoryGroup
from tests.unit.receiver.strict_world import StrictWorld, held, receivers

T = TypeVar("T")


class Network(httpx.BaseTransport):
    """Brings requests to receivers by their host names; the first one is configured, and sends.

    ``gone`` has those that do not answer.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, worlds: list[StrictWorld], groups: dict[str, MemoryGroup]
    ) -> None:
        self._loop = loop
        self.worlds = {world.url.removeprefix("http://"): world for world in worlds}
        self.groups = groups
        self.gone: set[str] = set()
        self.asked: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        if host in self.gone:
            raise httpx.ConnectError("gone")
        self.asked.append(f"{request.method} {host}{request.url.path}")
        return self.run(self._ask(self.worlds[host], request, request.read()))

    async def _ask(self, world: StrictWorld, request: httpx.Request, content: bytes) -> httpx.Response:
        async with world.client() as client:
            headers = {"content-type": request.headers["content-type"]}
            found = await client.request(request.method, request.url.path, content=content, headers=headers)
        return httpx.Response(found.status_code, content=found.content)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Do something in the receivers' loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    def bus(self, root: Path, source: str = "shop", **options: Any) -> Bus:
        return Bus("http://one", spool=root, source=source, transport=self, events=False, **options)

    def held(self) -> list[int]:
        """The numbers that the groups hold, in order."""
        return [int(body) for body in self.run(self._held())]

    async def _held(self) -> list[bytes]:
        return held(self.groups)

    def set_copies(self, copies: int) -> None:
        async def change() -> None:
            for group in self.groups.values():
                group.set_copies(copies)

        self.run(change())

    def give_up(self) -> None:
        """Have nobody send alone, as a person's command does, until the receivers know."""
        world = self.worlds["one"]

        async def change() -> None:
            await world.put_chain(produced_by(await world.chain(), ""))
            await world.clock.advance(2)

        self.run(change())

    def advance(self, seconds: float) -> None:
        """Let time pass for the receivers."""
        self.run(self.worlds["one"].clock.advance(seconds))

    def owner(self) -> str:
        """Who has the lease; empty for nobody."""
        return self.run(self.worlds["one"].chain()).producer.owner


@contextmanager
def network(*names: str) -> Iterator[Network]:
    """Run receivers in a loop of another thread."""
    ready, over = threading.Event(), asyncio.Event()
    found: list[Network] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with receivers(*names, now=SystemClock().now()) as (worlds, groups):
            found.append(Network(loop, worlds, groups))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(10)
    try:
        yield found[0]
    finally:
        found[0]._loop.call_soon_threadsafe(over.set)
        thread.join()
