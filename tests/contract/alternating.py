"""Two stores on one directory in the shape of one, as two processes would use it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Self

from bus.stores.sqlite import SqliteStore


class Alternating:
    """Sends each call to one of two stores, chosen by dice that fall the same in every run."""

    def __init__(self, stores: list[SqliteStore]) -> None:
        self._stores = stores
        self._dice = random.Random(4)

    @classmethod
    async def open(cls, directory: Path, **settings: Any) -> Self:
        """Open both."""
        return cls([await SqliteStore.open(directory, **settings) for _ in range(2)])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dice.choice(self._stores), name)

    async def close(self) -> None:
        """Close both."""
        for store in self._stores:
            await store.close()
