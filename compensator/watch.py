"""The loop of periodic work: a step again and again, also while the store is unreachable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.telemetry.outage import Outage


async def watch(step: Callable[[], Awaitable[object]], clock: Clock, interval: float, outage: Outage) -> None:
    """Run a step every so many seconds until cancelled; when the store is unreachable it is tried again."""
    while True:
        try:
            await step()
        except StoreError as error:
            outage.goes_on(error)
        else:
            outage.is_over()
        await clock.sleep(interval)
