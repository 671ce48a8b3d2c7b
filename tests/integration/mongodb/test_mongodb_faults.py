"""A server that is killed, hangs, is away, or refuses: a clear error in time, and repeating the call makes it right."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.destination import Destination
from bus.domain.message import Message
from bus.domain.searching.selection import Selection
from bus.errors import ConfigurationError, StoreError, StoreUnavailable
from bus.registry import COLLECTIONS, DESTINATIONS, MARK, Registry
from bus.security.secrets import SecretBox
from bus.stores.mongodb import MongodbStore
from bus.stores.mongodb.connection import OPTIONS
from bus.stores.snapshot import Snapshot
from bus.testing.contracts.store_traces import life
from bus.testing.store import MemoryStore
from bus.testing.writes import DESTINATION, NOON, message, outcome, row
from tests.harness.process import free_port
from tests.harness.waiting import until
from tests.integration.mongodb.relay import relaying
from tests.servers.mongodb_fixtures import database_url, indexes_of, open_store
from tests.servers.mongodb_server import MongodbServer

# A connection that the driver gives up while it is being made leaves its socket to the collector.
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"),
]
Given = TypeVar("Given")
Answer = TypeVar("Answer")
LANE = (DESTINATION, "billing")
BOUND = 20.0  # seconds: five for an exchange, and what a loaded machine adds
LONG = 60.0  # seconds that no wait of a test may come to
AT_ONCE = LONG / 2


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up on a server that is not there sooner than the bus does."""
    for name, milliseconds in {"serverSelectionTimeoutMS": 500, "connectTimeoutMS": 400}.items():
        monkeypatch.setitem(OPTIONS, name, milliseconds)


async def insist(call: Callable[[Given], Awaitable[Answer]], given: Given) -> Answer:
    """Call the store as the spool does: again until it answers."""
    async with asyncio.timeout(LONG):
        while True:
            try:
                return await call(given)
            except StoreUnavailable:
                await asyncio.sleep(0.1)


class Writers:
    """Write messages as the spool does until told to end."""

    COUNT = 4

    def __init__(self, store: MongodbStore, model: MemoryStore) -> None:
        self.returned: list[Message] = []
        self.refused: set[int] = set()
        self.over = False
        self._store = store
        self._model = model

    async def work(self, number: int) -> None:
        """Write one message after the other."""
        for name in itertools.count(number * 100_000):
            writes = life(message(name))
            await self._model.write(writes)
            await self._insist(number, writes)
            self.returned.append(message(name))
            if self.over:
                return

    async def _insist(self, number: int, writes: list) -> None:
        while True:
            try:
                return await self._store.write(writes)
            except StoreUnavailable:
                self.refused.add(number)
                await asyncio.sleep(0.1)


@pytest.mark.usefixtures("impatient")
async def test_a_kill_in_mid_write_loses_nothing_that_returned(own: MongodbServer) -> None:
    store = await open_store(database_url(own.url))
    model = MemoryStore()
    writers = Writers(store, model)
    returned = writers.returned
    async with asyncio.TaskGroup() as tasks:
        for number in range(writers.COUNT):
            tasks.create_task(writers.work(number))
        for _ in range(2):
            enough = len(returned) + 10
            await until(lambda: len(returned) > enough, what="messages written")  # noqa: B023
            await asyncio.to_thread(own.kill)
            writers.refused.clear()
            await until(lambda: len(writers.refused) == writers.COUNT, what="a refusal of each writer")
            before = [*returned]
            await asyncio.to_thread(own.start)
            for sent in before:
                assert await insist(store.trace, sent.id) == await model.trace(sent.id)
        writers.over = True
    for sent in returned:
        assert await store.trace(sent.id) == await model.trace(sent.id)
        assert await store.message(sent.id) == sent
    assert await store.due(NOON) == {}
    await store.close()


async def test_a_server_that_hangs_is_unavailable_in_time(own: MongodbServer) -> None:
    store = await open_store(database_url(own.url))
    await insist(store.write, [message()])
    await insist(store.compensate, [row(message())])
    own.pause()
    try:
        calls = (
            store.write([message(1)]),
            store.trace(message().id),
            store.message(message().id),
            store.search(Selection()),
            store.lease(NOON, NOON, {LANE: 1}, 1),
            store.due(0),
            store.next_due(),
            store.put("c", "k", b""),
            store.list("c"),
            store.cancel(*LANE, NOON),
            store.expire(NOON),
            store.unsettled(*LANE, NOON, 1),
        )
        started = time.monotonic()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results] == [StoreUnavailable] * len(calls)
        assert all(result.hint for result in results if isinstance(result, StoreUnavailable))
        assert time.monotonic() - started < BOUND
        started = time.monotonic()
        other = await open_store(database_url(own.url))
        assert time.monotonic() - started < BOUND
    finally:
        own.resume()
    await insist(other.write, [message(2)])
    await other.close()
    await insist(store.write, [message(1)])
    assert await store.message(message(1).id) == message(1)
    await store.close()


async def test_cancelling_a_call_passes_while_the_server_hangs(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bus.stores.mongodb.connection.DEADLINE", LONG)
    monkeypatch.setitem(OPTIONS, "socketTimeoutMS", int(LONG * 1000))
    async with relaying(database) as relay:
        store = await open_store(relay.url)
        await store.write([message()])
        await asyncio.gather(*(store.get("c", "k") for _ in range(3)))  # so that there is a connection for each call
        relay.keep_answers()
        calls = [asyncio.create_task(call) for call in (store.trace(message().id), store.write([message(1)]))]
        await relay.asked(b"listCollections", b"bodies_")
        for call in calls:
            call.cancel()
        _, late = await asyncio.wait(calls, timeout=AT_ONCE)
        assert not late
        assert all(call.cancelled() for call in calls)
        relay.end()
        await insist(store.write, [message(2)])
        assert await store.message(message(2).id) == message(2)
        await store.close()


@pytest.mark.parametrize("word", [b"bodies_", b"lanes", b"compensations", b"traces_"])
async def test_a_write_whose_answer_is_lost_may_be_repeated(database: str, word: bytes) -> None:
    """The server has done it, and nobody knows."""
    writes = [message(), outcome(message(), "billing", Status.RETRYING), outcome(message(), "mail", Status.DELIVERED)]
    model = MemoryStore()
    await model.write(writes)
    async with relaying(database) as relay:
        store = await open_store(relay.url)
        await store.write([message(1, expected=())])
        relay.keep_answers(word)
        writing = asyncio.create_task(store.write(writes))
        await relay.asked(word)
        relay.end()
        with suppress(StoreUnavailable):
            await writing
        await insist(store.write, writes)
        assert await store.trace(message().id) == await model.trace(message().id)
        assert await store.message(message().id) == message()
        for each in (store, model):
            (leased,) = await each.lease(NOON * 2, NOON * 3, {LANE: 9}, 9)
            assert (leased.epoch, leased.attempts) == (1, 1)
        await store.close()


async def test_a_lease_whose_answer_is_lost_ends_by_itself(database: str) -> None:
    async with relaying(database) as relay:
        store = await open_store(relay.url)
        await store.compensate([row(message(number)) for number in range(5)])
        relay.keep_answers(b"claim")
        leasing = asyncio.create_task(store.lease(NOON * 2, NOON * 3, {LANE: 9}, 9))
        await relay.asked(b"claim")
        relay.end()
        with suppress(StoreUnavailable):  # where the driver may repeat a write, it hides the loss
            assert len(await leasing) == 5
        await until_leased(store)
        assert await store.lease(NOON * 3 - 1, NOON * 3, {LANE: 9}, 9) == []
        assert [one.epoch for one in await store.lease(NOON * 3, NOON * 4, {LANE: 9}, 9)] == [2] * 5
        await store.close()


async def until_leased(store: MongodbStore) -> None:
    """Wait until the server has done what it was asked on a connection that ended."""
    async with asyncio.timeout(LONG):
        while True:
            if await insist(lambda _: store.next_due(), None) == NOON * 3:
                return
            await asyncio.sleep(0.05)


async def test_a_wiped_server_takes_everything_again(own: MongodbServer) -> None:
    url = database_url(own.url)
    store = await open_store(url)
    writes = [message(), outcome(message(), "billing", Status.RETRYING)]
    await insist(store.write, writes)
    indexes = await indexes_of(url)
    await asyncio.to_thread(own.wipe)
    await insist(store.write, writes)
    assert await indexes_of(url) == indexes
    assert await store.message(message().id) == message()
    assert await store.due(0) == {LANE: 1}
    assert await store.subscribed() == {LANE, (DESTINATION, "mail")}
    await store.close()


async def test_a_server_that_is_wiped_meanwhile_gets_the_kept_configuration_back(
    own: MongodbServer, tmp_path: Path
) -> None:
    url = database_url(own.url)
    store = await open_store(url)
    registry = Registry(Snapshot(store, tmp_path, COLLECTIONS, MARK), SecretBox(None))
    await insist(lambda _: registry.load(), None)
    await insist(lambda _: registry.put_destination(Destination(code="orders")), None)
    await asyncio.to_thread(own.wipe)
    await insist(lambda _: registry.refresh(), None)
    assert registry.trouble
    assert "orders" in registry.catalog.destinations
    assert await insist(lambda _: store.get(DESTINATIONS, "orders"), None) is not None
    await store.close()


@pytest.mark.usefixtures("impatient")
async def test_a_store_may_start_before_its_server(own: MongodbServer) -> None:
    await asyncio.to_thread(own.stop)
    url = database_url(own.url)
    store = await open_store(url)
    with pytest.raises(StoreUnavailable):
        await store.write([message()])
    await asyncio.to_thread(own.start)
    await insist(store.write, [message()])
    assert await store.message(message().id) == message()
    await store.close()


async def test_nobody_at_the_address_is_unavailable() -> None:
    started = time.monotonic()
    store = await open_store(f"mongodb://127.0.0.1:{free_port()}/bus")
    with pytest.raises(StoreUnavailable, match="does not answer") as caught:
        await store.write([message()])
    assert caught.value.retriable
    assert "check that the server runs" in caught.value.hint
    await store.close()
    assert time.monotonic() - started < BOUND


async def test_many_callers_wait_no_longer_than_one_while_nobody_is_there() -> None:
    store = await open_store(f"mongodb://127.0.0.1:{free_port()}/bus")
    calls = [
        call for number in range(12) for call in (store.write([message(number)]), store.compensate([row(message())]))
    ]
    started = time.monotonic()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailable] * len(calls)
    assert time.monotonic() - started < BOUND  # one after the other takes twice as long
    await store.close()


@pytest.mark.usefixtures("impatient")
async def test_a_name_that_does_not_resolve_now_is_unavailable() -> None:
    for scheme in ("mongodb", "mongodb+srv"):
        store = await open_store(f"{scheme}://nobody.invalid/bus")
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"nobody\.invalid"):
                await store.get("c", "k")
        await store.close()


async def test_a_login_that_is_refused_says_so_without_the_password(mongodb: str) -> None:
    url = mongodb.replace("mongodb://", "mongodb://pier:s3cret@")
    with pytest.raises(StoreError, match="refuses the login") as caught:
        await open_store(url)
    assert not caught.value.retriable
    assert "authSource" in caught.value.hint
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(("options", "why"), [("", "closed"), ("?tls=true", "wrong version number")])
@pytest.mark.usefixtures("impatient")
async def test_a_server_that_speaks_something_else_is_named(options: str, why: str) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        store = await open_store(f"mongodb://127.0.0.1:{port}/bus{options}")
        with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port}.*{why}"):
            await store.get("c", "k")
        await store.close()


def running_threads() -> set[threading.Thread]:
    """Return all but those of the event loop's own executor, which ends with the loop."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")}


async def test_a_closed_store_leaves_nothing_behind(own: MongodbServer) -> None:
    tasks, threads = asyncio.all_tasks(), running_threads()
    store = await open_store(database_url(own.url))
    await asyncio.gather(*(insist(store.write, [message(number)]) for number in range(10)))
    await store.close()
    own.pause()
    try:
        away = await open_store(database_url(own.url))
        with pytest.raises(StoreUnavailable):
            await away.trace(message().id)
        await away.close()
    finally:
        own.resume()
    assert asyncio.all_tasks() == tasks
    assert running_threads() == threads


@pytest.mark.parametrize(
    "url",
    [
        "postgres://127.0.0.1/bus",
        "mongodb://",
        "mongodb://127.0.0.1:port/bus",
        "mongodb://pier:s3/cret@127.0.0.1/bus",
        "mongodb://127.0.0.1/b us",
        "mongodb://127.0.0.1/bus?tls=perhaps",
    ],
)
async def test_a_url_that_cannot_be_used_stops_the_start(url: str) -> None:
    with pytest.raises(ConfigurationError, match="the store's URL") as caught:
        await open_store(url)
    assert "mongodb://USER" in caught.value.hint
    assert "s3" not in str(caught.value)


async def test_a_closed_store_refuses_writes(database: str) -> None:
    store = await open_store(database)
    write = asyncio.create_task(store.write([message()]))
    await asyncio.sleep(0)
    await store.close()
    await write
    with pytest.raises(StoreError):
        await store.write([message(1)])
    again = await open_store(database)
    assert await again.message(message().id) == message()
    await again.close()
