"""Asks the groups of brokers that the settings name whether they answer, without a bus."""

from __future__ import annotations

import asyncio
from typing import Final

from bus.bootstrap.brokers import open_groups
from bus.clock import SystemClock
from bus.localized_text import AnyText, localized
from bus.ports.broker_group import BrokerGroup
from bus.ports.clock import Clock
from bus.settings import Settings
from bus.transports.quarantine import NoQuarantine

_PATIENCE: Final = 5.0
_LOOK: Final = 0.05
_SETTLING: Final = 0.5


async def probe_groups(settings: Settings) -> dict[str, AnyText]:
    """Return what is wrong with each group, empty for nothing, by ``kafka_groups.NAME``; takes 6 s at most.

    Raises
    ------
    ConfigurationError
        A setting is impossible, or an extra is missing.
    """
    clock = SystemClock()
    opened = open_groups(settings, NoQuarantine(), clock)
    groups = {
        f"{transport}_groups.{name}": group for transport, found in opened.items() for name, group in found.items()
    }
    return dict(zip(groups, await asyncio.gather(*(_probe(group, clock) for group in groups.values())), strict=True))


async def _probe(group: BrokerGroup, clock: Clock) -> AnyText:
    running = asyncio.create_task(group.run())
    try:
        async with asyncio.timeout(_PATIENCE):
            while group.lags() is None:
                await clock.sleep(_LOOK)
        # A copy that is away may say so a moment after the others have answered.
        await clock.sleep(_SETTLING)
        return group.condition()
    except TimeoutError:
        return group.condition() or localized("it does not answer within {seconds} s", seconds=f"{_PATIENCE:g}")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await group.close()
