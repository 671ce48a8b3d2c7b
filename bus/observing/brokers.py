"""Clusters of brokers as their own administration tells of them, asked by one process of the bus."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from bus.bootstrap import Fill, RoleServices
from bus.domain.health.vitals import BrokerFigures
from bus.errors import TransportError
from bus.ports.broker_health import BrokerHealth
from bus.ports.clock import Clock
from bus.telemetry import metrics
from bus.telemetry.outage import Outage

_log = logging.getLogger(__name__)
INTERVAL: Final = 30.0
"""Seconds between two looks at a cluster."""
_STALE: Final = 4 * INTERVAL


class _BrokerLook(NamedTuple):
    at: float
    found: BrokerFigures


class BrokerWatch:
    """Looks at each cluster twice a minute, while it is this process that watches.

    Administration that is away says nothing of its cluster, so nothing is told of it then: what the cluster does not
    do for the bus, its transport tells.
    """

    def __init__(self, clusters: Sequence[BrokerHealth], is_watching: Callable[[], bool], clock: Clock) -> None:
        self._clusters = clusters
        self._is_watching = is_watching
        self._clock = clock
        self._looked: dict[str, _BrokerLook] = {}
        self.offers = RoleServices(brokers=self.figures, meters=(self._measure,))

    def figures(self) -> list[BrokerFigures]:
        """Return what was seen last of each cluster; nothing of one that has not answered for minutes."""
        since = self._clock.monotonic() - _STALE
        return [looked.found for looked in self._looked.values() if looked.at >= since]

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for cluster in self._clusters:
                    group.create_task(self._look_for_ever(cluster))
        finally:
            for cluster in self._clusters:
                await cluster.close()

    async def _look_for_ever(self, cluster: BrokerHealth) -> None:
        outage = Outage(_log, f"how {cluster.cluster} is by its administration is not known")
        while True:
            if self._is_watching():
                try:
                    self._looked[cluster.cluster] = _BrokerLook(self._clock.monotonic(), await cluster.look())
                except TransportError as error:
                    outage.goes_on(error)
                else:
                    outage.is_over()
            await self._clock.sleep(INTERVAL)

    def _measure(self) -> Fill:
        return partial(_fill, {found.cluster: found for found in self.figures()})


def _fill(clusters: Mapping[str, BrokerFigures]) -> None:
    for name, found in clusters.items():
        running = sum(node.is_running for node in found.nodes)
        metrics.BROKER_NODES.labels(name, "running").set(running)
        metrics.BROKER_NODES.labels(name, "down").set(len(found.nodes) - running)
        metrics.BROKER_ALARMS.labels(name, "partition").set(sum(bool(node.partitions) for node in found.nodes))
        metrics.BROKER_ALARMS.labels(name, "memory").set(sum(node.memory_alarm for node in found.nodes))
        metrics.BROKER_ALARMS.labels(name, "disk").set(sum(node.disk_alarm for node in found.nodes))
        metrics.BROKER_CONNECTIONS.labels(name, "all").set(found.connections)
        metrics.BROKER_CONNECTIONS.labels(name, "flow").set(found.in_flow)
        metrics.BROKER_MESSAGES.labels(name, "ready").set(found.ready)
        metrics.BROKER_MESSAGES.labels(name, "unacked").set(found.unacked)
