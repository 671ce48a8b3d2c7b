"""Requests of strangers never hold up the event loop for more than a moment."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from bus.domain.destination import Destination
from bus.domain.identity import new_id
from bus.domain.message import Message, encode_message
from bus.domain.subscription import Subscription
from bus.domain.times import DAY
from bus.ports.spool import NewRecord
from bus.registry import DESTINATIONS, SUBSCRIPTIONS
from tests.integration.roles.loop_holds import limit, longest_hold
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


@pytest.mark.usefixtures("_quiet_collector")
@pytest.mark.parametrize(
    "stored", [20_000, pytest.param(1_000_000, marks=[pytest.mark.proof, pytest.mark.timeout(1200)])]
)
async def test_nothing_that_the_bus_does_with_much_in_its_store_holds_the_loop(tmp_path: Path, stored: int) -> None:
    async with running(tmp_path) as bus:
        store, now = bus.context.store, bus.context.clock.now()
        await bus.api("PUT", "/destinations/orders", {})
        for first in range(0, stored, 1000):
            # The first tenth is past its retention.
            at = now - 40 * DAY if first < stored // 10 else now - DAY + first
            await store.write([_stored(at + number) for number in range(1000)])

        async def get(path: str) -> None:
            answer = await bus.client.get(path, follow_redirects=True)
            assert answer.status_code == 200, answer.text

        async def post(path: str, body: bytes, kind: str) -> None:
            assert (await bus.client.post(path, content=body, headers={"content-type": kind})).status_code in (200, 202)

        async def expire() -> None:
            dropped.extend((await store.expire(now))[0])

        async def checkpoint() -> None:
            # A log of more than 4 MB is emptied into the file.
            for _ in range(10):
                records = [NewRecord("orders", encode_message(_stored(now)), now) for _ in range(500)]
                await bus.context.spools["receiver"].append(records)

        dropped: list[str] = []
        lines = b"\n".join(b'{"destination":"orders","body":%d}' % number for number in range(250))
        sources: dict[str, Callable[[], Awaitable[object]]] = {
            "expiry": expire,
            "search": lambda: get("/api/v1/messages?destination=orders&limit=200"),
            "search for a text": lambda: get("/api/v1/messages?q=4711&limit=50"),
            "statistics": lambda: get("/api/v1/stats"),
            "overview": lambda: get("/api/v1/overview"),
            "failures": lambda: get("/api/v1/failures"),
            "metrics": lambda: get("/metrics"),
            "a checkpoint": checkpoint,
            "a body of 1 MB": lambda: post("/v1/messages/orders", b'"%s"' % (b"x" * 1_000_000), "application/json"),
            "a batch of 250": lambda: post("/v1/messages", lines, "application/x-ndjson"),
        }
        allowed = limit()
        held = {}
        for source, call in sources.items():
            again = [await longest_hold(call) for _ in range(6)]
            held[source] = again[0] if source == "expiry" else min(again[1:])
        print({source: f"{took * 1000:.1f} ms" for source, took in held.items()}, f"allowed {allowed * 1000:.1f} ms")
        assert len(dropped) == 1
        assert {source: took for source, took in held.items() if took > allowed} == {}


def _stored(at: int) -> Message:
    return Message(
        id=new_id(at),
        destination="orders",
        body=b'{"number":%d}' % at,
        content_type="application/json",
        sent_at=at,
        received_at=at,
        biz_id=f"order-{at}",
    )
