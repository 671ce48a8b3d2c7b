"""Publishing with failover over nsqds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from bus.ports.transport import Outgoing
from bus.transports.nsq.cluster import Cluster
from bus.transports.nsq.codec import wrap
from bus.transports.nsq.node import Dependencies, Nsqd
from bus.transports.nsq.protocol.commands import MPUB_OVERHEAD, SIZE_OVERHEAD
from bus.transports.nsq.protocol.http import Limits

_log = logging.getLogger(__name__)
_TRIES: Final = 2
"""Time-outs after which no further nsqd is tried."""


class Publisher:
    """Gives each batch to one nsqd, to another one each time; what one does not confirm goes to the next."""

    def __init__(self, cluster: Cluster, dependencies: Dependencies) -> None:
        self._cluster = cluster
        self._timeout = dependencies.config.timeout
        self._clock = dependencies.clock
        self._topology = dependencies.topology
        self._turn = 0

    async def publish(self, batch: Sequence[Outgoing]) -> list[bool]:
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
        self, topic: str, batch: Sequence[Outgoing], indexes: Sequence[int], confirmed: list[bool]
    ) -> None:
        """Publish the messages of one topic, and strike out of ``confirmed`` those that are not."""
        for index in indexes:
            confirmed[index] = False
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
        for index, body in bodies.items():
            if limits.message and len(body) > limits.message:
                _log.warning(
                    "message %s for %s is larger than nsqd takes, %d > %d bytes; start nsqd with a larger "
                    "--max-msg-size",
                    batch[index].message.id,
                    topic,
                    len(body),
                    limits.message,
                )

    async def _try(self, node: Nsqd, topic: str, bodies: dict[int, bytes]) -> list[int]:
        """Publish at one nsqd and return what it confirmed."""
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


def split(sizes: dict[int, int], limits: Limits) -> list[list[int]]:
    """Return which messages go together into one MPUB, in order; those over the limit of one are left out.

    Parameters
    ----------
    sizes
        Bytes of each message.
    """
    parts: list[list[int]] = []
    room = 0
    for index, size in sizes.items():
        if size > limits.message or size + SIZE_OVERHEAD + MPUB_OVERHEAD > limits.body:
            continue
        if size + SIZE_OVERHEAD > room:
            parts.append([])
            room = limits.body - MPUB_OVERHEAD
        parts[-1].append(index)
        room -= size + SIZE_OVERHEAD
    return parts
