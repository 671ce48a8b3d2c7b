"""Two brokers of a Kafka cluster, of which both are needed to write and one is enough to read to the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bus.call_watch import CallWatch
from bus.domain.destination import Destination
from bus.domain.subscription import Subscription
from bus.errors import TransportError, TransportUnavailable
from bus.localized_text import AnyText, joined, localized
from bus.ports.broker_group import AWAY, GroupStatus
from bus.ports.clock import Clock
from bus.ports.quarantine import Quarantine
from bus.ports.transport import Lag
from bus.transports.kafka.config import KafkaConfig
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.errors import TROUBLE, describe, translated
from bus.transports.kafka.names import topic_of
from bus.transports.kafka.strict.backlog import backlog
from bus.transports.kafka.strict.copies import COPIES, pair
from bus.transports.kafka.strict.marks import ConfirmedEnds, has_mark, parse_mark, topic_mark
from bus.transports.kafka.strict.names import strict_prefix, writer_of
from bus.transports.kafka.strict.reader import KafkaReader
from bus.transports.kafka.strict.requirements import check_cluster, settings_of_topics
from bus.transports.kafka.strict.writer import KafkaWriter, open_writer
from bus.transports.kafka.transport import KafkaTransport

_log = logging.getLogger(__name__)
_SESSION: Final = 6.0
_HEARTBEAT: Final = 1.5
_UNKNOWN: Final = Lag(0, 0)
_TROUBLE: Final = (*TROUBLE, TransportError)


class KafkaGroup:
    """A group named as its cluster; topics are made and read as by ``KafkaTransport``, and written in transactions.

    Parameters
    ----------
    config
        How to reach the cluster, and times; of partitions and copies there are one and two, whatever it says.
    quarantine
        Where records go that others put into our topics.
    fsync
        Each message is on the disks of both brokers before it is confirmed (``flush.messages=1``).

    Raises
    ------
    ConfigurationError
        The file of authorities cannot be read, or the prefix is too long.
    """

    def __init__(self, config: KafkaConfig, quarantine: Quarantine, clock: Clock, *, fsync: bool = False) -> None:
        self._config = _strict(config, fsync=fsync)
        self._clock = clock
        self._fsync = fsync
        self._options = self._config.client_options()
        self._transport = KafkaTransport(self._config, quarantine, clock)
        self._call_watch = CallWatch(f"the connections to {config.cluster} of writers")
        self._cluster = self._connections()
        self._opening = asyncio.Lock()
        self._writers: list[KafkaWriter] = []
        self._confirmed = ConfirmedEnds()
        self._lags: dict[tuple[str, str], Lag] = {}

    @property
    def name(self) -> str:
        """The name of its cluster."""
        return self._config.cluster

    def check(self, destination: Destination) -> None:
        """Refuse a code whose topic's name would be too long."""
        self._transport.check(destination)

    async def run(self) -> None:
        """Keep connections and figures up until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._transport.run())
            tasks.create_task(self._count_for_ever())

    async def ensure(self, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        """Make the topic and the start of each new subscription, and look whether the cluster is set as it must be."""
        topic = self._topic(destination.code)
        with translated(localized("making destination {destination}", destination=destination.code)):
            async with asyncio.timeout(self._config.ensure_timeout):
                cluster = await self._opened()
                if len(cluster.nodes()) < COPIES:
                    raise TransportUnavailable(self._missing())
                await self._transport.ensure(destination, subscriptions)
                await check_cluster(cluster, topic, writer_of(topic), fsync=self._fsync)
        self._lags |= {(destination.code, one.name): _UNKNOWN for one in subscriptions}

    async def remove(self, destination: str, subscription: str) -> None:
        """Delete a subscription's group; the topic stays, and its records expire with its retention."""
        self._lags.pop((destination, subscription), None)
        await self._transport.remove(destination, subscription)

    async def standing(self, destination: str, subscriptions: Sequence[str]) -> GroupStatus:
        """Ask both brokers whether they have the topic in step, and read the backlog beyond each commit."""
        topic = self._topic(destination)
        try:
            async with asyncio.timeout(self._config.publish_timeout):
                cluster = await self._opened()
                await pair(cluster, topic)
                # With both in step nothing comes back of what they lack, though it was confirmed.
                left = [await backlog(cluster, topic, name) for name in subscriptions]
        except _TROUBLE as error:
            _log.debug("kafka: group %s: %s", self.name, describe(error))
            return AWAY
        is_whole = None not in left
        return GroupStatus(is_whole, is_empty=is_whole and not any(lag.records for lag in left if lag is not None))

    async def mark(self, destination: str, known: str = "") -> str:
        """Return the topic's id and end; of one that was marked, the end of what this process has had confirmed.

        It is what was known when it is another topic by now, or became shorter.
        """
        topic = self._topic(destination)
        try:
            async with asyncio.timeout(self._config.publish_timeout):
                found = await topic_mark(await self._opened(), topic)
        except _TROUBLE as error:
            _log.debug("kafka: group %s: %s", self.name, describe(error))
            return ""
        if not known:
            self._confirmed.forget(topic)  # of data before this
            return str(found)
        raised = self._confirmed.raised(topic, parse_mark(known))
        return str(raised._replace(id=found.id or raised.id)) if found.has(raised) else known

    async def has_mark(self, destination: str, mark: str) -> bool | None:
        """Ask whether the topic still has that id, and all that was confirmed by the mark or to this process."""
        topic = self._topic(destination)
        wanted = self._confirmed.raised(topic, parse_mark(mark))
        try:
            async with asyncio.timeout(self._config.publish_timeout):
                has = await has_mark(await self._opened(), topic, wanted)
        except _TROUBLE as error:
            _log.debug("kafka: group %s: %s", self.name, describe(error))
            return None
        if not has:
            self._confirmed.forget(topic)
        return has

    async def writer(self, destination: str) -> KafkaWriter:
        """Return a writer once both brokers are in step and all writers before it, of all processes, are shut out."""
        topic = self._topic(destination)

        def confirmed(end: int) -> None:
            self._confirmed.note(topic, end)

        writer = await open_writer(self._connections(), topic, self._config, self._clock, confirmed)
        self._writers = [writer, *(one for one in self._writers if one.is_open)]
        return writer

    async def reader(self, destination: str, subscription: str) -> KafkaReader:
        """Return a reader, which takes part in the subscription's consumer group."""
        consumer = await self._transport.consume(destination, subscription)
        topic = self._topic(destination)

        async def has_nothing_left() -> bool:
            return await self._is_read(topic, subscription)

        return KafkaReader(consumer, has_nothing_left, self._config.session_timeout / 2)

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        """Return the uncommitted records of each subscription, as of a moment ago."""
        return dict(self._lags) if self._transport.lags() is not None else None

    def condition(self) -> AnyText:
        """Return what is wrong with the cluster, or with destinations on it, or that a broker is unreachable."""
        troubles = [trouble for trouble in self._transport.conditions().values() if trouble]
        if not troubles and self._cluster.is_open and len(self._cluster.nodes()) < COPIES:
            return self._missing()
        return joined(troubles)

    async def close(self) -> None:
        """Close the writers and readers that are left, and every connection."""
        for writer in self._writers:
            await writer.close()
        await self._transport.close()
        await self._cluster.close()

    def _topic(self, destination: str) -> str:
        return topic_of(destination, self._config.prefix)

    def _connections(self) -> Cluster:
        return Cluster(self._options, self._config.request_timeout, self._call_watch)

    def _missing(self) -> AnyText:
        return localized(
            "kafka: {count} of 2 brokers of group {name} answer", count=len(self._cluster.nodes()), name=self.name
        )

    async def _opened(self) -> Cluster:
        """Return the connections for questions, made when there are none yet."""
        async with self._opening:
            if not self._cluster.is_open:
                await self._cluster.open()
        return self._cluster

    async def _left(self, topic: str, subscription: str) -> Lag | None:
        return await backlog(await self._opened(), topic, subscription, self._confirmed.end(topic))

    async def _is_read(self, topic: str, subscription: str) -> bool:
        try:
            async with asyncio.timeout(self._config.publish_timeout):
                left = await self._left(topic, subscription)
        except _TROUBLE as error:
            _log.debug("kafka: group %s: %s", self.name, describe(error))
            return False
        return left is not None and not left.records

    async def _count_for_ever(self) -> None:
        while True:
            for code, name in list(self._lags):
                await self._count(code, name)
            await self._clock.sleep(self._config.refresh)

    async def _count(self, code: str, name: str) -> None:
        try:
            async with asyncio.timeout(self._config.publish_timeout):
                left = await self._left(self._topic(code), name)
        except _TROUBLE as error:
            _log.debug("kafka: no figures of %s for %s: %s", code, name, describe(error))
            return
        if (code, name) in self._lags:
            self._lags[code, name] = left or _UNKNOWN


def _strict(config: KafkaConfig, *, fsync: bool) -> KafkaConfig:
    return replace(
        config,
        prefix=strict_prefix(config.prefix),
        partitions=1,
        replication=COPIES,
        min_insync_replicas=None,
        topic_settings=settings_of_topics(fsync=fsync),
        read_committed=True,
        session_timeout=min(config.session_timeout, _SESSION),
        heartbeat_interval=min(config.heartbeat_interval, _HEARTBEAT),
    )
