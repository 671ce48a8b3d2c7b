"""The Kafka transport: a topic for each destination, a consumer group for each subscription."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from bus.call_watch import CallWatch
from bus.domain.destination import Destination, TransportName
from bus.domain.health.progress import Progress
from bus.domain.subscription import Subscription
from bus.localized_text import AnyText, joined, localized
from bus.ports.clock import Clock
from bus.ports.quarantine import Quarantine
from bus.ports.transport import Lag, OutgoingMessage
from bus.transports.kafka.config import KafkaConfig
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.consumer import KafkaConsumer
from bus.transports.kafka.errors import translated
from bus.transports.kafka.lag import Lags
from bus.transports.kafka.names import check_code, group_of, topic_of
from bus.transports.kafka.protocol.requests import delete_group, expel_members
from bus.transports.kafka.publisher import Publisher
from bus.transports.kafka.start_offsets import Group
from bus.transports.kafka.supervision import Supervision
from bus.transports.kafka.topology import Topology

_log = logging.getLogger(__name__)
_BACKOFF: Final = 0.1


class KafkaTransport:
    """Publishes to and consumes from one Kafka cluster.

    Parameters
    ----------
    quarantine
        Where records go that others put into our topics.

    Raises
    ------
    ConfigurationError
        The file of authorities cannot be read.
    """

    def __init__(self, config: KafkaConfig, quarantine: Quarantine, clock: Clock) -> None:
        self._config = config
        self._quarantine = quarantine
        self._clock = clock
        self._options = config.client_options()
        self._cluster = Cluster(
            self._options, config.request_timeout, CallWatch(f"the connections to {config.cluster}")
        )
        self._consumers: dict[KafkaConsumer, tuple[str, str]] = {}
        self._topology = Topology(self._cluster, config, self._join_again)
        self._lags = Lags(self._cluster, self._topology, clock)
        self._publisher = Publisher(self._cluster, config, self._options, clock, self._doubt)
        self._supervision = Supervision(self._cluster, self._publisher, self._topology, self._lags, config, clock)

    @property
    def name(self) -> str:
        """Return ``kafka``."""
        return TransportName.KAFKA

    def check(self, destination: Destination) -> None:
        """Refuse a code whose topic's name would be too long."""
        check_code(destination.code, self._config.prefix)

    async def run(self) -> None:
        """Keep the connections and the figures up until cancelled."""
        await self._supervision.run()

    async def ensure(self, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        """Make the topic, and commit the start of each new subscription."""
        self.check(destination)
        ensured = self._topology.want(destination, subscriptions)
        if ensured is None:
            return
        await self._supervision.answering(self._config.ensure_timeout)
        await self._topology.make(ensured)

    async def remove(self, destination: str, subscription: str) -> None:
        """Delete a subscription's group; the topic stays, and its records expire with its retention."""
        self._topology.forget(destination, subscription)
        for consumer in self._of(destination, subscription):
            await consumer.close()
        await self._supervision.answering(self._config.ensure_timeout)
        group = group_of(topic_of(destination, self._config.prefix), subscription)
        with translated(
            localized(
                "removing subscription {subscription} of {destination}",
                subscription=subscription,
                destination=destination,
            )
        ):
            async with asyncio.timeout(self._config.ensure_timeout):
                while not await delete_group(self._cluster, group):
                    # Consumers of other processes, which have not heard of it yet.
                    await expel_members(self._cluster, group)
                    await asyncio.sleep(_BACKOFF)

    async def publish(self, batch: Sequence[OutgoingMessage]) -> list[bool]:
        """Publish to the topics of destinations that were ensured here, with all in-sync copies confirming."""
        held = [self._topology.get(item.message.destination) is None for item in batch]
        by_destination: dict[str, list[int]] = {}
        for n, item in enumerate(batch):
            if not held[n]:
                by_destination.setdefault(item.message.destination, []).append(n)
        sending = [self._publish(code, batch, numbers, held) for code, numbers in by_destination.items()]
        if len(sending) == 1:
            await sending[0]
        elif sending:
            await asyncio.gather(*sending)
        return held

    async def consume(self, destination: str, subscription: str) -> KafkaConsumer:
        """Return the subscription's consumer, which joins its group by itself."""
        topic = topic_of(destination, self._config.prefix)
        group = Group(group_of(topic, subscription), topic, lambda: self._is_ensured(destination, subscription))
        consumer = KafkaConsumer(
            group, self._cluster, self._quarantine, self._config, self._options, self._clock, self._closed
        )
        self._consumers[consumer] = (destination, subscription)
        return consumer

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        """Return the uncommitted records of each subscription, as of a moment ago."""
        return self._lags.lags() if self._supervision.answers else None

    def progress(self) -> dict[tuple[str, str], Progress]:
        """Return how each subscription's group gets on."""
        return self._lags.progress() if self._supervision.answers else {}

    def conditions(self) -> dict[str, AnyText]:
        """Return what is wrong with the cluster, or with destinations on it."""
        troubles = (
            [self._supervision.trouble]
            if self._supervision.trouble
            else [ensured.trouble for ensured in self._topology]
        )
        found = {str(trouble): trouble for trouble in troubles if trouble}
        return {self._config.cluster: joined(found[text] for text in sorted(found))}

    async def close(self) -> None:
        """Close the consumers that are left, and every connection."""
        if self._consumers:
            await asyncio.gather(*(consumer.close() for consumer in list(self._consumers)))
        await self._publisher.close()
        await self._cluster.close()

    async def _publish(self, code: str, batch: Sequence[OutgoingMessage], numbers: list[int], held: list[bool]) -> None:
        """Publish the messages of one destination and mark those that are held."""
        destination = self._topology.get(code)
        if destination is None or destination.topic is None:
            return
        sent = await self._publisher.send(destination.topic, [batch[n].message for n in numbers])
        for n, confirmed in zip(numbers, sent.held, strict=True):
            held[n] = confirmed
        if sent.trouble:
            destination.doubt(
                localized("kafka: publishing to {name}: {trouble}", name=destination.name, trouble=sent.trouble)
            )

    def _doubt(self) -> None:
        """Look again before anything else is published: the cluster may be another one than it was."""
        if not self._publisher.is_up:
            self._topology.doubt()
        self._supervision.look()

    def _join_again(self, destination: str, subscription: str) -> None:
        for consumer in self._of(destination, subscription):
            consumer.restart()

    def _of(self, destination: str, subscription: str) -> list[KafkaConsumer]:
        return [consumer for consumer, of in self._consumers.items() if of == (destination, subscription)]

    def _is_ensured(self, destination: str, subscription: str) -> bool:
        ensured = self._topology.get(destination)
        return ensured is not None and subscription in ensured.known

    def _closed(self, consumer: KafkaConsumer) -> None:
        self._consumers.pop(consumer, None)
