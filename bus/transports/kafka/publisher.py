"""Sends records and returns within a deadline which of them the cluster holds."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka import errors as kafka
from aiokafka.conn import CloseReason
from aiokafka.partitioner import murmur2

from bus.call_watch import CallHangs, CallWatch
from bus.domain.message import Message
from bus.localized_text import AnyText, localized
from bus.ports.clock import Clock
from bus.transports.kafka.codec import OutgoingRecord, record_of
from bus.transports.kafka.config import KafkaConfig
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.errors import describe, translated
from bus.transports.kafka.protocol.closing import disconnect, stop_producer

_log = logging.getLogger(__name__)
# Records without a key go to one partition in runs, so that they share batches and all partitions get some.
_RUN: Final = 64
_BROKEN: Final = (CloseReason.CONNECTION_BROKEN, CloseReason.CONNECTION_TIMEOUT, CloseReason.OUT_OF_SYNC)
_POSITIVE: Final = 0x7FFF_FFFF
_ABANDON_WITHIN: Final = 0.5


@dataclass(frozen=True)
class Topic:
    """Where a destination's records go.

    Attributes
    ----------
    partitions
        How many there are, which decides where a key belongs.
    led
        Those that have a leader now.
    max_bytes
        The largest batch it takes.
    """

    name: str
    partitions: int
    led: tuple[int, ...]
    max_bytes: int


class PublishResult(NamedTuple):
    """The outcome of a publication: whether each record is held, and the topic's error, if there is one."""

    held: list[bool]
    trouble: AnyText


@dataclass
class _Batch:
    """Records that travel together; ``places`` are their positions among those to publish."""

    builder: Any
    places: list[int] = field(default_factory=list)


class _Producer:
    """One idempotent producer, which is never used again after a doubt about it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.users = 0
        self.idle = asyncio.Event()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def lose(self) -> None:
        """Say that whatever it has under way is in doubt."""
        if not self.lost.done():
            self.lost.set_result(None)


class Publisher:
    """Publishes through one producer at a time.

    An idempotent producer of aiokafka never gives a batch up, and cannot continue after a batch that was refused. Nor
    may it continue after an outage of the cluster, which may have been wiped and may use its number for another
    producer. So a new one takes its place each time; the old one's records under way are unknown, hence not held.

    Parameters
    ----------
    on_doubt
        Called when the cluster may be unreachable or the producer has to be replaced.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: KafkaConfig,
        options: dict[str, Any],
        clock: Clock,
        on_doubt: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._options = options
        self._clock = clock
        self._on_doubt = on_doubt
        self._call_watch = CallWatch(f"the producer of {config.cluster}")
        self._producer: _Producer | None = None
        self._tainted = False
        self._retired: set[asyncio.Task[None]] = set()
        self._runs = itertools.count()

    @property
    def is_up(self) -> bool:
        """Whether it can publish."""
        return self._producer is not None

    @property
    def wants_renewal(self) -> bool:
        """Whether ``renew`` should be called."""
        return self._producer is None or self._tainted

    async def renew(self) -> None:
        """Replace the producer; the old one's calls under way come to their end.

        Raises
        ------
        TransportUnavailable, TransportRefused
            None could be made.
        """
        client = AIOKafkaProducer(
            **self._options,
            acks="all",
            enable_idempotence=True,
            max_batch_size=self._config.batch_bytes,
            metadata_max_age_ms=60_000,
        )
        producer = _Producer(client)
        self._watch(producer)
        try:
            with translated(localized("starting to publish")):
                self._cluster.introduce(client.client)
                await self._call_watch.call(
                    client.start(),
                    within=self._config.request_timeout,
                    client=client,
                    cut=partial(disconnect, client.client),
                    kind="starting",
                )
        except BaseException:
            await stop_producer(client, _ABANDON_WITHIN)
            raise
        self._retire()
        self._producer, self._tainted = producer, False
        if producer.lost.done():  # its connection broke again meanwhile
            self.lose()

    def lose(self) -> None:
        """Publish nothing until ``renew``; calls under way end at once."""
        if self._producer is not None:
            self._producer.lose()
        self._retire()

    async def send(self, topic: Topic, messages: Sequence[Message]) -> PublishResult:
        """Publish messages to one topic; ends within the publish time-out."""
        producer = self._producer
        held = [False] * len(messages)
        if producer is None:
            return PublishResult(held, "")
        batches = self._batches(producer, topic, messages)
        producer.users += 1
        try:
            trouble = await self._deliver(producer, topic, batches, held)
        finally:
            producer.users -= 1
            producer.idle.set()
        return PublishResult(held, trouble)

    async def close(self) -> None:
        """Close the connections; has a deadline."""
        self.lose()
        while self._retired:
            await asyncio.wait(self._retired)

    def _batches(self, producer: _Producer, topic: Topic, messages: Sequence[Message]) -> dict[int, list[_Batch]]:
        """Return the batches of each partition; a message that fits into none is left out."""
        batches: dict[int, list[_Batch]] = {}
        now = self._clock.now()
        run = next(self._runs)
        for place, message in enumerate(messages):
            record = record_of(message)
            if record.size > topic.max_bytes:
                _log.warning(
                    "kafka: message %s needs %d bytes and topic %s takes %d; it is not published",
                    *(message.id, record.size, topic.name, topic.max_bytes),
                )
                continue
            if place and place % _RUN == 0:
                run = next(self._runs)
            partition = _partition(topic, record.key, run)
            if partition is not None:
                _add(producer, batches.setdefault(partition, []), record, place, now)
        return batches

    async def _deliver(
        self, producer: _Producer, topic: Topic, batches: dict[int, list[_Batch]], held: list[bool]
    ) -> AnyText:
        """Send batches and mark the records that are held; return the error, if any."""
        tasks = {
            self._call_watch.start(_send_in_order(producer, topic, partition, queue, held))
            for partition, queue in batches.items()
        }
        if not tasks:
            return ""
        everything = asyncio.ensure_future(asyncio.wait(tasks))
        try:
            ends: set[asyncio.Future[Any]] = {everything, producer.lost}
            await asyncio.wait(ends, timeout=self._config.publish_timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            everything.cancel()
            client = producer.client
            await self._call_watch.stop(tasks, client=client, cut=partial(disconnect, client.client), kind="publishing")
        return self._judge(producer, topic, [_error(task) for task in tasks])

    def _judge(self, producer: _Producer, topic: Topic, ended: Sequence[BaseException | None]) -> AnyText:
        """Return the error of a topic, and have the producer replaced if there is one."""
        failed = next((error for error in ended if error is not None), None)
        if failed is None or producer.lost.done():
            return ""
        is_late = isinstance(failed, asyncio.CancelledError | CallHangs)
        trouble = localized("no confirmation in time") if is_late else describe(failed)
        _log.warning(
            "kafka: publishing to %s: %s; what is not confirmed waits to be published again", topic.name, trouble
        )
        if producer is self._producer:
            self._tainted = True
        self._on_doubt()
        return trouble

    def _watch(self, producer: _Producer) -> None:
        """Notice at once when the last connection breaks, which the client would only mend in silence."""
        client = producer.client.client
        noticed = client._on_connection_closed  # noqa: SLF001 - there is no public way to hear of it

        def closed(connection: Any, reason: CloseReason) -> None:
            noticed(connection, reason)
            if reason in _BROKEN and not any(other.connected() for other in client._conns.values()):  # noqa: SLF001
                producer.lose()
                if producer is self._producer:
                    self._retire()
                    self._on_doubt()

        client._on_connection_closed = closed  # noqa: SLF001

    def _retire(self) -> None:
        """Close the present producer once its calls under way came to their end."""
        producer, self._producer = self._producer, None
        if producer is not None:
            task = asyncio.create_task(self._close_idle(producer))
            self._retired.add(task)
            task.add_done_callback(self._retired.discard)

    async def _close_idle(self, producer: _Producer) -> None:
        while producer.users:
            producer.idle.clear()
            await producer.idle.wait()
        await stop_producer(producer.client, _ABANDON_WITHIN)


def _error(task: asyncio.Task[None]) -> BaseException | None:
    if not task.done():
        return CallHangs()
    return asyncio.CancelledError() if task.cancelled() else task.exception()


def _partition(topic: Topic, key: bytes | None, run: int) -> int | None:
    """Return the partition of a record: by its key as in every Kafka client; None when it has no leader."""
    if key is None:
        return topic.led[run % len(topic.led)] if topic.led else None
    partition = int(murmur2(key) & _POSITIVE) % topic.partitions
    return partition if partition in topic.led else None


def _add(producer: _Producer, queue: list[_Batch], record: OutgoingRecord, place: int, now: int) -> None:
    """Put a record into a partition's last batch, or begin another one when that is full."""
    if not queue or not _append(queue[-1], record, now):
        queue.append(_Batch(producer.client.create_batch()))
        _append(queue[-1], record, now)  # the first record always fits
    queue[-1].places.append(place)


def _append(batch: _Batch, record: OutgoingRecord, now: int) -> bool:
    appended = batch.builder.append(timestamp=now, key=record.key, value=record.value, headers=record.headers)
    return appended is not None


async def _send_in_order(
    producer: _Producer, topic: Topic, partition: int, queue: list[_Batch], held: list[bool]
) -> None:
    """Send a partition's batches one behind the other, and mark those that are confirmed.

    Raises
    ------
    KafkaError
        One was refused; the others may have been confirmed.
    """
    sent: list[tuple[_Batch, asyncio.Future[Any]]] = []
    for batch in queue:
        confirmation = await producer.client.send_batch(batch.builder, topic.name, partition=partition)
        confirmation.add_done_callback(_look_at)
        sent.append((batch, confirmation))
    refused: Exception | None = None
    for batch, confirmation in sent:
        try:
            await confirmation
        except kafka.KafkaError as error:
            refused = error
        else:
            for place in batch.places:
                held[place] = True
    if refused is not None:
        raise refused


def _look_at(confirmation: asyncio.Future[Any]) -> None:
    """Retrieve an exception that no caller may be waiting for any more, so that asyncio does not log it."""
    if not confirmation.cancelled():
        confirmation.exception()
