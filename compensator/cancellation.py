"""Deliveries of subscriptions that were removed: they are canceled, also those that reach the store later."""

from __future__ import annotations

import logging
from typing import Final

from bus.domain.times import SKEW
from bus.ports.clock import Clock
from bus.ports.store import Store
from bus.registry import Registry
from bus.stores.cancellations import Cancellations
from bus.telemetry.outage import Outage
from compensator.watch import watch

_log = logging.getLogger(__name__)
_INTERVAL: Final = 5.0


class Cancellation:
    """Looks every few seconds for open deliveries to a subscription that the configuration no longer has.

    So it also finds messages that were accepted before the removal and stored after it, and what was left by a removal
    that a crash cut off. A subscription that was made again under that name keeps its own deliveries: what was received
    in the last seconds is left for a later look, since the clock of the receiving process may be behind this one. A
    subscription that is missing but was not removed was lost: none of its deliveries are canceled.
    """

    def __init__(self, store: Store, registry: Registry, clock: Clock, cancellations: Cancellations) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._cancellations = cancellations

    async def run(self) -> None:
        """Look until cancelled."""
        await watch(
            self.step,
            self._clock,
            _INTERVAL,
            Outage(_log, "deliveries of removed subscriptions are not canceled without the store"),
        )

    async def step(self) -> int:
        """Cancel what is open for subscriptions that are gone; return how many deliveries."""
        canceled = 0
        # The time before the configuration is read: a subscription made again later has messages of a later time only.
        until = self._clock.now() - SKEW
        await self._registry.refresh()
        for lane in await self._store.subscribed():
            if self._registry.catalog.is_gone(*lane):
                canceled += await self._cancellations.cancel(*lane, until)
        if canceled:
            _log.info("canceled %d deliveries of removed subscriptions", canceled)
        return canceled
