"""Publishing with failover over nsqds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from bus.ports.transport import OutgoingMessage
from bus.transports.nsq.batches import split, tell_too_large
from bus.transports.nsq.cluster import Cluster
from bus.transports.nsq.codec import wrap
from bus.transports.nsq.node import Dependencies, Nsqd
from bus.transports.nsq.partitions.publisher import PartitionPublisher
from bus.transports.nsq.protocol.http import Limits

_TRIES: Final = 2
"""Time-outs after which no further nsqd is tried."""


class Publisher:
    """Gives each batch to one nsqd, to another one each time; unconfirmed messages are sent to the next one.

    Topics with partitions are published to partition by partition.
    """

    def __init__(self, cluster: Cluster, partitions: PartitionPublisher, dependencies: Dependencies) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self._timeout = dependencies.config.timeout
        self._clock = dependencies.clock
        self._topology = dependencies.topology
        self._turn = 0

    async def publish(self, batch: Sequence[OutgoingMessage]) -> list[bool]:
        """Return for each message whether an nsqd confirmed it; never raises for the network."""
        topics: dict[str, list[int]] = {}
        for index, item in enumerate(batch):
            topics.setdefault(item.message.destination, []).append(index)
        confirmed = [True] * len(batch)
        async with asyncio.TaskGroup() as group:
            for topic, indexes in topics.items():
                if self._topology.channels(topic):
                    group.create_task(self._publish(topic, batch, indexes, confirmed))
        return confirmed

    async def _publish(
        self, topic: str, batch: Sequence[OutgoingMessage], indexes: Sequence[int], confirmed: list[bool]
    ) -> None:
        """Publish the messages of one topic, and strike out of ``confirmed`` those that are not."""
        for index in indexes:
            confirmed[index] = False
        if self._partitions.has(topic):
            for index in await self._partitions.publish(topic, {index: batch[index] for index in indexes}):
                confirmed[index] = True
            return
        if self._topology.keeps_order(topic):
            return  # over several nsqds a key has no order
        bodies = {index: wrap(batch[index].payload) for index in indexes}
        until = self._clock.monotonic() + _TRIES * self._timeout
        limits = Limits(0, 0)
        for node in self._in_turn(topic):
            limits = node.limits
            for index in await self._try(node, topic, bodies):
                confirmed[index] = True
                del bodies[index]
            if not bodies or self._clock.monotonic() >= until:
                break
        left = {index: len(body) for index, body in bodies.items()}
        tell_too_large(topic, {index: batch[index].message.id for index in left}, left, limits)

    async def _try(self, node: Nsqd, topic: str, bodies: dict[int, bytes]) -> list[int]:
        """Publish at one nsqd and return the messages that it confirmed."""
        parts = split({index: len(body) for index, body in bodies.items()}, node.limits)
        self._topology.publishing(topic, self._clock.monotonic())
        answers = await node.publish(topic, [[bodies[index] for index in part] for part in parts])
        self._topology.publishing(topic, self._clock.monotonic())
        return [index for part, answer in zip(parts, answers, strict=True) if answer for index in part]

    def _in_turn(self, topic: str) -> list[Nsqd]:
        ready = [node for node in self._cluster.homes() if node.ready(topic)]
        if not ready:
            return []
        self._turn += 1
        first = self._turn % len(ready)
        return ready[first:] + ready[:first]
