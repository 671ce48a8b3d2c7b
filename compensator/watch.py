"""What the watches over the clock have in common: they look again and again, and outlast the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.telemetry.outage import Outage


async def watch(step: Callable[[], Awaitable[object]], clock: Clock, interval: float, outage: Outage) -> None:
    """Do a step every so many seconds until cancelled; while the store is away it is tried again."""
    while True:
        try:
            await step()
        except StoreError as error:
            outage.goes_on(error)
        else:
            outage.is_over()
        await clock.sleep(interval)
