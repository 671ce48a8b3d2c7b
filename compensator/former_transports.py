"""Transports that a destination has left are detached once their time is over and they are empty."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from bus.domain.destination import Destination
from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.ports.transport import Lag
from bus.registry import Registry
from bus.transports.router import Lags, TransportRouter

_log = logging.getLogger(__name__)
_INTERVAL: Final = 60.0
_NOTHING: Final = Lag(0, None)


class FormerTransports:
    """Looks every minute; a transport that cannot be asked, or that still holds something, stays."""

    def __init__(self, registry: Registry, router: TransportRouter, clock: Clock) -> None:
        self._registry = registry
        self._router = router
        self._clock = clock

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._clock.sleep(_INTERVAL)
            await self.step()

    async def step(self) -> None:
        """Detach the former transports that are over; their queues are deleted then."""
        now = self._clock.now()
        destinations = self._registry.catalog.destinations.values()
        over = [found for found in destinations if any(now >= transport.until for transport in found.former)]
        # Read once for all that stay, and again after each change, which takes its time.
        lags = self._router.lags() if over else {}
        for destination in over:
            left = tuple(
                one
                for one in destination.former
                if now < one.until or not self._is_empty(destination, lags.get(one.transport))
            )
            if left == destination.former:
                continue
            try:
                await self._registry.put_destination(msgspec.structs.replace(destination, former=left))
            except StoreError as error:  # another process changed it, or the store is unreachable
                _log.info("former transports of %s are given up later: %s", destination.code, error)
            lags = self._router.lags()

    def _is_empty(self, destination: Destination, lags: Lags | None) -> bool:
        """Whether a transport holds nothing for a destination's subscriptions; False while it cannot be asked."""
        subscriptions = self._registry.catalog.of(destination.code)
        return all(lags is not None and lags.get(found.key, _NOTHING).oldest is None for found in subscriptions)
