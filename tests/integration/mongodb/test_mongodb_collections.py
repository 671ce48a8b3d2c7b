"""Promises of the MongoDB store alone: collections and indexes, sizes, and rights to drop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pymongo import MongoClient

from bus.domain.delivery.delivery import Status
from bus.domain.message import encode_message
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.errors import StoreError
from bus.stores.mongodb import MongodbStore
from bus.stores.mongodb.compensations import Compensations
from bus.stores.mongodb.indexes import PREPARED
from bus.testing.clock import ManualClock
from bus.testing.writes import DESTINATION, NOON, message, outcome, row
from tests.servers.mongodb_fixtures import drop, indexes_of, open_store

LANE = (DESTINATION, "billing")
LARGEST = 16 * 2**20  # what the admin API allows as max_bytes


@pytest.fixture
def names(database: str):
    client: MongoClient[dict[str, Any]] = MongoClient(database)
    yield lambda: set(client.get_default_database().list_collection_names())
    client.close()


async def test_collections_and_indexes_are_made(store: MongodbStore, names, database: str) -> None:
    assert names() == {"meta", "compensations"}
    await store.write([message(), outcome(message(), "billing", Status.RETRYING)])
    await store.put("keys", "k", b"")
    partition = {"traces_20261121_30d", "bodies_20261121_30d"}
    assert names() == {"meta", "compensations", "documents", "lanes"} | partition
    client: MongoClient[dict[str, Any]] = MongoClient(database)
    made = client.get_default_database()["traces_20261121_30d"].index_information()
    client.close()
    assert {index["key"][0][0] for index in made.values()} == {
        *("_id", "destination", "message.biz_id", "message.source", "status", "lanes", "names", "received_at"),
    }


async def test_indexes_of_a_database_that_somebody_dropped_are_made_again_later(database: str) -> None:
    clock = ManualClock()
    store = await open_store(database, clock=clock)
    await store.write([message()])
    indexes = await indexes_of(database)
    await asyncio.to_thread(drop, database)
    await store.write([message()])
    assert await indexes_of(database) != indexes
    await clock.advance(PREPARED + 1)
    await store.write([message()])
    assert await store.message(message().id) == message()
    assert {**await indexes_of(database), "meta": {"_id_"}} == indexes
    await store.close()


async def travels_whole(store: MongodbStore, size: int) -> None:
    sent = message(body=bytes(range(256)) * (size // 256))
    failed = outcome(sent, "billing", Status.RETRYING)
    await store.write([sent, failed])
    assert await store.message(sent.id) == sent
    (leased,) = await store.lease(NOON * 2, NOON * 3, {LANE: 1}, 1)
    assert leased.message == encode_message(sent)
    assert await store.unsettled(DESTINATION, "mail", NOON * 2, 1) == [sent]
    assert (await store.search(Selection())).traces[0].body_bytes == size


async def test_a_message_of_many_parts_travels_whole(store: MongodbStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bus.stores.mongodb.bodies._PART", 10_000)
    monkeypatch.setattr("bus.stores.mongodb.inserting.MOST_BYTES", 25_000)
    monkeypatch.setattr("bus.stores.mongodb.compensations.MOST_BYTES", 25_000)
    await travels_whole(store, 2**18)


@pytest.mark.proof
async def test_a_message_as_large_as_any_travels_whole(store: MongodbStore) -> None:
    await travels_whole(store, LARGEST)


async def test_a_dropped_partition_leaves_nothing(store: MongodbStore, names) -> None:
    sent = message(retention_days=1, expected=("billing",))
    await store.write([sent, outcome(sent, "billing", Status.DELIVERED)])
    assert await store.subscribed() == {LANE}
    assert await store.expire(NOON + 3 * DAY) == (["20261121-1d"], [])
    assert names() == {"meta", "compensations", "lanes"}
    assert await store.subscribed() == set()
    await store.write([sent])
    assert await store.message(sent.id) == sent
    assert await store.subscribed() == {LANE}


async def test_bodies_of_a_drop_that_was_cut_off_go_later(store: MongodbStore, names, database: str) -> None:
    sent = message(retention_days=1)
    await store.write([sent, message(DAY, retention_days=1)])
    client: MongoClient[dict[str, Any]] = MongoClient(database)
    client.get_default_database().drop_collection("traces_20261121_1d")
    client.close()
    again = await open_store(database)
    await again.expire(NOON + DAY)
    assert "bodies_20261121_1d" in names()
    await again.expire(NOON + 4 * DAY)
    await again.close()
    assert "bodies_20261121_1d" not in names()
    assert "bodies_20261122_1d" in names()


async def test_what_the_server_refuses_fails_its_callers_and_no_others(store: MongodbStore) -> None:
    """FerretDB keeps no text with U+0000; MongoDB does, and then nothing is refused."""
    bad = message(1, biz_id="a\x00b")
    sent = [message(0), bad, message(2)]
    results = await asyncio.gather(*(store.write([one]) for one in sent), return_exceptions=True)
    assert results[::2] == [None, None]
    assert results[1] is None or (isinstance(results[1], StoreError) and not results[1].retriable)
    for one in sent[::2]:
        assert await store.message(one.id) == one


async def test_numbers_and_text_that_no_document_can_have_are_errors(store: MongodbStore) -> None:
    for sent in (message(sent_at=1 << 64), message(biz_id="\ud800")):
        with pytest.raises(StoreError) as caught:
            await store.write([sent])
        assert not caught.value.retriable
    await store.write([message()])


async def test_a_broken_cursor_is_refused(store: MongodbStore) -> None:
    for cursor in ("not hex", "ff"):
        with pytest.raises(ValueError, match="cursor"):
            await store.search(Selection(), cursor=cursor)


async def test_leases_of_an_owner_end_when_it_starts_again(store: MongodbStore) -> None:
    await store.compensate([row(message(number)) for number in range(4)])
    room = {LANE: 2}
    first = await store.lease(NOON * 2, NOON * 3, room, 2, owner="one")
    await store.lease(NOON * 2, NOON * 3, room, 2, owner="two")
    assert await store.next_due() == NOON * 3
    assert await store.reclaim("one") == 2
    assert await store.reclaim("one") == 0
    again = await store.lease(NOON * 2, NOON * 3, {LANE: 9}, 9, owner="three")
    assert {one.message_id for one in again} == {one.message_id for one in first}
    assert {one.epoch for one in again} == {2}


async def test_leases_take_turns_behind_rows_that_are_not_ready(store: MongodbStore) -> None:
    names = ["a", "b", "c", "d"]
    later = NOON * 2
    await store.compensate([row(message(number), name) for number in range(6) for name in names[1:]])
    await store.compensate([row(message(number), "a", due_at=later) for number in range(6)])
    room = {(DESTINATION, name): 9 for name in names}
    served = [(await store.lease(later - 1, NOON * 3, room, 1))[0].subscription for _ in range(6)]
    assert served == ["b", "c", "d"] * 2
    assert len(await store.lease(later - 1, NOON * 3, room, 99)) == 12
    assert await store.lease(later - 1, NOON * 3, room, 99) == []
    assert len(await store.lease(later, NOON * 3, room, 99)) == 6


async def test_a_lease_that_ends_while_rows_are_rewound_is_not_brought_back(
    store: MongodbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.compensate([row(message())])
    (leased,) = await store.lease(NOON + DAY, NOON + DAY + 60_000, {LANE: 1}, 1)
    plain = Compensations._rows_in

    async def rows_in(self: Compensations, forms: Any) -> Any:
        monkeypatch.undo()
        await store.unlease([leased])
        return await plain(self, forms)

    monkeypatch.setattr(Compensations, "_rows_in", rows_in)
    assert await store.rewind(NOON, 0) == 0
    assert await store.next_due() == leased.due_at
