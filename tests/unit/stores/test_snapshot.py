"""The configuration on disk stands in for the store while that is away, and never otherwise."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from bus.errors import StoreUnavailable
from bus.files import write_whole
from bus.ports.store import Document
from bus.stores.snapshot import NOTE, Snapshot, decode_note
from bus.testing.store import MemoryStore

MARK = ("settings", "revision")


class Flaky(MemoryStore):
    away = False
    lists = 0

    async def get(self, collection, key):
        self._reach()
        return await super().get(collection, key)

    async def list(self, collection, *, prefix="", after="", limit=None):
        self._reach()
        self.lists += 1
        return await super().list(collection, prefix=prefix, after=after, limit=limit)

    async def put(self, collection, key, value, *, version=None):
        self._reach()
        return await super().put(collection, key, value, version=version)

    def _reach(self) -> None:
        if self.away:
            raise StoreUnavailable("the store is away")


@pytest.fixture
async def store() -> Flaky:
    store = Flaky()
    for key in ("a", "b", "c"):
        await store.put("destinations", key, key.encode())
    await store.put("idempotency", "x", b"x")
    return store


def snapshot(store: Flaky, path: Path) -> Snapshot:
    return Snapshot(store, path, frozenset({"destinations", "settings"}), MARK)


async def test_what_was_listed_is_there_after_a_restart_without_the_store(store: Flaky, tmp_path: Path) -> None:
    listed = await snapshot(store, tmp_path).list("destinations")
    store.away = True
    kept = snapshot(store, tmp_path)
    assert await kept.list("destinations") == listed
    assert kept.is_old
    assert [item.key for item in await kept.list("destinations", after="a", limit=1)] == ["b"]
    assert [item.key for item in await kept.list("destinations", prefix="c")] == ["c"]
    assert (await kept.get("destinations", "b")) == listed[1]
    assert await kept.get("destinations", "z") is None
    store.away = False
    await kept.list("destinations")
    assert not kept.is_old


async def test_what_was_never_seen_is_not_guessed(store: Flaky, tmp_path: Path) -> None:
    kept = snapshot(store, tmp_path)
    await kept.list("idempotency")
    store.away = True
    with pytest.raises(StoreUnavailable):
        await kept.list("destinations")
    with pytest.raises(StoreUnavailable):
        await kept.list("idempotency")
    with pytest.raises(StoreUnavailable):
        await kept.get("destinations", "a")


async def test_the_store_wins_while_it_answers_and_changes_need_it(store: Flaky, tmp_path: Path) -> None:
    kept = snapshot(store, tmp_path)
    await kept.list("destinations")
    await kept.delete("destinations", "a")
    assert await kept.put("destinations", "b", b"new") == 2
    assert [(item.key, item.value) for item in await kept.list("destinations")] == [("b", b"new"), ("c", b"c")]
    store.away = True
    with pytest.raises(StoreUnavailable):
        await kept.put("destinations", "b", b"newer")
    assert [item.value for item in await kept.list("destinations")] == [b"new", b"c"]


async def test_a_part_of_a_collection_is_not_taken_for_the_whole(store: Flaky, tmp_path: Path) -> None:
    kept = snapshot(store, tmp_path)
    await kept.list("destinations")
    await kept.list("destinations", limit=1)
    await kept.list("destinations", prefix="b")
    store.away = True
    assert len(await kept.list("destinations")) == 3


async def test_a_torn_file_is_none_and_the_file_is_the_owners_alone(store: Flaky, tmp_path: Path) -> None:
    kept = snapshot(store, tmp_path)
    await kept.list("destinations")
    (path,) = (tmp_path / "configuration").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(path.read_bytes()[:-2])
    store.away = True
    with pytest.raises(StoreUnavailable):
        await snapshot(store, tmp_path).list("destinations")


async def test_a_disk_that_cannot_keep_it_harms_nobody(store: Flaky, tmp_path: Path) -> None:
    (tmp_path / "configuration").write_text("in the way")
    assert len(await snapshot(store, tmp_path).list("destinations")) == 3


async def test_those_who_keep_the_same_collection_at_the_same_time_do_not_mix(
    store: Flaky, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Roles that run apart share the directory of one data folder."""
    versions = [snapshot(store, tmp_path) for _ in range(6)]
    for turn in range(15):
        await store.put("destinations", "a", bytes([turn]) * 200_000)
        await asyncio.gather(*(kept.list("destinations") for kept in versions))
        expected = await store.list("destinations")
        store.away = True
        assert await snapshot(store, tmp_path).list("destinations") == expected
        store.away = False
    assert not caplog.records
    assert [path.name for path in (tmp_path / "configuration").iterdir()] == ["destinations.snapshot"]


class Overtaken(Flaky):
    """A store of which a list, once it is read, comes back only when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read, self.may_return = asyncio.Event(), asyncio.Event()

    async def list(self, collection, *, prefix="", after="", limit=None):
        found = await super().list(collection, prefix=prefix, after=after, limit=limit)
        self.is_read.set()
        await self.may_return.wait()
        return found


async def test_a_list_that_a_change_overtakes_has_the_change(tmp_path: Path) -> None:
    store = Overtaken()
    kept = snapshot(store, tmp_path)
    version = await kept.put("destinations", "a", b"old")
    listing = asyncio.create_task(kept.list("destinations"))
    await store.is_read.wait()
    await kept.put("destinations", "a", b"new", version=version)
    store.may_return.set()
    assert [one.value for one in await listing] == [b"new"]


async def test_a_large_collection_is_read_in_pages_and_what_did_not_change_is_the_same_object(
    store: Flaky, tmp_path: Path
) -> None:
    names = [f"d{number:04}" for number in range(1200)]
    for name in names:
        await store.put("destinations", name, b"x")
    kept, turns = snapshot(store, tmp_path), list[int]()

    async def others() -> None:
        while True:
            turns.append(store.lists)
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    first = await kept.list("destinations")
    assert [one.key for one in first] == ["a", "b", "c", *names]
    assert set(turns) >= {1, 2}, "others are served between two pages"
    beside.cancel()
    await store.put("destinations", "d0001", b"y")
    again = await kept.list("destinations")
    assert [one.key for one, before in zip(again, first, strict=True) if one is not before] == ["d0001"]
    store.away = True
    assert await kept.list("destinations") == again


async def test_a_change_while_a_list_is_kept_on_disk_is_in_it(
    store: Flaky, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_writing, may_write = threading.Event(), threading.Event()

    def write(path: Path, content: bytes) -> None:
        is_writing.set()
        may_write.wait(60)
        write_whole(path, content)

    monkeypatch.setattr("bus.stores.snapshot.write_whole", write)
    kept = snapshot(store, tmp_path)
    listing = asyncio.create_task(kept.list("destinations"))
    await asyncio.to_thread(is_writing.wait, 60)
    await kept.put("destinations", "a", b"new")
    may_write.set()
    assert [one.value for one in await listing] == [b"new", b"b", b"c"]


async def known(store: Flaky, path: Path) -> None:
    """Keep all of a store that a configuration was written to."""
    await store.put(*MARK, b"")
    kept = snapshot(store, path)
    await kept.list("settings")
    await kept.list("destinations")


def keys(found: list[Document]) -> list[str]:
    return [document.key for document in found]


@pytest.mark.parametrize("first", ["the mark", "a collection"])
async def test_what_is_kept_is_put_back_into_a_store_that_lost_it(store: Flaky, tmp_path: Path, first: str) -> None:
    await known(store, tmp_path)
    emptied = Flaky()
    await emptied.put("destinations", "b", b"made since")
    if first == "the mark":
        assert await snapshot(emptied, tmp_path).get(*MARK) is None
    else:
        await snapshot(emptied, tmp_path).list("settings")
    assert [(found.key, found.value) for found in await emptied.list("destinations")] == [
        ("a", b"a"),
        ("b", b"made since"),
        ("c", b"c"),
    ]
    note = await emptied.get("settings", NOTE)
    assert note is not None
    assert decode_note(note.value).documents == tuple(("destinations", key) for key in "abc")
    assert not await snapshot(emptied, tmp_path).restore()


async def test_what_was_cut_off_is_put_back_by_the_next_look(store: Flaky, tmp_path: Path) -> None:
    await known(store, tmp_path)
    emptied = Flaky()
    kept = snapshot(emptied, tmp_path)
    plain = emptied.put

    async def put(collection, key, value, *, version=None):
        if key == "c":
            raise StoreUnavailable("away again")
        return await plain(collection, key, value, version=version)

    emptied.put = put  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await kept.restore()
    emptied.put = plain  # type: ignore[method-assign]
    assert await kept.restore()
    assert keys(await emptied.list("destinations")) == ["a", "b", "c"]


async def test_what_somebody_removed_is_not_put_back(store: Flaky, tmp_path: Path) -> None:
    await known(store, tmp_path)
    for key in ("a", "b", "c"):
        await store.delete("destinations", key)
    kept = snapshot(store, tmp_path)
    assert await kept.list("destinations") == []
    assert await kept.get(*MARK) is not None
    assert await store.get("settings", NOTE) is None
