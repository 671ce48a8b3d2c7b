"""The store that the settings name."""

from __future__ import annotations

from pathlib import Path

from bus.extras import extra
from bus.ports.clock import Clock
from bus.ports.store import Store
from bus.settings import Settings
from bus.stores.address import sqlite_directory
from bus.stores.sqlite import SqliteStore


async def open_store(settings: Settings, clock: Clock) -> Store:
    """Return the store, open. Raises ``ConfigurationError`` when its address is impossible or its extra is missing."""
    directory = embedded(settings)
    if directory is not None:
        return await SqliteStore.open(directory)
    with extra("mongodb"):
        from bus.stores.mongodb import MongodbStore  # noqa: PLC0415
    return await MongodbStore.open(settings.store, clock=clock)


def check_store(settings: Settings) -> None:
    """Raise ``ConfigurationError`` for an address that is impossible; connects nowhere."""
    embedded(settings)


def is_new(settings: Settings) -> bool:
    """Whether the store is an embedded one that was never opened."""
    directory = embedded(settings)
    return directory is not None and not directory.exists()


def embedded(settings: Settings) -> Path | None:
    """Return where the embedded store rests; None when the store is another. Raises as ``check_store``."""
    return sqlite_directory(settings.store) if settings.store else settings.data / "store"
