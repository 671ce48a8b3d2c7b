"""Partitions past their retention are dropped whole; old Idempotency-Keys, resends and statistics with them."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from bus.domain.claim import IDEMPOTENCY
from bus.domain.identity import id_floor
from bus.domain.times import DAY, day_of
from bus.localized_text import AnyText, listed, localized
from bus.ports.clock import Clock
from bus.ports.store import Store
from bus.stores.rollups import RollupReader
from bus.telemetry.outage import Outage
from compensator.believed import BelievedTime
from compensator.watch import watch

_log = logging.getLogger(__name__)
_INTERVAL: Final = 600.0
_PATIENCE: Final = 3600.0
_AT_START: Final = 600.0
_RESENDS: Final = ("resend-items", "resends")
_RESENDS_KEPT: Final = 90 * DAY
_CHUNK: Final = 500
_MOST_NAMED: Final = 3


class Expiry:
    """Drops what is past its retention, every ten minutes.

    What is dropped by mistake never comes back, so a clock that jumps ahead is accepted only after an hour, and the one
    that the process starts with after ten minutes (``BelievedTime``).
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._rollups = RollupReader(store, clock)
        self._believed = BelievedTime(clock, _PATIENCE, _AT_START)
        self._kept: list[str] = []

    @property
    def trouble(self) -> AnyText:
        """The partitions past their retention that unfinished work keeps; empty for none."""
        if not self._kept:
            return ""
        return localized(
            "past the retention, kept by unfinished deliveries: {names}", names=listed(self._kept, _MOST_NAMED)
        )

    async def run(self) -> None:
        """Work until cancelled."""
        await watch(self.step, self._clock, _INTERVAL, Outage(_log, "nothing is expired without the store"))

    async def step(self) -> list[str]:
        """Drop what can be dropped; return the names of the partitions dropped."""
        now = self._believed.now()
        if now is None:
            return []
        dropped, kept = await self._store.expire(now)
        self._kept = kept
        for name in dropped:
            _log.info("dropped partition %s: past its retention, nothing unfinished", name)
        for name in kept:
            _log.error("partition %s is past its retention but has unfinished work; it is kept", name)
        await self._forget(IDEMPOTENCY, f"{day_of(now - DAY)}/")
        for collection in _RESENDS:
            await self._forget(collection, id_floor(now - _RESENDS_KEPT))
        await self._rollups.expire(now)
        return dropped

    async def _forget(self, collection: str, before: str) -> None:
        """Delete the documents of a collection whose keys are below ``before``: keys begin with a time."""
        while True:
            found = await self._store.list(collection, limit=_CHUNK)
            old = [document.key for document in found if document.key < before]
            await asyncio.gather(*(self._store.delete(collection, key) for key in old))
            if len(old) < _CHUNK:
                return
