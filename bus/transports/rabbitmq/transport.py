"""RabbitMQ as a transport: a topic exchange for each destination, a quorum queue for each subscription, 2 clusters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from bus.domain.destination import Destination, Ordering, TransportName
from bus.domain.health.progress import Progress, worst
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.errors import TransportError, TransportRefused
from bus.localized_text import AnyText
from bus.ports.clock import Clock
from bus.ports.quarantine import Quarantine
from bus.ports.transport import Lag, OutgoingMessage
from bus.transports.rabbitmq.buffer import Buffer
from bus.transports.rabbitmq.config import RabbitmqConfig, check_limits
from bus.transports.rabbitmq.consumer import RabbitmqConsumer
from bus.transports.rabbitmq.feed import Feed
from bus.transports.rabbitmq.names import Lane
from bus.transports.rabbitmq.publisher import Verdict
from bus.transports.rabbitmq.supervision import Cluster
from bus.transports.rabbitmq.switching import Switch
from bus.transports.rabbitmq.topology import WantedBindings

_log = logging.getLogger(__name__)
PRIMARY: Final = "rabbitmq-primary"
BACKUP: Final = "rabbitmq-backup"


class RabbitmqTransport:
    """Publishes to the primary cluster, or while that fails to the backup; consumes both all the time.

    Parameters
    ----------
    quarantine
        Takes what lies in our queues and is no message of the bus.
    noise
        Random numbers from 0 to 1.
    """

    def __init__(
        self, config: RabbitmqConfig, quarantine: Quarantine, clock: Clock, noise: Callable[[], float]
    ) -> None:
        self._config = config
        self._quarantine = quarantine
        self._clock = clock
        self._noise = noise
        self._wanted = WantedBindings()
        self._consumers: set[RabbitmqConsumer] = set()
        self._ordered: set[str] = set()
        urls = {PRIMARY: config.primary} | ({BACKUP: config.backup} if config.backup is not None else {})
        patience = config.patience
        self._switch = Switch(list(urls), failures=patience.failures, well_for=patience.well_for)
        self._clusters = {
            name: Cluster(name, url, self._wanted, self._switch, lambda: self._consumers, patience, clock, noise)
            for name, url in urls.items()
        }

    @property
    def name(self) -> str:
        """Return ``rabbitmq``."""
        return TransportName.RABBITMQ

    @property
    def clusters(self) -> list[str]:
        """The names of the clusters, the primary first."""
        return list(self._clusters)

    @property
    def active(self) -> str:
        """The cluster that is published to, also while nothing is."""
        self._switch.order(self._clock.monotonic())
        return self._switch.active

    def prefer(self, cluster: str | None) -> None:
        """Publish to a cluster whenever it is well, beginning at once; None stands for the primary, in its own time.

        Raises
        ------
        ValueError
            There is no such cluster.
        """
        self._switch.prefer(cluster, self._clock.monotonic())

    def check(self, destination: Destination) -> None:
        """Raise ``InvalidDestination`` for a size that brokers do not take by default."""
        check_limits(destination, self._config.max_message_bytes)

    async def run(self) -> None:
        """Keep both clusters up until cancelled."""
        async with asyncio.TaskGroup() as group:
            for cluster in self._clusters.values():
                group.create_task(cluster.run())

    async def ensure(self, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        """Make the exchange and a queue for each subscription on every cluster that answers.

        Durable on one cluster at least when it returns. Where it could not be done it is done before anything is
        published there, also when it raised: from then on nothing for the destination is confirmed without a queue.
        """
        (self._ordered.discard if destination.ordering is Ordering.NONE else self._ordered.add)(destination.code)
        if not subscriptions:
            return
        lanes = {Lane(destination.code, found.name): found.routing_pattern for found in subscriptions}
        try:
            await self._on_any(lambda cluster: cluster.make(lanes))
        finally:
            self._wanted.add(lanes)
            for cluster in self._clusters.values():
                cluster.topology.recheck()

    async def remove(self, destination: str, subscription: str) -> None:
        """Delete a subscription's queues; on a cluster that is unreachable it is done when that comes back."""
        lane = Lane(destination, subscription)
        self._wanted.discard(lane)
        for cluster in self._clusters.values():
            cluster.topology.doom(lane)
        await self._on_any(lambda cluster: cluster.delete(lane))

    async def publish(self, batch: Sequence[OutgoingMessage]) -> list[bool]:
        """Publish to the cluster in use, and unconfirmed messages to the other one.

        What keeps an order goes to the primary cluster alone: on the other one it would pass what the first still has.
        What matches no subscription's routing pattern is confirmed without being held, as is what no queue was
        ensured for.
        """
        open_items = {
            n: item.message for n, item in enumerate(batch) if item.message.destination in self._wanted.patterns
        }
        for name in self._switch.order(self._clock.monotonic()):
            if open_items and name != self.clusters[0]:
                in_order = {n: one for n, one in open_items.items() if one.destination in self._ordered}
                free = {n: one for n, one in open_items.items() if n not in in_order}
                open_items = in_order | (await self._publish_on(self._clusters[name], free) if free else {})
            elif open_items:
                open_items = await self._publish_on(self._clusters[name], open_items)
        return [n not in open_items for n in range(len(batch))]

    async def consume(self, destination: str, subscription: str) -> RabbitmqConsumer:
        """Return a consumer of the subscription's queues on all clusters."""
        buffer, lane, patience = Buffer(), Lane(destination, subscription), self._config.patience
        feeds = [
            Feed(
                name,
                cluster.consuming,
                lane,
                buffer,
                self._quarantine,
                patience,
                self._clock,
                self._noise,
                cluster.watch.distrust,
            )
            for name, cluster in self._clusters.items()
        ]
        consumer = RabbitmqConsumer(buffer, feeds, self._clock, self._consumers.discard, close_within=patience.close)
        self._consumers.add(consumer)
        return consumer

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        """Return the backlog of all clusters; one that has been unreachable for a while counts as empty.

        Of messages that were delivered and not acked only those of this process are seen, see ``LagWatch.lag``.
        """
        watches = [cluster.watch for cluster in self._clusters.values() if cluster.watch.knows]
        if not watches:
            return None
        return {
            (lane.destination, lane.subscription): _sum([watch.lag(lane) for watch in watches])
            for lane in self._wanted.lanes()
        }

    def progress(self) -> dict[tuple[str, str], Progress]:
        """Return how the consumers of each queue get on, on the cluster on which it is worst."""
        watches = [cluster.watch for cluster in self._clusters.values() if cluster.watch.knows]
        return worst(
            {(lane.destination, lane.subscription): found for lane, found in watch.progress().items()}
            for watch in watches
        )

    def conditions(self) -> dict[str, AnyText]:
        """Return what is wrong with each cluster."""
        return {name: cluster.trouble() for name, cluster in self._clusters.items()}

    async def close(self) -> None:
        """Leave all queues and close all connections."""
        await asyncio.gather(*(consumer.close() for consumer in list(self._consumers)))
        await asyncio.gather(*(cluster.close() for cluster in self._clusters.values()))

    async def _publish_on(self, cluster: Cluster, items: Mapping[int, Message]) -> dict[int, Message]:
        """Publish to one cluster; return the messages that it did not confirm."""
        able = {n: message for n, message in items.items() if cluster.publisher.takes(message.destination)}
        if not able:
            return dict(items)
        verdicts = dict(zip(able, await cluster.publisher.publish(list(able.values())), strict=True))
        before = self._switch.active
        if Verdict.CONFIRMED in verdicts.values():
            self._switch.succeeded(cluster.name)
        elif Verdict.DECLINED not in verdicts.values():
            self._switch.failed(cluster.name, self._clock.monotonic())
        if self._switch.active != before:
            _log.warning("publishing goes to %s now, %s confirms nothing", self._switch.active, before)
        return {n: message for n, message in items.items() if verdicts.get(n) is not Verdict.CONFIRMED}

    async def _on_any(self, act: Callable[[Cluster], Awaitable[None]]) -> None:
        """Do something on every cluster at once; it is done when one of them did it.

        Raises
        ------
        TransportError
            None did; of several reasons a refusal, which is more specific.
        """
        results = await asyncio.gather(*(act(one) for one in self._clusters.values()), return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        unexpected = next((error for error in errors if not isinstance(error, TransportError)), None)
        if unexpected is not None:
            raise unexpected
        for error in errors:
            _log.info("%s", error)
        if len(errors) == len(results):
            raise next((error for error in errors if isinstance(error, TransportRefused)), errors[0])


def _sum(lags: Sequence[Lag]) -> Lag:
    bounds = [lag.oldest for lag in lags if lag.oldest is not None]
    return Lag(sum(lag.records for lag in lags), min(bounds, default=None))
