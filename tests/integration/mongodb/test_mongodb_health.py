"""The health of a server's replica set, and of servers that have none or do not report it."""

from __future__ import annotations

import time

import pytest

from bus.domain.health.vitals import StoreFigures
from bus.errors import StoreUnavailable
from bus.ports.store_health import StoreHealth
from bus.stores.mongodb import MongodbStore
from tests.servers.mongodb_fixtures import open_store


async def test_a_server_without_a_replica_set_is_no_error(store: MongodbStore) -> None:
    assert isinstance(store, StoreHealth)
    found = await store.health()
    if not found.members:
        assert found == StoreFigures()
    else:  # a real one
        assert any(member.state == "PRIMARY" for member in found.members)


async def test_one_that_is_away_says_so_soon() -> None:
    store = await open_store("mongodb://127.0.0.1:9/test")
    started = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await store.health()
    assert time.monotonic() - started < 10
    await store.close()
