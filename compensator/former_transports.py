"""Transports that a destination has left are detached once their time is over and they are empty."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from bus.domain.destination import Destination, FormerTransport
from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.registry import Registry
from bus.transports.router import TransportRouter

_log = logging.getLogger(__name__)
_INTERVAL: Final = 60.0


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
        for destination in list(self._registry.catalog.destinations.values()):
            left = tuple(transport for transport in destination.former if not self._is_over(destination, transport))
            if left == destination.former:
                continue
            try:
                await self._registry.put_destination(msgspec.structs.replace(destination, former=left))
            except StoreError as error:  # somebody else changed it, or the store is away
                _log.info("former transports of %s are given up later: %s", destination.code, error)

    def _is_over(self, destination: Destination, transport: FormerTransport) -> bool:
        if self._clock.now() < transport.until:
            return False
        lags = [
            self._router.lag(destination, found.name, transport.transport)
            for found in self._registry.catalog.of(destination.code)
        ]
        return all(lag is not None and lag.oldest is None for lag in lags)
