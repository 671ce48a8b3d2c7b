"""The coordinator of strictly ordered destinations: the store, or a service that the settings name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bus.extras import extra
from bus.ports.store import DocumentStore
from bus.settings import Settings


@asynccontextmanager
async def open_coordinator(settings: Settings, store: DocumentStore) -> AsyncIterator[DocumentStore]:
    """Yield the coordinator, the store itself when the settings name none, and close what was opened here.

    Nothing has to be up: it connects by itself, and raises ``StoreUnavailable`` until it has.

    Raises
    ------
    ConfigurationError
        Its extra is missing.
    """
    if settings.zookeeper:
        async with _zookeeper(settings) as documents:
            yield documents
    else:
        yield store


async def probe_coordinator(settings: Settings) -> None:
    """Read a document, which need not be there, from the coordinator that the settings name.

    Raises
    ------
    ConfigurationError
        Its extra is missing.
    StoreError
        It does not answer, or refuses.
    """
    async with _zookeeper(settings) as documents:
        await documents.get("doctor", "doctor")


@asynccontextmanager
async def _zookeeper(settings: Settings) -> AsyncIterator[DocumentStore]:
    with extra("zookeeper"):
        from bus.coordinators.zookeeper import ZookeeperDocuments  # noqa: PLC0415
    documents = ZookeeperDocuments(settings.zookeeper)
    try:
        yield documents
    finally:
        await documents.close()
