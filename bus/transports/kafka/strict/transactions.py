"""A topic's transactions, request by request, so that each answer is seen and none is sent after a deadline.

The client library's producer tries again for as long as it lives, and cannot report a batch that it has given up.
Functions raise ``KafkaError`` or a time-out; the caller sets the deadline and translates. Whatever they raise, the
producer is not to be used again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import errors as kafka
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from bus.transports.kafka.codec import OutgoingRecord
from bus.transports.kafka.config import milliseconds
from bus.transports.kafka.connection import OF_TRANSACTIONS, Cluster
from bus.transports.kafka.strict.copies import PARTITION

_ALL_COPIES: Final = -1
_MAGIC: Final = 2
_UNCOMPRESSED: Final = 0
# Until the coordinator has written down the end of the transaction before, which takes it some milliseconds.
_BACKOFF: Final = 0.002


@dataclass
class Producer:
    """The author of transactions: the broker refuses authors of the same name with an earlier epoch.

    Attributes
    ----------
    sequence
        The number of its next record.
    """

    name: str
    id: int
    epoch: int
    sequence: int = 0


async def new_producer(cluster: Cluster, name: str, ends_within: float) -> Producer:
    """Fence all earlier producers of a name, abort their transaction under way, and return the new producer.

    Parameters
    ----------
    ends_within
        Seconds after which the broker aborts a transaction of this one that does not end.
    """
    answer = await _ask(cluster, name, InitProducerIdRequest(name, milliseconds(ends_within)), _check_one)
    return Producer(name, answer.producer_id, answer.producer_epoch)


async def begin(cluster: Cluster, producer: Producer, topic: str) -> None:
    """Begin a transaction on a topic."""
    request = AddPartitionsToTxnRequest(producer.name, producer.id, producer.epoch, [(topic, [PARTITION])])
    await _ask(cluster, producer.name, request, _check_partitions)


async def end(cluster: Cluster, producer: Producer, *, commit: bool) -> None:
    """Commit or abort the transaction; may be repeated."""
    request = EndTxnRequest(producer.name, producer.id, producer.epoch, commit)
    await _ask(cluster, producer.name, request, _check_one)


async def produce(cluster: Cluster, leader: int, topic: str, batch: bytes, producer: Producer, within: float) -> int:
    """Append a batch that ``batches`` made; return its first offset once all copies in step have it."""
    request = ProduceRequest(producer.name, _ALL_COPIES, milliseconds(within), [(topic, [(PARTITION, batch)])])
    answer = await cluster.ask_node(leader, request)
    ((_, ((_, error_code, offset, *_),)),) = answer.topics
    _raise(error_code)
    return int(offset)


def batches(
    producer: Producer, records: Sequence[OutgoingRecord], now: int, max_bytes: int
) -> Iterator[tuple[bytes, int]]:
    """Yield records in order as batches, with how many are in each, of at most so many bytes, or of one larger record.

    Parameters
    ----------
    now
        The time of the records, in milliseconds since the epoch.
    """
    waiting = list(records)
    while waiting:
        builder, count = _builder(producer, max_bytes), 0
        while count < len(waiting) and _append(builder, count, waiting[count], now):
            count += 1
        producer.sequence += count
        del waiting[:count]
        yield bytes(builder.build()), count


def _builder(producer: Producer, max_bytes: int) -> Any:
    return DefaultRecordBatchBuilder(
        magic=_MAGIC,
        compression_type=_UNCOMPRESSED,
        is_transactional=1,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=producer.sequence,
        batch_size=max_bytes,
    )


def _append(builder: Any, place: int, record: OutgoingRecord, now: int) -> bool:
    appended = builder.append(place, timestamp=now, key=record.key, value=record.value, headers=record.headers)
    return appended is not None


async def _ask(cluster: Cluster, name: str, request: Any, check: Callable[[Any], None]) -> Any:
    """Ask the coordinator of the name's transactions, again while it is at the end of the one before."""
    while True:
        try:
            return await cluster.ask_coordinator(name, request, check, kind=OF_TRANSACTIONS)
        except kafka.ConcurrentTransactions:
            await asyncio.sleep(_BACKOFF)


def _check_one(answer: Any) -> None:
    _raise(answer.error_code)


def _check_partitions(answer: Any) -> None:
    for _, partitions in answer.errors:
        for _, error_code in partitions:
            _raise(error_code)


def _raise(error_code: int) -> None:
    error = kafka.for_code(error_code)
    if error is not kafka.NoError:
        raise error
