"""Polling of the store's health, and the report while it does not answer."""

from __future__ import annotations

import asyncio

from bus.domain.health.vitals import ReplicaFigures, StoreFigures
from bus.errors import StoreUnavailable
from bus.observing.stores import StoreWatch
from bus.telemetry import metrics
from bus.testing.clock import ManualClock

FOUND = StoreFigures((ReplicaFigures("a", "PRIMARY"),), oplog=7_200_000, bytes=500, log=20)


class Asked:
    """A store that tells, and can be away."""

    def __init__(self) -> None:
        self.count = 0
        self.is_away = False

    async def health(self) -> StoreFigures:
        self.count += 1
        if self.is_away:
            raise StoreUnavailable("it does not answer")
        return FOUND


async def test_it_is_asked_once_a_minute_and_forgotten_when_it_is_away() -> None:
    clock, store, watches = ManualClock(), Asked(), [False]
    watch = StoreWatch(store, lambda: watches[0], clock)
    running = asyncio.create_task(watch.run())
    await clock.advance(120)
    assert (store.count, watch.figures()) == (0, None)
    watches[0] = True
    await clock.advance(120)
    assert (store.count, watch.figures()) == (2, FOUND)
    for meter in watch.offers.meters:
        meter()()
    assert metrics.REGISTRY.get_sample_value("bus_store_oplog_seconds") == 7200
    store.is_away = True
    await clock.advance(120)
    assert watch.figures() == FOUND
    await clock.advance(120)
    assert watch.figures() is None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_store_that_tells_nothing_is_not_asked() -> None:
    watch = StoreWatch(object(), lambda: True, ManualClock())
    await watch.run()
    assert watch.figures() is None
