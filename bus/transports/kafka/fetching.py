"""Moves records from aiokafka's consumer into the buffer, without ever waiting for a subscriber."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka import errors as kafka

from bus.call_watch import CallWatch
from bus.ports.quarantine import ForeignRecord
from bus.transports.kafka.buffer import Buffer
from bus.transports.kafka.codec import headers_as_text, read_record
from bus.transports.kafka.commits import Window
from bus.transports.kafka.config import KafkaConfig
from bus.transports.kafka.protocol.closing import disconnect

_log = logging.getLogger(__name__)
_TRANSPORT: Final = "kafka"
_AT_ONCE: Final = 200
_POLL_MS: Final = 1000
_BLOCKED_POLL_MS: Final = 50
_POLLS_AN_INTERVAL: Final = 4

SetAside = Callable[[ForeignRecord, int, int], None]
"""Takes a record that is no message, with its partition and offset."""


class ConsumerPolling:
    """Polls one consumer for as long as it lives.

    While the buffer for the subscriber is full, partitions are paused and polling continues, so that the
    group does not take this consumer for dead. A partition whose window is closed is paused alone.
    """

    def __init__(
        self, consumer: Any, buffer: Buffer, config: KafkaConfig, set_aside: SetAside, call_watch: CallWatch
    ) -> None:
        self._call_watch = call_watch
        self._consumer = consumer
        self._buffer = buffer
        self._patience = config.max_poll_interval / _POLLS_AN_INTERVAL
        self._revive_after = config.revive_after
        self._longest_poll = config.revive_after + config.rebalance_timeout
        self._set_aside = set_aside
        self._heard: list[int | None] = []
        self._heard_at = 0.0
        self._closed: dict[TopicPartition, Window] = {}

    async def run(self) -> None:
        """Fetch until cancelled.

        Raises
        ------
        KafkaError, OSError
            The consumer has failed; another one has to be made.
        """
        self._heard_at = asyncio.get_running_loop().time()
        while True:
            await self._wait_for_room()
            self._open_windows()
            timeout = _BLOCKED_POLL_MS if self._closed else _POLL_MS
            found = await self._poll(timeout_ms=timeout, max_records=_AT_ONCE)
            for partition, records in found.items():
                self._take(partition, records)
            if not found and not self._closed:
                self._look_for_topic()
                self._listen()

    async def _poll(self, **how: int) -> Any:
        """Poll once; a rebalance that does not end holds that up, and at last ends it."""
        consumer = self._consumer
        return await self._call_watch.call(
            consumer.getmany(**how),
            within=self._longest_poll,
            client=consumer,
            cut=partial(disconnect, consumer._client),  # noqa: SLF001
            kind="polling",
        )

    def _look_for_topic(self) -> None:
        """Have the client ask for the topic when it could not; else it would assign none of it for half a minute."""
        if None in map(self._consumer.partitions_for_topic, self._consumer.subscription()):
            self._consumer._client.force_metadata_update()  # noqa: SLF001 - there is no public way

    def _listen(self) -> None:
        """Raise when no broker has answered for too long: a fetch, or a search for the coordinator without one."""
        partitions = [place for place in self._consumer.assignment() if place.partition in self._buffer.partitions]
        heard = [self._consumer.last_poll_timestamp(place) for place in partitions]
        now = asyncio.get_running_loop().time()
        known = self._consumer._coordinator.coordinator_id is not None  # noqa: SLF001 - there is no public way
        if heard != self._heard or (known and not partitions):
            self._heard, self._heard_at = heard, now
        elif now - self._heard_at > self._revive_after:
            raise kafka.KafkaConnectionError(f"no broker has answered for {self._revive_after:g} s")

    async def _wait_for_room(self) -> None:
        paused: set[TopicPartition] = set()
        while not self._buffer.has_room:
            try:
                async with asyncio.timeout(self._patience):
                    await self._buffer.room()
            except TimeoutError:
                paused = set(self._consumer.assignment())
                self._consumer.pause(*paused)
                await self._poll(timeout_ms=0)
        self._resume(paused - self._closed.keys())

    def _open_windows(self) -> None:
        """Resume partitions whose window has moved on or has been replaced."""
        for partition, window in list(self._closed.items()):
            if window.next < window.closes_at or self._buffer.window(partition.partition) is not window:
                del self._closed[partition]
                self._resume({partition})

    def _resume(self, partitions: set[TopicPartition]) -> None:
        """Resume partitions that are started; those that are not will be when they start."""
        assigned = self._consumer.assignment()
        started = {found for found in partitions & assigned if found.partition in self._buffer.partitions}
        self._consumer.resume(*started)

    def _take(self, partition: TopicPartition, records: Sequence[Any]) -> None:
        number = partition.partition
        for record in records:
            window = self._buffer.window(number)
            if window is None:
                return  # it is assigned to another consumer
            if record.offset < window.next:
                window = self._begin_anew(partition, window, record.offset)
            if record.offset >= window.closes_at:
                self._consumer.seek(partition, record.offset)
                self._consumer.pause(partition)
                self._closed[partition] = window
                return
            self._admit(partition, record)

    def _admit(self, partition: TopicPartition, record: Any) -> None:
        try:
            message = read_record(record.headers, record.value)
        except ValueError as error:
            foreign, number = _foreign(partition, record, str(error)), partition.partition
            if self._buffer.admit_foreign(number, record.offset, record.timestamp, len(foreign.payload)):
                self._set_aside(foreign, number, record.offset)
        else:
            self._buffer.admit(partition.partition, record.offset, message, record.timestamp)

    def _begin_anew(self, partition: TopicPartition, former: Window, offset: int) -> Window:
        _log.warning("kafka: the log of %s/%d began anew; it is read from there", *partition)
        window = former.anew(offset, self._consumer.highwater(partition) or offset)
        self._buffer.restart(partition.partition, window)
        return window


def _foreign(partition: TopicPartition, record: Any, reason: str) -> ForeignRecord:
    place = f"{partition.topic}/{partition.partition}@{record.offset}"
    return ForeignRecord(_TRANSPORT, place, reason, headers_as_text(record.headers), record.value or b"")
