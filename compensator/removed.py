"""What is left of removed subscriptions: a message that was accepted before and reaches the store after the removal."""

from __future__ import annotations

import logging
from typing import Final

from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.ports.spool import Spool
from bus.ports.store import Store
from bus.registry import Registry
from bus.transports.roads import Roads

_log = logging.getLogger(__name__)
_INTERVAL: Final = 5.0


class RemovedSubscriptions:
    """Cancels open deliveries of removed subscriptions until none can come any more; also after a crash in between.

    Parameters
    ----------
    spools
        Those whose records the store has not seen yet.
    """

    def __init__(self, store: Store, registry: Registry, roads: Roads, spools: list[Spool], clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._roads = roads
        self._spools = spools
        self._clock = clock
        self._since: dict[tuple[str, str], int] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._clock.sleep(_INTERVAL)
            try:
                await self.step()
            except StoreError as error:
                _log.warning("removed subscriptions are cleared away later, the store does not answer: %s", error)

    async def step(self) -> None:
        """Look at each removed subscription once."""
        for key in await self._registry.removed():
            if key in self._registry.catalog.subscriptions or await self._clear(key):
                await self._registry.forget_removed(key)
                self._since.pop(key, None)

    async def _clear(self, key: tuple[str, str]) -> bool:
        """End what is open; whether nothing more can come."""
        is_last = self._is_drained(key[0], self._since.setdefault(key, self._clock.now()))
        for road in self._roads.transports:
            await road.remove(*key)
        await self._store.cancel(*key, self._clock.now())
        return is_last

    def _is_drained(self, destination: str, since: int) -> bool:
        return not any(
            stats.oldest is not None and stats.oldest <= since
            for spool in self._spools
            for stats in spool.stats().consumers
            if stats.lane == destination and stats.consumer == "store"
        )
