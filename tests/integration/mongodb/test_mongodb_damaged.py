"""Documents that are not the bus's: they hide no others, block no write, and nothing of them is lost."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import bson
import pytest
from pymongo import AsyncMongoClient

from bus.domain.delivery.delivery import Status
from bus.domain.message import Message
from bus.domain.searching.selection import Selection
from bus.errors import ConfigurationError, StoreError
from bus.ports.store import DeliveryKey
from bus.stores.mongodb import MongodbStore
from bus.testing.contracts.store_traces import search_all
from bus.testing.writes import DESTINATION, NOON, message, outcome, row
from tests.servers.mongodb_fixtures import open_store

LANE = (DESTINATION, "billing")
TRACES = "traces_20261121_30d"
SENT = [message(number) for number in range(8)]
RUBBISH: list[dict[str, Any]] = [
    {"$set": {"deliveries": "rubbish"}},
    {"$unset": {"retention_days": 1}},
    {"$set": {"message": {"received_at": "yesterday"}, "revision": 2}},
    {"$set": {"status": 7, "deliveries": [{"subscription": "billing", "status": "gone"}]}},
]


@pytest.fixture
async def raw(database: str) -> AsyncIterator[Any]:
    """The database as somebody else sees it."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(database)
    yield client.get_default_database()
    await client.close()


@pytest.fixture
async def whole(store: MongodbStore, raw: Any) -> list[Message]:
    """Messages of which every second one is damaged; the whole ones are returned."""
    await store.write(SENT)
    for sent, change in zip(SENT[::2], RUBBISH, strict=True):
        await raw[TRACES].update_one({"_id": sent.id}, change)
    await raw[TRACES].insert_one({"_id": bson.ObjectId(), "lanes": ["pending:orders/billing"], "message": 1})
    await raw[TRACES].insert_one({"_id": "aaa", "lanes": ["pending:orders/billing"], "message": {}, "deliveries": 1})
    return SENT[1::2]


async def test_a_search_leaves_them_out(
    store: MongodbStore, whole: list[Message], caplog: pytest.LogCaptureFixture
) -> None:
    newest_first = [sent.id for sent in reversed(whole)]
    with caplog.at_level(logging.ERROR):
        for limit in (1, 2, 50):
            assert await search_all(store, Selection(), limit) == newest_first
        assert await search_all(store, Selection(status=Status.PENDING), 2) == newest_first
        assert await search_all(store, Selection(text="order-", destination=DESTINATION), 2) == newest_first
    assert await store.unsettled(*LANE, NOON * 2, 10) == whole
    assert store.damaged == 5
    assert len(caplog.records) == 5
    assert SENT[0].id in caplog.text


async def test_a_read_of_one_says_what_it_is(store: MongodbStore, whole: list[Message]) -> None:
    with pytest.raises(StoreError, match=SENT[0].id) as caught:
        await store.trace(SENT[0].id)
    assert not caught.value.retriable
    assert caught.value.hint
    assert await store.message(whole[0].id) == whole[0]
    keys = [DeliveryKey(sent.id, 30, "billing", 0) for sent in SENT]
    assert await store.finished(keys) == set()


async def test_a_write_takes_its_place_and_keeps_it_aside(store: MongodbStore, whole: list[Message], raw: Any) -> None:
    before = {form["_id"]: form async for form in raw[TRACES].find()}
    await store.write([outcome(sent, "billing", Status.DELIVERED) for sent in SENT])
    for sent in SENT[::2]:
        trace = await store.trace(sent.id)
        assert trace is not None
        assert trace.message is None
        assert trace.deliveries["billing"].status is Status.DELIVERED
    assert [await store.message(sent.id) for sent in whole] == whole
    aside = [form async for form in raw["damaged"].find()]
    assert {form["_id"].split()[1]: bson.decode(form["bson"]) for form in aside} == {
        sent.id: before[sent.id] for sent in SENT[::2]
    }
    await store.write(SENT)
    assert [await store.message(sent.id) for sent in SENT] == SENT


async def test_cancelling_passes_them_by(store: MongodbStore, whole: list[Message]) -> None:
    await store.write([outcome(whole[0], "billing", Status.RETRYING)])
    assert await store.cancel(*LANE, NOON * 2) == len(whole)
    assert await store.due(0) == {}


async def test_rubbish_among_the_rows_is_set_aside(store: MongodbStore, raw: Any) -> None:
    await store.compensate([row(sent) for sent in SENT])
    lane = f"{DESTINATION}/billing"
    for place, form in enumerate(
        (
            {"lane": lane, "ready_at": 1},
            {"lane": lane, "ready_at": 1, "order": 5, "epoch": "three", "generation": "none"},
            {"lane": 7, "ready_at": 1},
            {"lane": lane},
        )
    ):
        await raw["compensations"].insert_one({"_id": f"rubbish-{place}"} | form)
    leased = await store.lease(NOON * 2, NOON * 3, {LANE: 100}, 100)
    assert {one.message_id for one in leased} == {sent.id for sent in SENT}
    assert await store.lease(NOON * 2, NOON * 3, {LANE: 100}, 100) == []
    assert await raw["damaged"].count_documents({}) == 2
    assert await store.next_due() == 1
    assert await store.cancel(*LANE, NOON * 2) == len(SENT)
    assert await raw["damaged"].count_documents({}) == 3


async def test_rubbish_among_the_documents_is_named(store: MongodbStore, raw: Any) -> None:
    await store.put("keys", "good", b"1")
    await raw["documents"].insert_one({"_id": "keys/bad", "collection": "keys", "key": "bad", "value": 7})
    assert [document.key for document in await store.list("keys")] == ["good"]
    with pytest.raises(StoreError, match="keys/bad"):
        await store.get("keys", "bad")
    with pytest.raises(StoreError, match="keys/bad"):
        await store.put("keys", "bad", b"2")
    assert await store.delete("keys", "bad")
    assert await store.put("keys", "bad", b"2") == 1


async def test_collections_of_others_are_left_alone(store: MongodbStore, raw: Any) -> None:
    for name in ("traces_of_me", "traces_20261399_30d", "notes"):
        await raw[name].insert_one({"_id": SENT[0].id})
    await store.write(SENT)
    assert await search_all(store, Selection()) == [sent.id for sent in reversed(SENT)]
    assert await store.expire(NOON * 2) == ([], ["20261121-30d"])
    assert set(await raw.list_collection_names()) >= {"traces_of_me", "traces_20261399_30d", "notes"}


async def test_a_missing_body_is_an_error_of_its_message_alone(store: MongodbStore, raw: Any) -> None:
    await store.write(SENT)
    await raw["bodies_20261121_30d"].delete_many({"_id": {"$regex": f"^{SENT[0].id}"}})
    with pytest.raises(StoreError, match="0 of the 6 bytes"):
        await store.message(SENT[0].id)
    assert await store.message(SENT[1].id) == SENT[1]
    assert await store.trace(SENT[0].id) is not None


async def test_a_missing_body_hides_no_other_unsettled_message(
    store: MongodbStore, raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await store.write(SENT)
    await raw["bodies_20261121_30d"].delete_many({"_id": {"$regex": f"^{SENT[0].id}"}})
    for limit in (1, 100):
        assert await store.unsettled(*LANE, NOON * 2, limit) == SENT[1 : 1 + limit]
    assert SENT[0].id in caplog.text
    assert store.damaged == 1


async def test_a_row_whose_large_message_is_gone_holds_up_no_other(
    store: MongodbStore, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.stores.mongodb.compensations.MOST_BYTES", 10)
    await store.compensate([row(sent) for sent in SENT])
    await raw["bodies_20261121_30d"].delete_many({"_id": {"$regex": f"^{SENT[3].id}"}})
    leased = await store.lease(NOON * 2, NOON * 3, {LANE: 100}, 100)
    assert [one.message_id for one in leased] == [sent.id for sent in SENT if sent != SENT[3]]
    assert await store.lease(NOON * 3, NOON * 4, {LANE: 100}, 100) != []
    assert await raw["damaged"].count_documents({}) == 1
    assert await store.cancel(*LANE, NOON * 4) == len(SENT) - 1


async def test_rubbish_among_the_documents_shortens_no_page(store: MongodbStore, raw: Any) -> None:
    keys = [f"{number}" for number in range(9)]
    for key in keys:
        await store.put("items", key, b"1")
        if int(key) % 3:
            await raw["documents"].update_one({"_id": f"items/{key}"}, {"$set": {"value": 7}})
    assert [document.key for document in await store.list("items", limit=2)] == ["0", "3"]
    assert [document.key for document in await store.list("items", after="3", limit=2)] == ["6"]


async def test_a_database_of_a_newer_version_stops_the_start(store: MongodbStore, raw: Any, database: str) -> None:
    for version in (99, "new"):
        await raw["meta"].update_one({"_id": "format"}, {"$set": {"version": version}})
        with pytest.raises(ConfigurationError, match=str(version)):
            await open_store(database)
