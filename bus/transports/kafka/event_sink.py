"""Blocks of trace events as records of a topic of their own, with the emitter as the key."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from bus.call_watch import CallWatch
from bus.errors import ConfigurationError, EventsUnavailable, TransportError
from bus.localized_text import localized
from bus.ports.events import SealedBlock
from bus.transports.kafka.config import KafkaConfig, milliseconds
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.errors import translated
from bus.transports.kafka.names import code_of
from bus.transports.kafka.protocol.closing import disconnect, stop_producer
from bus.transports.kafka.protocol.metadata import layout_of
from bus.transports.kafka.protocol.requests import create_topic

_ABANDON_WITHIN: Final = 0.5
_CLOSE_WITHIN: Final = 2.0
_COPIES: Final = 3
_HEADROOM: Final = 65_536


class KafkaEventSink:
    """An ``EventSink`` of a Kafka topic; accepted events are as durable as the topic's replication.

    A producer is never used again after a doubt about it: the next write makes another one, and repeats the blocks,
    which readers recognise.

    Parameters
    ----------
    topic
        Its name after the prefix; it is made when it is missing.

    Raises
    ------
    ConfigurationError
        A destination could have that topic.
    """

    def __init__(self, config: KafkaConfig, topic: str) -> None:
        self._config = config
        self._options = config.client_options()
        self._topic = config.prefix + topic
        if code_of(self._topic, config.prefix) is not None:
            raise ConfigurationError(
                f"events_topic = {topic!r} is the topic of a destination of that code",
                hint="take a name with a single hyphen, such as bus-events",
            )
        self._call_watch = CallWatch(f"the producer of {self._topic}")
        self._producer: Any = None

    async def write(self, blocks: Sequence[SealedBlock]) -> None:
        """Publish blocks, see ``bus.ports.events.EventSink``; ends within the publish time-out."""
        try:
            if self._producer is None:
                self._producer = await self._connect()
            with translated(localized("publishing trace events to {topic}", topic=self._topic)):
                await self._call(self._producer, self._send(blocks), self._config.publish_timeout, "publishing")
        except TransportError as error:
            await self._stop(_ABANDON_WITHIN)
            raise EventsUnavailable(
                localized("{error}; no message is affected", error=error.said), hint=error.hint_said
            ) from error

    async def tend(self) -> None:
        """Nothing is due."""

    async def close(self) -> None:
        """Close the connections."""
        await self._stop(_CLOSE_WITHIN)

    async def _send(self, blocks: Sequence[SealedBlock]) -> None:
        confirmations = [
            await self._producer.send(self._topic, block.line, key=block.emitter.encode()) for block in blocks
        ]
        await asyncio.gather(*confirmations)

    async def _connect(self) -> Any:
        """Make sure of the topic, and return a producer."""
        cluster = Cluster(self._options, self._config.request_timeout, self._call_watch)
        await cluster.open()
        try:
            with translated(localized("making topic {topic}", topic=self._topic)):
                async with asyncio.timeout(self._config.ensure_timeout):
                    if await layout_of(cluster, self._topic) is None:
                        await self._create(cluster)
            return await self._start(cluster)
        finally:
            await cluster.close()

    async def _create(self, cluster: Cluster) -> None:
        config = self._config
        settings = {
            "cleanup.policy": "delete",
            "max.message.bytes": str(config.batch_bytes + _HEADROOM),
            "message.timestamp.type": "LogAppendTime",  # readers judge by arrival, whatever an emitter's clock says
            "retention.ms": str(milliseconds(config.retention)),
        }
        if config.min_insync_replicas is not None:
            settings["min.insync.replicas"] = str(config.min_insync_replicas)
        replication = config.replication or min(_COPIES, len(cluster.nodes()))
        await create_topic(cluster, self._topic, config.partitions, replication, settings)

    async def _start(self, cluster: Cluster) -> Any:
        producer = AIOKafkaProducer(
            **self._options, acks="all", enable_idempotence=True, max_batch_size=self._config.batch_bytes
        )
        try:
            with translated(localized("starting to publish trace events")):
                cluster.introduce(producer.client)
                await self._call(producer, producer.start(), self._config.request_timeout, "starting")
        except BaseException:
            await stop_producer(producer, _ABANDON_WITHIN)
            raise
        return producer

    async def _call(self, producer: Any, work: Coroutine[Any, Any, None], within: float, kind: str) -> None:
        cut = partial(disconnect, producer.client)
        await self._call_watch.call(work, within=within, client=producer, cut=cut, kind=kind)

    async def _stop(self, within: float) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop_producer(producer, within)
