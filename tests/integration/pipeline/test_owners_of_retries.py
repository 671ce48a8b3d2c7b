"""Whether somebody has the next attempt of a delivery: the same from SQLite and from the MongoDB protocol."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bus.domain.delivery import Compensation, Status, compensation_of, due_row
from bus.errors import ConfigurationError
from bus.ports.store import Store
from bus.stores.sqlite import SqliteStore
from bus.testing.writes import NOON, message, outcome
from pipeline.sources.due import read_due
from pipeline.sources.store import read_messages
from pipeline.transforms.deliveries import deliveries_of
from pipeline.transforms.witnesses import with_owners
from tests.servers.mongodb_fixtures import database, mongodb, open_store, patient

__all__ = ["database", "mongodb", "patient"]


def retry(number: int) -> Compensation:
    row = compensation_of(outcome(message(number), "billing", Status.RETRYING, due_at=NOON + 5_000))
    assert row is not None
    return row


async def filled(store: Store) -> None:
    """Write two retries, of which one loses its row by hand, a delivery that waits, and a message for later."""
    for number in (1, 2):
        await store.write([message(number), outcome(message(number), "billing", Status.RETRYING, due_at=NOON + 5_000)])
    later = message(4, deliver_at=NOON + 60_000)
    await store.write([message(3), later])
    await store.compensate([due_row(later)])
    await store.finish([retry(2)])
    await store.close()


@pytest.fixture
async def stores(tmp_path: Path, database: str) -> list[str]:
    await filled(await SqliteStore.open(tmp_path / "store", linger=0))
    await filled(await open_store(database))
    return [f"sqlite:///{tmp_path}/store", database]


def owned(spark: SparkSession, store: str) -> dict[tuple[str, str], bool]:
    due = read_due(spark, store)
    rows = with_owners(deliveries_of(read_messages(spark, store)), due).select("id", "subscription", "owned").collect()
    return {(row.id, row.subscription): row.owned for row in rows}


def test_both_stores_name_the_owned(spark: SparkSession, stores: list[str]) -> None:
    embedded, documents = (owned(spark, store) for store in stores)
    assert embedded == documents
    wanted = {1: {"billing": True}, 2: {"billing": False}, 3: {"billing": False}, 4: {"billing": True}}
    for number, names in wanted.items():
        for name, is_owned in names.items():
            assert embedded[message(number).id, name] is is_owned, (number, name)


def test_no_store_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no store"):
        read_due(spark, f"sqlite:///{tmp_path}/nothing")
