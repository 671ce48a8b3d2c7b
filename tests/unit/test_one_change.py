"""A change of one subscription, with hundreds there, is work on that one: counted, not timed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from bus.domain.catalog import Catalog
from bus.domain.destination import Destination, TransportName
from bus.domain.subscription import Subscription
from bus.ports.spool import NewRecord
from bus.registry import COLLECTIONS, DESTINATIONS, MARK, SUBSCRIPTIONS, Registry
from bus.security.secrets import SecretBox
from bus.spool import AsyncSpool, Options
from bus.spool.file import CursorRow, SpoolFile
from bus.stores import snapshot
from bus.stores.snapshot import Snapshot, read_kept
from bus.testing.cluster import all_permits
from bus.testing.store import MemoryStore
from bus.testing.transport import MemoryTransport
from bus.transports.router import TransportRouter
from dispatcher.dispatcher import Dispatcher
from tests.unit.dispatcher.dispatcher_world import World

MANY = 300
ORDERS = Destination(code="orders")


def subscription(number: int, url: str = "http://127.0.0.1:8000/hook") -> Subscription:
    return Subscription(destination="orders", name=f"s{number:03}", url=url)


class Counted(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    async def list(self, collection, *, prefix="", after="", limit=None):
        self.asked["lists"] += 1
        return await super().list(collection, prefix=prefix, after=after, limit=limit)

    async def put(self, collection, key, value, *, version=None):
        self.asked["puts"] += 1
        return await super().put(collection, key, value, version=version)


class CountedTransport(MemoryTransport):
    def __init__(self) -> None:
        super().__init__(TransportName.DIRECT)
        self.ensured: list[str] = []

    async def ensure(self, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        self.ensured += [found.name for found in subscriptions]
        await super().ensure(destination, subscriptions)


async def filled() -> Counted:
    store = Counted()
    await store.put(DESTINATIONS, "orders", msgspec.json.encode(ORDERS))
    for number in range(MANY):
        one = subscription(number)
        await store.put(SUBSCRIPTIONS, f"orders/{one.name}", msgspec.json.encode(one))
    await store.put(*MARK, b"")
    return store


async def test_the_store_is_written_to_and_not_read_and_the_files_are_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await filled()
    kept = Snapshot(store, tmp_path, COLLECTIONS, MARK)
    registry = Registry(kept, SecretBox(None))
    await registry.load()
    store.asked.clear()
    files: list[str] = []
    write = snapshot.write_whole
    monkeypatch.setattr(snapshot, "write_whole", lambda path, content: (files.append(path.stem), write(path, content)))
    for number in range(20):
        await registry.put_subscription(subscription(MANY + number))
        await registry.refresh()
    assert store.asked == {"puts": 2 * 20}
    assert files == []
    await kept.write()
    assert sorted(files) == ["settings", "subscriptions"]
    await kept.write()
    assert len(files) == 2
    on_disk = read_kept(tmp_path, SUBSCRIPTIONS)
    assert on_disk == await store.list(SUBSCRIPTIONS)
    assert on_disk is not None
    assert len(on_disk) == MANY + 20


async def test_a_change_of_somebody_else_is_still_read(tmp_path: Path) -> None:
    store = await filled()
    ours = Registry(Snapshot(store, tmp_path / "ours", COLLECTIONS, MARK), SecretBox(None))
    theirs = Registry(Snapshot(store, tmp_path / "theirs", COLLECTIONS, MARK), SecretBox(None))
    await ours.load()
    await theirs.load()
    await theirs.put_subscription(subscription(MANY))
    await ours.put_subscription(subscription(MANY + 1))
    await ours.refresh()
    await theirs.refresh()
    assert ours.catalog.subscriptions == theirs.catalog.subscriptions
    assert len(ours.catalog.subscriptions) == MANY + 2


async def test_one_queue_is_made_and_one_worker_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    world, transport = World(), CountedTransport()
    router = TransportRouter([transport], world.clock)
    catalog = Catalog([ORDERS], [subscription(number) for number in range(MANY)])
    await router.apply(catalog)
    dispatcher, stopping = Dispatcher(router, world.dependencies(), all_permits()), asyncio.Event()
    running = asyncio.create_task(dispatcher.run(catalog, stopping))
    await world.clock.settle()
    transport.ensured.clear()
    targets: list[str] = []
    target = world.poster.target

    def counted(url: str, headers: dict[str, str]) -> object:
        targets.append(url)
        return target(url, headers)

    monkeypatch.setattr(world.poster, "target", counted)
    for changed in (subscription(MANY), subscription(7, "http://127.0.0.1:8000/other")):
        catalog = catalog.changed(subscriptions=[changed])
        await router.apply(catalog)
        await dispatcher.apply(catalog)
    assert transport.ensured == [f"s{MANY}"]
    assert set(targets) == {"http://127.0.0.1:8000/hook", "http://127.0.0.1:8000/other"}
    assert len(targets) <= 3
    stopping.set()
    await world.clock.until(running.done)
    running.result()


async def test_the_queue_s_file_gets_one_place_for_one_consumer_that_joins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = await AsyncSpool.open(tmp_path, Options(consumers=()))
    for number in range(MANY):
        spool.attach("orders", f"s{number}")
    await spool.settle()
    saved: list[str] = []
    save = SpoolFile.save_cursors

    def counted(file: SpoolFile, rows: Sequence[CursorRow]) -> None:
        saved.extend(row.consumer for row in rows)
        save(file, rows)

    monkeypatch.setattr(SpoolFile, "save_cursors", counted)
    spool.attach("orders", "new")
    await spool.settle()
    assert saved == ["new"]
    # A place that has moved since it was stored goes with it.
    await spool.append([NewRecord("orders", b"x", 1)])
    await spool.claim("s1", 1, "orders")
    saved.clear()
    spool.attach("orders", "newer")
    await spool.settle()
    assert sorted(saved) == ["newer", "s1"]
    await spool.close()
