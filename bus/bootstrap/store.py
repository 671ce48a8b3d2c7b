"""The store that the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bus.bootstrap.extras import extra
from bus.errors import ConfigurationError
from bus.ports.clock import Clock
from bus.ports.store import Store
from bus.settings import Settings
from bus.stores.sqlite import SqliteStore

_MONGODB: Final = ("mongodb://", "mongodb+srv://")


async def open_store(settings: Settings, clock: Clock) -> Store:
    """Return the store, open. Raises ``ConfigurationError`` when its address is impossible or its extra is missing."""
    if not settings.store.startswith(_MONGODB):
        return await SqliteStore.open(store_directory(settings), linger=settings.store_linger)
    with extra("mongodb"):
        from bus.stores.mongodb import MongodbStore  # noqa: PLC0415
    return await MongodbStore.open(settings.store, clock=clock, linger=settings.store_linger)


def check_store(settings: Settings) -> None:
    """Raise ``ConfigurationError`` for an address that is impossible; connects nowhere."""
    if not settings.store.startswith(_MONGODB):
        store_directory(settings)


def store_directory(settings: Settings) -> Path:
    """Return where the embedded store rests."""
    if not settings.store:
        return settings.data / "store"
    scheme, separator, path = settings.store.partition(":///")
    if scheme != "sqlite" or not separator or not path:
        raise ConfigurationError(
            f"store = {_shown(settings.store)!r}: allowed are sqlite:///PATH and mongodb://HOST/DATABASE",
            hint="or leave it out",
        )
    return Path(path)


def _shown(address: str) -> str:
    """Return an address without what may be a password."""
    scheme, separator, rest = address.partition("://")
    return f"{scheme}{separator}...@{rest.rpartition('@')[2]}" if "@" in rest else address
