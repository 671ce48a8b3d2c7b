"""What a stranger may ask holds up nobody: however often and wherever, the event loop goes on within a moment."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from bus.domain.destination import Destination
from bus.domain.subscription import Subscription
from bus.registry import DESTINATIONS, SUBSCRIPTIONS
from tests.integration.roles.roles_world import Bus, running

SUBSCRIBED = 400
ASKED = (
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/nowhere"),
    ("PUT", "/api/v1/destinations"),
    ("GET", "/api/v1/session/methods"),
    ("GET", "/api/v1/destinations"),
    ("GET", "/admin/login"),
    ("GET", "/admin/"),
    ("GET", "/admin/assets/x/pier.css"),
    ("POST", "/v1/messages/orders"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/events"),
    ("POST", "/internal/v1/room"),
)


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[Bus]:
    """A bus with a key, and with many subscriptions."""
    async with running(tmp_path) as bus:
        store = bus.context.store
        await store.put(DESTINATIONS, "orders", msgspec.json.encode(Destination(code="orders")))
        made = [Subscription(destination="orders", name=f"s{n}", url="http://127.0.0.1:9/x") for n in range(SUBSCRIBED)]
        await asyncio.gather(*(store.put(SUBSCRIPTIONS, "/".join(one.key), msgspec.json.encode(one)) for one in made))
        await bus.context.registry.load()
        await bus.context.keyring.create_key(roles=("admin",))
        yield bus


def limit() -> float:
    """Return the CPU time of what takes about 20 ms on the machine that the bus was measured on."""
    begun = time.thread_time()
    for number in range(20_000):
        hashlib.sha256(b"%d" % number).hexdigest()
    return time.thread_time() - begun


async def longest_hold(call: Callable[[], Awaitable[object]]) -> float:
    """Return the most CPU time that the loop's thread took between two turns of something else, during a call."""
    turns: list[float] = []

    async def look() -> None:
        while True:
            turns.append(time.thread_time())
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await asyncio.sleep(0)
    await call()
    await asyncio.sleep(0)
    looking.cancel()
    return max(later - earlier for earlier, later in itertools.pairwise(turns))


@pytest.mark.usefixtures("_quiet_collector")
async def test_nothing_that_a_stranger_may_ask_holds_the_loop(closed: Bus) -> None:
    allowed = limit()
    held = {}
    for method, path in ASKED:
        again = [await longest_hold(lambda: closed.client.request(method, path)) for _ in range(3)]  # noqa: B023
        held[method, path] = min(again[1:])
    assert {where: took for where, took in held.items() if took > allowed} == {}


@pytest.fixture
def _quiet_collector() -> Iterator[None]:
    """Have no collection of garbage counted as somebody's hold, as a process of the bus has few."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
