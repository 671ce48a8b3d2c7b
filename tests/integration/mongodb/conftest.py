from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from bus.stores.mongodb import MongodbStore
from tests.servers import need
from tests.servers.mongodb_fixtures import database, mongodb, open_store, patient
from tests.servers.mongodb_server import MongodbServer

__all__ = ["database", "mongodb", "patient"]


@pytest.fixture
async def store(database: str) -> AsyncIterator[MongodbStore]:
    store = await open_store(database)
    yield store
    await store.close()


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongodbServer]:
    """A server to be killed and stopped; every test leaves it running."""
    with MongodbServer(tmp_path_factory.mktemp("own"), need("mongodb")) as server:
        yield server
