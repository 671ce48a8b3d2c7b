"""Documents in ZooKeeper: paths, allowed content, and views of several clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.security import READ_ACL_UNSAFE

from bus.coordinators.zookeeper import ZookeeperDocuments
from bus.coordinators.zookeeper.documents import MOST_BYTES, ROOT
from bus.coordinators.zookeeper.names import node_of
from bus.errors import Conflict, StoreError, StoreUnavailable
from bus.ports.store import Document

KEYS = [
    "",
    " ",
    ".",
    "..",
    "/",
    "//",
    "a/../b",
    "zookeeper",
    "=",
    "%2F",
    "\x00\x1f\x7f",
    "\ufff0\ud7ff\U0001f600",
    "k" * 900,
]


@pytest.fixture
def client(zookeeper: str) -> Iterator[KazooClient]:
    made = KazooClient(zookeeper)
    made.start()
    yield made
    made.stop()
    made.close()


def path_of(place: str, *names: str) -> str:
    return "/".join(["", place.partition("/")[2], *map(node_of, names)])


async def test_any_text_is_a_key_and_a_collection(documents: ZookeeperDocuments) -> None:
    for key in KEYS:
        assert await documents.put("c", key, key.encode(), version=0) == 1
        assert await documents.put(key, "k", b"", version=0) == 1
    # Behind the empty key, as in every store.
    assert await documents.list("c") == [Document(key, 1, key.encode()) for key in sorted(KEYS)[1:]]
    for key in KEYS:
        assert await documents.get("c", key) == Document(key, 1, key.encode())
        assert await documents.delete("c", key)
    assert await documents.list("c") == []


async def test_a_document_as_large_as_zookeeper_takes_and_no_larger(documents: ZookeeperDocuments, place: str) -> None:
    await documents.put("c", "k", b"small")
    room = MOST_BYTES - len(path_of(place, "c", "k"))
    assert await documents.put("c", "k", b"x" * room, version=1) == 2
    with pytest.raises(StoreError, match=r"c/k has 1048320 bytes with its name.*nothing was written") as caught:
        await documents.put("c", "k", b"x" * (room + 1), version=2)
    assert not isinstance(caught.value, StoreUnavailable)
    found = await documents.get("c", "k")
    assert found is not None
    assert (found.version, len(found.value)) == (2, room)
    assert await documents.put("c", "new", b"x" * (room - 2), version=0) == 1


async def test_a_document_that_was_deleted_begins_anew(documents: ZookeeperDocuments) -> None:
    for _ in range(2):
        assert await documents.put("c", "k", b"1", version=0) == 1
        assert await documents.put("c", "k", b"2") == 2
        assert await documents.delete("c", "k")
    assert not await documents.delete("never", "k")


async def test_what_others_put_there_is_in_nobodys_way(
    documents: ZookeeperDocuments, place: str, client: KazooClient
) -> None:
    await documents.put("c", "k", b"mine")
    for name in ("lock", "=%ff", "=a b"):
        await asyncio.to_thread(client.create, f"{path_of(place, 'c')}/{name}", b"theirs")
    await asyncio.to_thread(client.create, path_of(place, "c", "null"), None)
    assert await documents.list("c") == [Document("k", 1, b"mine"), Document("null", 1, b"")]
    await asyncio.to_thread(client.create, f"{path_of(place, 'c', 'k')}/below", b"theirs")
    with pytest.raises(StoreError, match=r"cannot do this \(delete c/k\): not empty"):
        await documents.delete("c", "k")


async def test_without_the_right_to_write_it_says_so(
    documents: ZookeeperDocuments, place: str, client: KazooClient
) -> None:
    await documents.put("c", "k", b"")
    await asyncio.to_thread(client.set_acls, path_of(place, "c", "k"), READ_ACL_UNSAFE)
    with pytest.raises(StoreError, match=r"does not allow this \(write c/k\): no auth") as caught:
        await documents.put("c", "k", b"x")
    assert not caught.value.retriable
    assert "all rights below its path" in caught.value.hint


async def test_without_a_path_documents_are_below_the_bus_s(zookeeper: str, place: str, client: KazooClient) -> None:
    collection = place.partition("/")[2]
    documents = ZookeeperDocuments(zookeeper)
    await documents.put(collection, "k", b"v")
    assert (await asyncio.to_thread(client.get, f"/{ROOT}/{node_of(collection)}/{node_of('k')}"))[0] == b"v"
    await documents.close()


async def test_what_one_has_written_another_reads_at_once(documents: ZookeeperDocuments, place: str) -> None:
    other = ZookeeperDocuments(place)
    for number in range(50):
        written = await documents.put("c", "k", b"%d" % number)
        assert await other.get("c", "k") == Document("k", written, b"%d" % number)
    await other.close()


async def test_of_many_clients_each_change_counts_once(place: str) -> None:
    clients = [ZookeeperDocuments(place) for _ in range(3)]

    async def count(documents: ZookeeperDocuments) -> None:
        for _ in range(10):
            while True:
                found = await documents.get("c", "n") or Document("n", 0, b"0")
                try:
                    await documents.put("c", "n", b"%d" % (int(found.value) + 1), version=found.version)
                    break
                except Conflict:
                    continue

    await asyncio.gather(*map(count, clients))
    assert await clients[0].get("c", "n") == Document("n", 30, b"30")
    await asyncio.gather(*(each.close() for each in clients))


async def test_a_list_longer_than_what_is_read_at_once(
    documents: ZookeeperDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.coordinators.zookeeper.documents._AT_ONCE", 3)
    keys = [f"{number:02}" for number in range(10)]
    for key in keys:
        await documents.put("c", key, b"")
    assert [document.key for document in await documents.list("c")] == keys
    assert [document.key for document in await documents.list("c", after="01", limit=5)] == keys[2:7]
    assert await documents.list("c", limit=0) == []
