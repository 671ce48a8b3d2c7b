"""Polling of the administration of brokers, and the report while it is unreachable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from bus.domain.health.vitals import BrokerFigures, NodeFigures
from bus.errors import TransportUnavailable
from bus.observing.brokers import INTERVAL, BrokerWatch
from bus.telemetry import metrics
from bus.testing.clock import ManualClock


class Plugin:
    """A cluster's administration, which can be away."""

    def __init__(self, cluster: str = "rabbitmq-primary") -> None:
        self.cluster = cluster
        self.asked = 0
        self.is_away = self.is_closed = False

    async def look(self) -> BrokerFigures:
        self.asked += 1
        if self.is_away:
            raise TransportUnavailable("it does not answer")
        nodes = (NodeFigures("a", is_running=True), NodeFigures("b", is_running=False, memory_alarm=True))
        return BrokerFigures(self.cluster, nodes, connections=5, in_flow=self.asked, ready=7)

    async def close(self) -> None:
        self.is_closed = True


@asynccontextmanager
async def watching(clock: ManualClock, plugin: Plugin, first: Callable[[], bool]) -> AsyncIterator[BrokerWatch]:
    found = BrokerWatch([plugin], first, clock)
    running = asyncio.create_task(found.run())
    await clock.settle()
    yield found
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert plugin.is_closed


async def test_each_cluster_is_asked_twice_a_minute() -> None:
    clock, plugin = ManualClock(), Plugin()
    async with watching(clock, plugin, lambda: True) as found:
        await clock.advance(10 * INTERVAL - 1)
        assert plugin.asked == 10
        (one,) = found.figures()
        assert one.in_flow == 10


async def test_a_process_that_does_not_watch_asks_nobody() -> None:
    clock, plugin, watches = ManualClock(), Plugin(), [False]
    async with watching(clock, plugin, lambda: watches[0]) as found:
        await clock.advance(5 * INTERVAL)
        assert (plugin.asked, found.figures()) == (0, [])
        watches[0] = True
        await clock.advance(INTERVAL)
        assert plugin.asked == 1


async def test_administration_that_is_away_is_said_once_and_then_tells_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, plugin = ManualClock(), Plugin()
    async with watching(clock, plugin, lambda: True) as found:
        plugin.is_away = True
        await clock.advance(2 * INTERVAL)
        assert found.figures()
        await clock.advance(3 * INTERVAL)
        assert not found.figures()
        assert caplog.text.count("it does not answer") == 1
        plugin.is_away = False
        await clock.advance(INTERVAL)
        assert found.figures()


async def test_it_is_told_by_metrics() -> None:
    async with watching(ManualClock(), Plugin("rabbitmq-backup"), lambda: True) as found:
        for meter in found.offers.meters:
            meter()()

    def value(name: str, **labels: str) -> float | None:
        return metrics.REGISTRY.get_sample_value(name, {"cluster": "rabbitmq-backup", **labels})

    assert value("bus_broker_nodes", state="down") == 1
    assert value("bus_broker_alarms", kind="memory") == 1
    assert value("bus_broker_connections", state="all") == 5
    assert value("bus_broker_messages", state="ready") == 7
