"""A slot of a worker for a sample: a request that is no delivery."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bus.async_helpers import first_of
from bus.ports.clock import Clock
from bus.ports.sampling import PERMIT_PATIENCE


class SampleSlot:
    """Lets one sample at a time have a slot; while it waits or is in flight, deliveries leave one to it.

    Attributes
    ----------
    count
        How many slots are kept for it: 0 or 1.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told = asyncio.Event()
        self.count = 0

    def look_again(self) -> None:
        """Have a waiting sample check again whether a slot is free."""
        self._told.set()

    async def enter(self, has_room: Callable[[], bool]) -> bool:
        """Wait for a slot, then return True; False if none is free in time, or another sample is here."""
        if self.count:
            return False
        self.count = 1
        until = self._clock.monotonic() + PERMIT_PATIENCE
        is_in = False
        try:
            while not (is_in := has_room()) and (left := until - self._clock.monotonic()) > 0:
                await self._wait(left)
        finally:
            self.count = int(is_in)
        return is_in

    def leave(self) -> None:
        """Give the slot back."""
        self.count = 0

    async def _wait(self, seconds: float) -> None:
        self._told.clear()
        await first_of(self._told.wait(), self._clock.sleep(seconds))
