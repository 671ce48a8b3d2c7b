"""The MongoDB store keeps the contract of every store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bus.stores.mongodb import MongodbStore
from bus.testing.contracts.store import StoreContract
from bus.testing.contracts.store_traces import SearchContract
from tests.servers.mongodb_fixtures import database, mongodb, open_store, patient

__all__ = ["database", "mongodb", "patient"]


class TestMongodbStore(StoreContract):
    @pytest.fixture
    async def store(self, database: str) -> AsyncIterator[MongodbStore]:
        store = await open_store(database)
        yield store
        await store.close()


class TestMongodbSearchThatRunsOutOfTime(SearchContract):
    """Pages that end after each window."""

    @pytest.fixture
    async def store(self, database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MongodbStore]:
        monkeypatch.setattr("bus.stores.mongodb.search.PATIENCE", 0)
        monkeypatch.setattr("bus.stores.mongodb.search._FIRST_WINDOW", 2)
        store = await open_store(database, linger=0.001, gather=50)
        yield store
        await store.close()
