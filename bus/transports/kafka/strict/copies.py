"""The copies of a topic on its two brokers, read from each broker itself."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from aiokafka import TopicPartition
from aiokafka import errors as kafka
from aiokafka.consumer.fetcher import READ_COMMITTED, READ_UNCOMMITTED, PartitionRecords
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.memory_records import MemoryRecords

from bus.errors import TransportUnavailable
from bus.localized_text import localized
from bus.transports.kafka.config import milliseconds
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.protocol.metadata import Copies, copies_of, layout_of

COPIES: Final = 2
PARTITION: Final = 0
_WAIT: Final = 0.5
_A_BYTE: Final = 1
_SOME_BYTES: Final = 65_536


class Pair(NamedTuple):
    """The broker that leads a topic, and the other one, which keeps a copy in step with it."""

    leader: int
    other: int


async def pair(cluster: Cluster, topic: str) -> Pair:
    """Return a topic's leader and follower, once both report that they are in step.

    Raises
    ------
    TransportUnavailable
        One of them is unreachable or behind, or they do not agree.
    KafkaError, OSError
        One of them does not answer.
    """
    await layout_of(cluster, topic)  # any answer names the brokers that there are now
    found = {await copies_of(cluster, node, topic) for node in cluster.nodes()}
    copies = found.pop() if len(found) == 1 else None
    if copies is None or not _is_whole(copies):
        raise TransportUnavailable(localized("kafka: {topic} has not two copies in step now", topic=topic))
    (leader,) = copies.brokers & {copies.leader}
    (other,) = copies.brokers - {leader}
    return Pair(leader, other)


def _is_whole(copies: Copies) -> bool:
    return copies.leader in copies.in_step == copies.brokers and len(copies.brokers) == COPIES


async def wait_for_copy(cluster: Cluster, node: int, topic: str, offset: int, producer: tuple[int, int]) -> None:
    """Return once a broker serves the batch at an offset, of a producer (its id and epoch), to readers.

    It serves records below its high watermark, which no copy that is in step ever gives up. The caller sets the
    deadline.

    Raises
    ------
    KafkaError, OSError
        It does not answer, or has something else there.
    """
    while True:
        _, _, _, _, batches = await _fetch(cluster, node, topic, offset, _A_BYTE, READ_UNCOMMITTED, wait=_WAIT)
        found = MemoryRecords(batches)
        if found.has_next():
            batch: Any = found.next_batch()
            if (batch.producer_id, batch.producer_epoch) != producer:
                raise kafka.KafkaError(f"broker {node} has something else at {topic}@{offset}")
            return


class Stretch(NamedTuple):
    """Messages of a topic from an offset on: their records, and the offset after them."""

    records: list[Any]
    next: int


async def committed_from(cluster: Cluster, leader: int, topic: str, offset: int) -> Stretch:
    """Read on from an offset, what was committed and at once; ``next`` stays where a transaction is undecided.

    Raises
    ------
    KafkaError, OSError
        The broker does not answer, or does not lead the topic.
    """
    _, _, _, aborted, batches = await _fetch(cluster, leader, topic, offset, _SOME_BYTES, READ_COMMITTED, wait=0)
    place = TopicPartition(topic, PARTITION)
    found = PartitionRecords(place, MemoryRecords(batches), aborted, offset, None, None, True, READ_COMMITTED)
    records = list(found)
    return Stretch(records, found.next_fetch_offset)


async def _fetch(
    cluster: Cluster, node: int, topic: str, offset: int, max_bytes: int, isolation: int, *, wait: float
) -> Any:
    """Return high watermark, last stable offset, log start, aborted transactions and batches."""
    request = FetchRequest(
        milliseconds(wait), _A_BYTE, max_bytes, isolation, [(topic, [(PARTITION, offset, max_bytes)])]
    )
    answer = await cluster.ask_node(node, request)
    ((_, ((_, error_code, watermark, stable, start, aborted, *_, batches),)),) = answer.topics
    error = kafka.for_code(error_code)
    if error is not kafka.NoError:
        raise error(topic)
    return watermark, stable, start, aborted, batches
