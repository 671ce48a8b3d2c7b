"""Messages of the bus's store as rows: the same from SQLite and from the MongoDB protocol."""

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from bus.domain.delivery.delivery import Outcome, Resend, Status
from bus.domain.message import Message
from bus.domain.times import DAY
from bus.errors import ConfigurationError
from bus.ports.store import Store
from bus.stores.sqlite import SqliteStore
from bus.testing.writes import NOON, attempt, message, outcome
from pipeline.schemas import MESSAGES
from pipeline.sources import sqlite
from pipeline.sources.configuration import configured, read_catalog
from pipeline.sources.due import read_due
from pipeline.sources.store import read_messages
from pipeline.transforms.deliveries import deliveries_of, is_unfinished
from tests.harness.trace_shapes import PAUSED, every_shape, fill
from tests.servers.mongodb_fixtures import open_store

LARGE = os.urandom(200_000)


def writes() -> list[Message | Outcome]:
    plain = message(1, body=os.urandom(2000), headers={"a": "b", "X-Ray": "ünï"}, key="k", deliver_at=NOON + 5)
    failed, again = message(2, body=b"", expected=("billing",)), message(3, retention_days=7, traceparent="00-1-2-01")
    tomorrow, early, alone = message(DAY, body=LARGE), message(5), message(6, expected=())
    post = replace(attempt("a1", 2, NOON), error="HTTP 503", response=b"\xff\x00", status_code=None, taken_at=NOON + 3)
    resend = Resend(1, "job", "ann", "fixed", NOON + 60_000)
    return [
        *(plain, failed, again, tomorrow, alone),
        *(outcome(plain, name, Status.DELIVERED) for name in ("mail", "billing")),
        outcome(failed, "billing", Status.RETRYING, 1),
        outcome(failed, "billing", Status.DEAD, 2, attempt=post, reason="HTTP 503"),
        outcome(again, "billing", Status.RESEND, generation=1, attempt=None, resend=resend, due_at=NOON + 60_000),
        outcome(early, "billing", Status.DELIVERED),
    ]


async def filled(store: Store, given: list[Message | Outcome]) -> None:
    await store.write(given)
    await store.close()


def rows(spark: SparkSession, store: str, **how: Any) -> list[dict]:
    return [row.asDict(recursive=True) for row in read_messages(spark, store, **how).orderBy("id").collect()]


@pytest.fixture
async def stores(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("bus.stores.mongodb.bodies._PART", len(LARGE) // 12)  # more parts than sort as text
    given = writes()
    await filled(await SqliteStore.open(tmp_path / "store"), given)
    await filled(await open_store(database), given)
    return [f"sqlite:///{tmp_path}/store", database]


def test_both_stores_give_the_same_rows(spark: SparkSession, stores: list[str]) -> None:
    embedded, documents = (rows(spark, store, bodies=True) for store in stores)
    for one, other in zip(embedded, documents, strict=True):
        assert one == other
    assert [row["id"] for row in embedded] == [message(n).id for n in (1, 2, 3, 5, 6, DAY)]
    assert list(embedded[0]) == MESSAGES.schema.names
    by_id = {row["id"]: row for row in embedded}
    sent = {write.id: write for write in writes() if isinstance(write, Message)}
    plain = by_id[message(1).id]
    assert plain["headers"] == {"a": "b", "X-Ray": "ünï"}
    assert plain["made_at"].replace(tzinfo=dt.UTC).timestamp() * 1000 == NOON + 1
    assert {id_: len(row["body"]) for id_, row in by_id.items()} == {
        id_: row["body_bytes"] for id_, row in by_id.items()
    }
    assert by_id[message(DAY).id]["body"] == LARGE
    assert by_id[message(3).id]["retention_days"] == 7
    assert [row["id"] for row in embedded if not row["arrived"]] == [message(5).id]
    assert set(by_id) - set(sent) == {message(5).id}
    (failed,) = by_id[message(2).id]["deliveries"]
    assert (failed["status"], [each["n"] for each in failed["attempts"]]) == ("dead", [1, 2])
    assert (failed["attempts"][1]["response"], failed["attempts"][1]["status_code"]) == (b"\xff\x00", None)


async def test_every_shape_is_read_alike_with_what_is_due_and_configured(
    spark: SparkSession, tmp_path: Path, database: str
) -> None:
    shapes = every_shape()
    await fill(await SqliteStore.open(tmp_path / "store"), shapes)
    await fill(await open_store(database), shapes)
    stores = (f"sqlite:///{tmp_path}/store", database)
    embedded, documents = (rows(spark, store, bodies=True) for store in stores)
    assert len(embedded) == len(shapes)
    for one, other in zip(embedded, documents, strict=True):
        assert one == other
    due = [{(row.id, row.subscription) for row in read_due(spark, store).collect()} for store in stores]
    wanted = {(shape.id, "" if shape.due else "shop") for shape in shapes if shape.finding == "under_way"}
    assert due == [wanted, wanted]
    for store in stores:
        destinations, subscriptions = configured(spark, read_catalog(store))
        assert [tuple(row) for row in destinations.collect()] == [("orders", 30, None)]
        paused = {row.subscription: row.subscription_paused for row in subscriptions.collect()}
        assert paused == {"shop": None, **PAUSED}


def test_a_range_of_times_and_no_bodies(spark: SparkSession, stores: list[str]) -> None:
    since, before = (dt.datetime.fromtimestamp((NOON + n) / 1000, dt.UTC) for n in (2, 6))
    embedded, documents = (rows(spark, store, since=since, before=before) for store in stores)
    assert embedded == documents
    assert [row["id"] for row in embedded] == [message(n).id for n in (2, 3, 5)]
    assert {row["body"] for row in embedded} == {None}
    for store in stores:  # a range of which there is no partition
        assert rows(spark, store, before=dt.datetime.fromtimestamp(0, dt.UTC)) == []


def test_a_large_embedded_store_is_read_by_tasks_and_gives_the_same(
    spark: SparkSession, stores: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = rows(spark, stores[0], bodies=True)
    monkeypatch.setattr(sqlite, "_SMALL", 0)
    assert rows(spark, stores[0], bodies=True) == small
    assert rows(spark, stores[0], before=dt.datetime.fromtimestamp(0, dt.UTC)) == []


def test_deliveries_of_a_store(spark: SparkSession, stores: list[str]) -> None:
    messages = read_messages(spark, stores[0])
    found = deliveries_of(messages).select("id", "subscription", "status").collect()
    assert sorted((row.id, row.subscription, row.status) for row in found if row.subscription) == sorted(
        [
            *((message(1).id, name, "delivered") for name in ("billing", "mail")),
            (message(2).id, "billing", "dead"),
            (message(3).id, "billing", "resend"),
            (message(3).id, "mail", "pending"),
            (message(5).id, "billing", "delivered"),
            *((message(DAY).id, name, "pending") for name in ("billing", "mail")),
        ]
    )
    whole = {row.id: row.status for row in found if not row.subscription}
    arrived = {write.id for write in writes() if isinstance(write, Message)}
    assert whole == {**dict.fromkeys(arrived, "arrived"), message(5).id: "outcomes only"}
    assert {row.id for row in messages.where(is_unfinished()).collect()} == {message(n).id for n in (3, 5, DAY)}


async def test_a_store_is_read_beside_a_bus_that_writes(spark: SparkSession, tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await store.write([message(1)])
    assert [row["id"] for row in rows(spark, f"sqlite:///{tmp_path}")] == [message(1).id]
    await store.write([message(2)])
    assert [row["id"] for row in rows(spark, f"sqlite:///{tmp_path}")] == [message(1).id, message(2).id]
    await store.close()


def test_an_address_of_no_store_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    for store in (f"sqlite:///{tmp_path}", "sqlite:///", "postgresql://here"):
        with pytest.raises(ConfigurationError):
            read_messages(spark, store)
        with pytest.raises(ConfigurationError):
            read_due(spark, store)
    assert not list(tmp_path.iterdir())
