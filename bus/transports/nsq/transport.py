"""NSQ as a transport: a topic for each destination, a channel for each subscription.

A message that an nsqd confirmed is held by that one process. It should run with ``--mem-queue-size=0``, so that
messages wait on its disk; messages in flight or waiting to be sent again are in its memory even then, and those not
synced yet (2 s by default, ``--sync-timeout``) may be lost in a crash. An nsqd that is killed can lose all of these,
and an nsqd whose machine is lost loses everything. So NSQ is never the only copy: the store has each message with its
expected deliveries, and those that no transport holds any more are found there and compensated.

Bodies travel with the bus's own envelope, which makes them some hundred bytes larger; nsqd's ``--max-msg-size``
(1 MiB by default) must be larger than the largest message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from bus.async_helpers import lasting
from bus.domain.destination import Destination, Ordering, TransportName
from bus.domain.health.progress import Progress
from bus.domain.subscription import Subscription
from bus.errors import InvalidDestination, TransportError, TransportRefused, TransportUnavailable
from bus.localized_text import AnyText, joined, localized
from bus.ports.clock import Clock
from bus.ports.quarantine import Quarantine
from bus.ports.transport import HeldMessages, Lag, OutgoingMessage
from bus.transports.nsq.cluster import Cluster
from bus.transports.nsq.config import Address, NsqConfig
from bus.transports.nsq.consumer import NsqConsumer
from bus.transports.nsq.errors import ErrorFrame, NsqFault, PermissionRefused
from bus.transports.nsq.names import channel_of, topic_of
from bus.transports.nsq.node import Dependencies, Nsqd
from bus.transports.nsq.partitions.order import NO_ORDER, NO_ORDER_HINT
from bus.transports.nsq.partitions.publisher import PartitionPublisher
from bus.transports.nsq.partitions.routes import Routes
from bus.transports.nsq.partitions.urgent_lookups import UrgentLookups
from bus.transports.nsq.protocol.commands import SubscribeMode
from bus.transports.nsq.protocol.http import NsqHttp
from bus.transports.nsq.publisher import Publisher
from bus.transports.nsq.source import Source, way_of
from bus.transports.nsq.topology import Lane, Topology


class NsqTransport:
    """Publishes to several nsqds with failover, and consumes from all of them.

    Parameters
    ----------
    quarantine
        Takes messages that are not the bus's.
    noise
        Gives numbers in [0, 1).
    """

    def __init__(self, config: NsqConfig, quarantine: Quarantine, clock: Clock, noise: Callable[[], float]) -> None:
        self._quarantine = quarantine
        self._topology = Topology()
        self._http = NsqHttp(config.tls, config.timeout)
        self._dependencies = Dependencies(config, self._http, clock, noise, self._topology, UrgentLookups())
        self._consumers: set[NsqConsumer] = set()
        self._routes = Routes(self._dependencies, self._read_here, self._follow_route)
        self._cluster = Cluster(self._dependencies, self._follow, self._routes.take)
        self._partitions = PartitionPublisher(self._routes, self._dependencies)
        self._publisher = Publisher(self._cluster, self._partitions, self._dependencies)
        self._removed: set[Lane] = set()
        self._group: asyncio.TaskGroup | None = None

    @property
    def name(self) -> str:
        """Return ``nsq``."""
        return TransportName.NSQ

    def check(self, destination: Destination) -> None:
        """Raise ``InvalidDestination`` when no topic can have the code's name, or none would keep its order."""
        topic_of(destination.code)
        if destination.ordering is Ordering.KEY and not self._routes.has_partitions:
            raise InvalidDestination(NO_ORDER, hint=NO_ORDER_HINT, field="ordering")

    async def run(self) -> None:
        """Keep nsqds and consumers connected, and figures current, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                looking = lasting("looking for partitions", self._routes.run, self._dependencies.clock.sleep)
                group.create_task(looking)
                connecting = lasting("connecting to partitions", self._partitions.run, self._dependencies.clock.sleep)
                group.create_task(connecting)
                await self._cluster.run()
            finally:
                self._group = None

    async def ensure(self, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        """Make the topic and the channels on every nsqd that can be reached, or in its partitions.

        The others get them before anything is published to them. What is impossible to name is refused after the
        rest was made.
        """
        topic = topic_of(destination.code)
        self._topology.describe(
            topic, keeps_order=destination.ordering is not Ordering.NONE, is_traced=destination.traced
        )
        refused: TransportRefused | None = None
        for subscription in subscriptions:
            try:
                self._demand(Lane(topic, channel_of(subscription.name)))
            except TransportRefused as error:
                refused = error
        self._cluster.review()
        self._follow_one(topic)
        await self._cluster.settled()
        if not await self._prepare(topic):
            if self._topology.keeps_order(topic):
                raise TransportRefused(NO_ORDER, hint=NO_ORDER_HINT)
            await self._each(lambda node: node.prepare(topic))
            if not any(node.ready(topic) for node in self._cluster.homes()):
                raise self._away()
        if refused is not None:
            raise refused

    async def remove(self, destination: str, subscription: str) -> None:
        """Delete the channel, not the topic; an nsqd that is unreachable does so when it is back.

        The same holds for an nsqd that leads a partition.
        """
        try:
            lane = Lane(topic_of(destination), channel_of(subscription))
        except (InvalidDestination, TransportRefused):
            return
        self._topology.discard(lane)
        self._removed.add(lane)
        self._follow_one(lane.topic)
        await self._cluster.settled()
        if await self._routes.remove(lane):
            return
        await self._cluster.forget(lane)
        if not await self._each(lambda node: node.remove(lane)):
            raise self._away()

    async def publish(self, batch: Sequence[OutgoingMessage]) -> list[bool]:
        """Publish a destination's messages to one nsqd, and unconfirmed ones to others.

        Waits for three time-outs at most.
        """
        return await self._publisher.publish(batch)

    async def consume(self, destination: str, subscription: str) -> NsqConsumer:
        """Return the subscription's consumer."""
        consumer = NsqConsumer(
            Lane(destination, subscription), self._dependencies, self._quarantine, self._consumers.discard
        )
        self._consumers.add(consumer)
        self._dependencies.haste.add(destination)
        self._connect(consumer)
        return consumer

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        """Return the messages that the reachable nsqds hold; NSQ does not report their age.

        A partition without a known leader, or that accepts no messages, cannot be taken for empty.
        """
        found = self._cluster.lags()
        if found is None:
            return None
        hidden = {topic for topic, _ in found if not self._routes.layout(topic).numbers <= self._cluster.all_led(topic)}
        return {lane: Lag(max(lag.records, 1), 0) if lane[0] in hidden else lag for lane, lag in found.items()}

    def progress(self) -> dict[tuple[str, str], Progress]:
        """Return how the channels of stock nsqds are read; figures of the fork's nsqds do not show it."""
        return self._cluster.progress()

    def held(self) -> dict[tuple[str, str], HeldMessages]:
        """Return the messages of channels that wait, are in flight, and are deferred."""
        return self._cluster.held()

    def conditions(self) -> dict[str, AnyText]:
        """Return what is wrong with each nsqd and nsqlookupd, and which consumers are refused."""
        found = self._cluster.conditions() | self._routes.conditions(self._partitions.troubles())
        for consumer in self._consumers:
            found |= consumer.refusals()
        return found

    async def close(self) -> None:
        """Close the remaining connections."""
        for consumer in list(self._consumers):
            await consumer.close()
        await self._partitions.close()
        await self._http.close()

    def _demand(self, lane: Lane) -> None:
        self._topology.add(lane)
        self._removed.discard(lane)
        self._routes.channels.keep(lane)
        for node in self._cluster.nodes:
            node.keep(lane)

    async def _prepare(self, topic: str) -> bool:
        """Make the topic and its channels in partitions; False where topics have none."""
        try:
            return await self._routes.prepare(topic)
        except (ErrorFrame, PermissionRefused) as fault:
            raise TransportRefused(
                localized("nsqlookupd makes no topic {topic}: {fault}", topic=topic, fault=str(fault)),
                hint=localized("check BUS_NSQ_PARTITIONS and BUS_NSQ_REPLICATION against the number of nsqds"),
            ) from fault
        except NsqFault as fault:
            raise TransportUnavailable(
                localized("no partition takes messages; nothing was lost: {fault}", fault=str(fault)),
                hint=localized("check that nsqd and nsqlookupd run, and who leads"),
            ) from fault

    async def _each(self, act: Callable[[Nsqd], Coroutine[Any, Any, None]]) -> bool:
        """Do the same at every nsqd without partitions at once; whether one of them worked."""
        nodes = [node for node in self._cluster.nodes if not node.is_fork]
        results = await asyncio.gather(*(_attempt(act(node)) for node in nodes))
        return any(results)

    def _away(self) -> TransportError:
        """Return the error that says why no nsqd can be used."""
        nodes = self._cluster.homes()
        troubles = joined(
            localized("{name}: {trouble}", name=name, trouble=trouble)
            for name, trouble in self.conditions().items()
            if trouble
        )
        if nodes and all(node.denied for node in nodes):
            return TransportRefused(
                localized("no nsqd lets the bus in; nothing was lost: {troubles}", troubles=troubles),
                hint=localized("check the secret, the certificates and the settings of nsqd"),
            )
        return TransportUnavailable(
            localized("no nsqd answers; nothing was lost: {troubles}", troubles=troubles or localized("none is known")),
            hint=localized("check that nsqd runs and BUS_NSQ_NSQD or BUS_NSQ_LOOKUPD names it"),
        )

    def _follow(self) -> None:
        """Have each consumer connected to the nsqds of its topic."""
        for consumer in self._consumers:
            self._connect(consumer)

    def _follow_one(self, topic: str) -> None:
        for consumer in self._consumers:
            if consumer.lane.topic == topic:
                self._connect(consumer)

    def _follow_route(self, topic: str) -> None:
        """Have consumers and publishers find a topic whose partitions have moved."""
        self._partitions.follow(topic)
        self._follow_one(topic)

    def _read_here(self) -> set[str]:
        return {consumer.lane.topic for consumer in self._consumers}

    def _connect(self, consumer: NsqConsumer) -> None:
        """Have a consumer connected to its topic; a connection for a removed channel would make it again."""
        if self._group is not None:
            removed = consumer.lane in self._removed
            consumer.follow([] if removed else self._sources(consumer.lane.topic), self._group.create_task)

    def _sources(self, topic: str) -> list[Source]:
        """Return the partitions of a topic, and the nsqds that have it without; stock NSQ has only such."""
        layout = self._routes.layout(topic)
        whole = set(layout.others)
        if not layout.is_partitioned:
            whole |= self._cluster.holders(topic)
        way = way_of(
            is_ordered=layout.is_ordered or self._topology.keeps_order(topic), is_traced=self._topology.is_traced(topic)
        )
        led = [Source(place.tcp, number, way, layout.is_extended) for number, place in layout.readable.items()]
        if self._dependencies.config.read_partitions:
            return [source for source in led if source.partition in self._dependencies.config.read_partitions]
        return [*led, *(source for address in whole for source in self._elsewhere(address, topic, way))]

    def _elsewhere(self, address: Address, topic: str, way: SubscribeMode) -> list[Source]:
        """Return what an nsqd has of a topic that is not looked up by partitions: those it leads, or else the whole.

        Of one that may lead some, nothing before it has said which: whole, it would give one of them alone.
        """
        if self._cluster.may_lead(address):
            return [Source(address, number, way, is_fixed=True) for number in self._cluster.led(address, topic)]
        return [Source(address)]


async def _attempt(act: Coroutine[Any, Any, None]) -> bool:
    try:
        await act
    except NsqFault:
        return False
    return True
