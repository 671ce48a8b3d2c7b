"""Fixtures for tests on a MongoDB: one server for the tests of a folder, a database of its own for each test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from pymongo import AsyncMongoClient, MongoClient

from bus.clock import SystemClock
from bus.ports.clock import Clock
from bus.stores.mongodb import MongodbStore
from bus.stores.mongodb.connection import OPTIONS
from tests.servers.mongodb_server import serving

PATIENCE = 30.0
_numbers = itertools.count()


def database_url(server: str) -> str:
    """Return the URL of a database of a server that no other test uses."""
    return urlsplit(server)._replace(path=f"/test_{os.getpid()}_{next(_numbers)}").geturl()


def drop(url: str) -> None:
    """Remove a database."""
    client: MongoClient[dict[str, Any]] = MongoClient(url, serverSelectionTimeoutMS=5_000)
    try:
        client.drop_database(client.get_default_database())
    finally:
        client.close()


async def open_store(url: str, *, clock: Clock | None = None, gather: int = 512) -> MongodbStore:
    """Open the store of a database, by default one that writes without waiting for company."""
    return await MongodbStore.open(url, clock=clock or SystemClock(), gather=gather)


async def indexes_of(url: str) -> dict[str, set[str]]:
    """Return the names of each collection's indexes."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url)
    database = client.get_default_database()
    found = {name: set(await database[name].index_information()) for name in await database.list_collection_names()}
    await client.close()
    return found


@pytest.fixture(scope="session")
def mongodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("mongodb")) as url:
        yield url


def be_patient(patch: pytest.MonkeyPatch) -> None:
    """Let stores wait for a server that is there for as long as a slow machine takes."""
    patch.setattr("bus.stores.mongodb.connection.DEADLINE", PATIENCE)
    for name in ("serverSelectionTimeoutMS", "connectTimeoutMS", "waitQueueTimeoutMS", "socketTimeoutMS"):
        patch.setitem(OPTIONS, name, int(PATIENCE * 1000))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture
def database(mongodb: str, patient: None) -> Iterator[str]:
    url = database_url(mongodb)
    yield url
    drop(url)
