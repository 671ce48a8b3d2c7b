"""The store as it tells of itself, asked by one process of the bus."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from bus.bootstrap import Fill, RoleServices
from bus.domain.health.vitals import StoreFigures
from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.ports.store_health import StoreHealth
from bus.telemetry import metrics

_log = logging.getLogger(__name__)
_INTERVAL: Final = 60.0
_STALE: Final = 3 * _INTERVAL


class StoreWatch:
    """Asks the store every minute, while it is this process that watches."""

    def __init__(self, store: object, is_watching: Callable[[], bool], clock: Clock) -> None:
        self._store = store if isinstance(store, StoreHealth) else None
        self._is_watching = is_watching
        self._clock = clock
        self._found: StoreFigures | None = None
        self._at = float("-inf")
        self.offers = RoleServices(store=self.figures, meters=(self._measure,))

    def figures(self) -> StoreFigures | None:
        """Return what it told last; None if that is minutes ago."""
        return self._found if self._clock.monotonic() - self._at < _STALE else None

    async def run(self) -> None:
        """Ask until cancelled."""
        while self._store is not None:
            if self._is_watching():
                try:
                    self._found, self._at = await self._store.health(), self._clock.monotonic()
                except (StoreError, OSError) as error:
                    _log.debug("how the store is, is not known: %s", error)
            await self._clock.sleep(_INTERVAL)

    def _measure(self) -> Fill:
        return partial(_fill, self.figures())


def _fill(found: StoreFigures | None) -> None:
    if found is None:
        return
    for member in found.members:
        metrics.STORE_BEHIND.labels(member.name, member.state).set(member.behind / 1000)
    if found.oplog is not None:
        metrics.STORE_OPLOG.set(found.oplog / 1000)
    if found.bytes:
        metrics.STORE_BYTES.labels("files").set(found.bytes)
        metrics.STORE_BYTES.labels("log").set(found.log)
