"""The MongoDB store keeps the contract of every store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.stores.mongodb import MongodbStore
from bus.testing.contracts.store import StoreContract
from bus.testing.contracts.store_conditions import ConditionContract
from bus.testing.contracts.store_traces import SearchContract
from bus.testing.writes import NOON, message, outcome
from tests.servers.mongodb_fixtures import database, mongodb, open_store, patient

__all__ = ["database", "mongodb", "patient"]


class TestMongodbStore(StoreContract):
    @pytest.fixture
    async def store(self, database: str) -> AsyncIterator[MongodbStore]:
        store = await open_store(database)
        yield store
        await store.close()


class _RunsOutOfTime:
    """Pages that end after each window."""

    @pytest.fixture
    async def store(self, database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MongodbStore]:
        monkeypatch.setattr("bus.stores.mongodb.search.PATIENCE", 0)
        monkeypatch.setattr("bus.stores.mongodb.search._FIRST_WINDOW", 2)
        monkeypatch.setattr("bus.stores.mongodb.search._BATCH", 2)
        store = await open_store(database, gather=50)
        yield store
        await store.close()


class TestMongodbSearchThatRunsOutOfTime(_RunsOutOfTime, SearchContract):
    pass


@pytest.mark.proof
class TestMongodbConditionsThatRunOutOfTime(_RunsOutOfTime, ConditionContract):
    pass


async def test_failures_that_there_was_no_time_for_are_told(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bus.stores.mongodb.failing.PATIENCE", -1)
    monkeypatch.setattr("bus.stores.mongodb.failing._PAGE", 2)
    store = await open_store(database)
    sent = [message(number + day * DAY) for day in range(2) for number in range(3)]
    await store.write([*sent, *(outcome(one, "billing", Status.DEAD, reason="HTTP 500") for one in sent)])
    midnight = (NOON + DAY) // DAY * DAY
    before: int | None = None
    # What was made in the last millisecond that was looked at may not be whole, so it is counted again.
    for count, since in (
        (2, NOON + DAY + 2),
        (2, NOON + DAY + 1),
        (1, midnight),
        (2, NOON + 2),
        (2, NOON + 1),
        (1, None),
    ):
        found = await store.failures(Selection(before=before))
        assert [group.count for group in found.groups] == [count]
        assert found.since == since
        before = found.since
    await store.close()
