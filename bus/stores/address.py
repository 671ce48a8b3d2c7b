"""The address of a store, as the setting ``store`` names it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bus.errors import ConfigurationError

_MONGODB: Final = ("mongodb://", "mongodb+srv://")


def sqlite_directory(address: str) -> Path | None:
    """Return the directory of an embedded store; None for a store behind a MongoDB address.

    Raises
    ------
    ConfigurationError
        It is neither.
    """
    if address.startswith(_MONGODB):
        return None
    scheme, separator, path = address.partition(":///")
    if scheme != "sqlite" or not separator or not path:
        raise ConfigurationError(
            f"store = {_shown(address)!r}: allowed are sqlite:///PATH and mongodb://HOST/DATABASE",
            hint="the embedded store of a bus is sqlite:///DATA/store",
        )
    return Path(path)


def _shown(address: str) -> str:
    """Return an address without what may be a password."""
    scheme, separator, rest = address.partition("://")
    return f"{scheme}{separator}...@{rest.rpartition('@')[2]}" if "@" in rest else address
