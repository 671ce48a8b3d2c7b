"""A cluster of the fork from a table, as a transport's parts see it over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from bus.domain.routing.answers import Answer
from bus.domain.routing.listlookup import LookupAddresses
from bus.domain.routing.rooms import Access
from bus.ports.clock import Clock
from bus.testing.clock import ManualClock
from bus.transports.nsq.config import Address, NsqConfig
from bus.transports.nsq.errors import ConnectionLost
from bus.transports.nsq.node import Dependencies
from bus.transports.nsq.partitions.layout import Place
from bus.transports.nsq.partitions.urgent_lookups import UrgentLookups
from bus.transports.nsq.protocol.http import ChannelStats, Limits, TopicStats
from bus.transports.nsq.topology import Topology

LOOKUPD = Address("lookup", 4161)


class PartitionNodes:
    """Answers for one nsqlookupd and for nsqds, which lead partitions as ``led`` says.

    Attributes
    ----------
    led
        Which nsqd leads each partition of a topic.
    channels
        Those of all partitions of a topic; lookups for writing leave out partitions without.
    hanging
        Nsqds that answer nothing until they are gone.
    gone
        Set when those that hang end their connections.
    asked
        Which nsqd was asked for its figures, and of which topic, oldest first.
    """

    def __init__(self, led: Mapping[str, Mapping[int, Place]]) -> None:
        self.led = {topic: dict(places) for topic, places in led.items()}
        self.channels: dict[str, set[str]] = {topic: set() for topic in led}
        self.hanging: set[Address] = set()
        self.gone = asyncio.Event()
        self.asked: list[tuple[Address, str]] = []

    async def listed(self, lookupd: Address) -> LookupAddresses:
        return LookupAddresses((str(lookupd),), str(lookupd))

    async def lookup(self, _lookupd: Address, topic: str, access: Access) -> Answer:
        if access is Access.WRITE and not self.channels[topic]:
            return Answer(refusal="Topic has no channel, should init at least one for the new topic")
        peers = {
            str(number): {"broadcast_address": place.tcp.host, "tcp_port": place.tcp.port, "http_port": place.http_port}
            for number, place in self.led[topic].items()
        }
        return Answer(partitions=peers, meta={"partition_num": len(peers)} if access is Access.WRITE else None)

    async def stats(self, nsqd: Address, topic: str = "") -> list[TopicStats]:
        self.asked.append((nsqd, topic))
        await self._answering(nsqd)
        return [
            TopicStats(name, 0, [ChannelStats(one) for one in self.channels[name]], str(number), is_leader=True)
            for name, places in self.led.items()
            for number, place in places.items()
            if topic in {"", name} and place.http == nsqd
        ]

    async def limits(self, nsqd: Address) -> Limits:
        await self._answering(nsqd)
        return Limits(1024, 4096)

    async def create_channel(self, nsqd: Address, topic: str, _partition: int, channel: str) -> None:
        await self._answering(nsqd)
        self.channels[topic].add(channel)

    async def _answering(self, nsqd: Address) -> None:
        if nsqd in self.hanging:
            await self.gone.wait()
            raise ConnectionLost(f"{nsqd} is gone")


def dependencies(
    nodes: PartitionNodes, topology: Topology, clock: Clock | None = None, **changes: float
) -> Dependencies:
    """Return what parts of a transport need that has these nodes around it."""
    config = NsqConfig(lookupd=(LOOKUPD,), **changes)
    return Dependencies(config, nodes, clock or ManualClock(), lambda: 0.5, topology, UrgentLookups())
