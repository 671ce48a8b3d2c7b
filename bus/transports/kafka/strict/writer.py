"""Writes to a topic, one transaction at a time, and confirms messages that both brokers have."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from aiokafka import errors as kafka

from bus.domain.message import Message
from bus.errors import TransportError
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.transports.kafka.codec import record_of
from bus.transports.kafka.config import KafkaConfig
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.errors import TROUBLE, describe, translated
from bus.transports.kafka.strict.copies import Pair, pair, wait_for_copy
from bus.transports.kafka.strict.names import writer_of
from bus.transports.kafka.strict.transactions import Producer, batches, begin, end, new_producer, produce

_log = logging.getLogger(__name__)
_TRANSACTION_ENDS_WITHIN: Final = 10.0


class KafkaWriter:
    """Confirms messages when the broker that does not lead serves them to readers as well.

    Acknowledgements alone do not prove it: while one of the brokers is unreachable, the other one acknowledges for
    itself. ``min.insync.replicas=2`` would prevent that, but then readers would not get the last messages, nor
    transactions come to an end, until the other one is back.

    Parameters
    ----------
    on_confirmed
        Called with the offset below which everything is confirmed.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        copies: Pair,
        producer: Producer,
        config: KafkaConfig,
        clock: Clock,
        on_confirmed: Callable[[int], None],
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._copies = copies
        self._producer = producer
        self._config = config
        self._clock = clock
        self._on_confirmed = on_confirmed
        self._is_over = False
        self._is_undecided = False

    @property
    def is_open(self) -> bool:
        """Whether it has connections that are to be closed."""
        return self._cluster.is_open

    async def write(self, messages: Sequence[Message]) -> int:
        """Write messages in one transaction: all of them are confirmed, or none.

        What is not confirmed may be held, from the first on without a gap, or come yet while the transaction ends.
        """
        if self._is_over or not messages:
            return 0
        self._is_over = True
        try:
            async with asyncio.timeout(self._config.publish_timeout):
                await self._write(messages)
        except (*TROUBLE, TransportError) as error:
            _log.warning("kafka: writing to %s: %s; this writer ends", self._topic, describe(error))
            return 0
        self._is_over = False
        return len(messages)

    async def close(self) -> None:
        """Abort an undecided transaction, so that readers get past it at once, and close the connections."""
        self._is_over = True
        if self._is_undecided and self.is_open:
            with suppress(*TROUBLE):
                async with asyncio.timeout(self._config.request_timeout):
                    await end(self._cluster, self._producer, commit=False)
        await self._cluster.close()

    async def _write(self, messages: Sequence[Message]) -> None:
        self._is_undecided = True
        await begin(self._cluster, self._producer, self._topic)
        records = [record_of(message) for message in messages]
        made = batches(self._producer, records, self._clock.now(), self._config.batch_bytes)
        ends = [await self._produce(batch) + count for batch, count in made]
        await end(self._cluster, self._producer, commit=True)
        self._is_undecided = False
        by = (self._producer.id, self._producer.epoch)
        await wait_for_copy(self._cluster, self._copies.other, self._topic, ends[-1] - 1, by)
        self._on_confirmed(ends[-1])

    async def _produce(self, batch: bytes) -> int:
        """Append a batch, also after the brokers have changed places; return its offset."""
        while True:
            try:
                return await produce(
                    self._cluster, self._copies.leader, self._topic, batch, self._producer, self._config.publish_timeout
                )
            except kafka.NotLeaderForPartitionError:
                self._copies = await pair(self._cluster, self._topic)


async def open_writer(
    cluster: Cluster, topic: str, config: KafkaConfig, clock: Clock, on_confirmed: Callable[[int], None]
) -> KafkaWriter:
    """Return a writer, with connections of its own, once all before it are shut out.

    Raises
    ------
    TransportUnavailable
        The brokers do not answer, or are not in step.
    TransportRefused
        They refuse.
    """
    try:
        with translated(localized("starting to write to {topic}", topic=topic)):
            async with asyncio.timeout(config.ensure_timeout):
                await cluster.open()
                copies = await pair(cluster, topic)
                producer = await new_producer(cluster, writer_of(topic), _TRANSACTION_ENDS_WITHIN)
    except BaseException:
        await cluster.close()
        raise
    return KafkaWriter(cluster, topic, copies, producer, config, clock, on_confirmed)
