"""The local durable queue."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from bus.domain.delivery.quota import SpoolCapacity

_log = logging.getLogger(__name__)
Content = TypeVar("Content")
Result = TypeVar("Result")
Result_contra = TypeVar("Result_contra", contravariant=True)


class NewRecord(NamedTuple):
    """A record to append.

    Attributes
    ----------
    lane
        Name of the stream inside the spool, as a rule a destination's; a stalled stream never blocks another one.
    payload
        Opaque bytes.
    time
        When the record was made, in milliseconds since the epoch.
    """

    lane: str
    payload: bytes
    time: int


class Record(NamedTuple):
    """A durable record: its content and its position, which grows inside a stream and is never used again."""

    position: int
    lane: str
    payload: bytes
    time: int


def decoded(record: Record, decode: Callable[[bytes], Content]) -> Content | None:
    """Return the decoded record, None when another version of the bus wrote it.

    Such a record is intact, so the caller must not ack it: it stays in the spool and is counted.
    """
    try:
        return decode(record.payload)
    except msgspec.DecodeError:
        _log.exception("record %d of %s is of another version; it stays in the spool", record.position, record.lane)
        return None


class ConsumerStats(NamedTuple):
    """Backlog of one consumer in one stream (``records`` waiting or claimed; ``oldest`` in ms, or None)."""

    lane: str
    consumer: str
    records: int
    oldest: int | None


class SpoolTotals(NamedTuple):
    """``records`` and ``bytes`` on disk, the size ``limit``, and ``damaged`` records set aside."""

    records: int
    bytes: int
    limit: int
    damaged: int


class SpoolStats(NamedTuple):
    """``records`` and ``bytes`` on disk, the size ``limit``, ``damaged`` records set aside, and each consumer's."""

    records: int
    bytes: int
    limit: int
    damaged: int
    consumers: list[ConsumerStats]


class Waiter(Protocol[Result_contra]):
    """Receiver of one result or exception; an `asyncio.Future` is one."""

    def done(self) -> bool:
        """Whether it takes no result any more."""
        ...

    def set_result(self, result: Result_contra, /) -> None:
        """Receive the result."""
        ...

    def set_exception(self, error: Exception, /) -> None:
        """Receive the exception, when there is no result."""
        ...


def tell(waiter: Waiter[Result], found: Result | Exception) -> None:
    """Pass a waiter the result of its records, or the error for which they were not stored; log what it raises."""
    try:
        if waiter.done():
            return
        if isinstance(found, Exception):
            waiter.set_exception(found)
        else:
            waiter.set_result(found)
    except Exception:  # noqa: BLE001 - the other waiters of its commit get their result, and the next commit follows
        _log.exception("who waited for an append failed")


class Spool(Protocol):
    """A durable local queue with several named consumers, each acking single records in any order.

    A record is deleted from the file when every consumer attached to its stream acked it. Delivery is at least once:
    an ack that was not committed before a crash is lost and its record is claimed again.
    """

    async def append(self, records: Sequence[NewRecord], *, urgent: bool = False) -> list[int]:
        """Store the records, all or none, and return their positions in order.

        Durable (fsync) when it returns. Callers at the same time share one fsync. Cancelling the wait
        leaves it open whether the records were stored. ``urgent`` may use the disk reserve.

        Raises
        ------
        SpoolFull
            The size limit or the disk reserve is reached; nothing of this call was stored.
        SpoolFailed
            The disk failed; whether this call was stored is unknown, as after a time-out.
        """
        ...

    def append_with(
        self,
        records: Sequence[NewRecord],
        waiter: Waiter[list[int]],
        *,
        urgent: bool = False,
        lingers: bool = False,
        consumer: str = "",
        done: Sequence[Record] = (),
    ) -> None:
        """Store the records as `append` does, and pass the waiter the result or the exception.

        The records in ``done``, which ``consumer`` holds, are acked in the same commit: after a crash both happened or
        neither. When nothing is stored they are still held.

        An append that ``lingers`` may wait for the commit of others, for a twentieth of a second at most, as acks do.

        The waiter is called on the event loop and after this has returned, unless it is ``done`` by then. All waiters
        of a commit are called before any consumer is woken. What a waiter raises is logged, and affects no other.

        Raises
        ------
        SpoolError
            As `append` does, when the error is known at once; then nothing was stored, and the waiter is not called.
        """
        ...

    def lanes(self, consumer: str) -> Sequence[str]:
        """Streams in which this consumer could claim now, the least recently claimed first."""
        ...

    async def wait(self, consumer: str, *lanes: str) -> None:
        """Return when this consumer could claim from one of these streams; from any where none is named."""
        ...

    async def claim(self, consumer: str, limit: int, lane: str) -> list[Record]:
        """Take up to ``limit`` durable records of a stream, in order, that this consumer neither holds nor acked.

        Damaged records are set aside, counted, and never returned. May return none.
        """
        ...

    def ack(self, consumer: str, records: Sequence[Record], *, synced: bool = True) -> None:
        """Finish claimed records. Durable with the next commit, which follows at once; may be called twice.

        With ``synced`` False that commit costs no fsync: a crash of the host, though not of the process, may undo the
        ack until the next commit that has one. For a consumer that may process a record twice.
        """
        ...

    def release(self, consumer: str, records: Sequence[Record]) -> None:
        """Give claimed records back; they are the next to be claimed."""
        ...

    async def settle(self) -> None:
        """Return when all acks made so far are durable."""
        ...

    def attach(self, lane: str, consumer: str) -> None:
        """Attach a consumer to a stream from the records appended next on; no effect if it is attached already."""
        ...

    def detach(self, lane: str, consumer: str) -> None:
        """Detach a consumer from a stream; records that waited only for it are deleted from the file."""
        ...

    def recovered(self, consumer: str, record: Record) -> bool:
        """Whether the record may have been claimed by this consumer before a crash or restart."""
        ...

    async def newest(self, consumer: str, limit: int, lane: str, before: int | None = None) -> list[Record]:
        """Return the newest records of a stream that this consumer has not acked, the newest first; claims none.

        With ``before`` only those of smaller positions. Damaged records are left out.
        """
        ...

    def acked(self, consumer: str, record: Record) -> bool:
        """Whether the consumer has acked the record; costs no disk access."""
        ...

    def pending(self, consumer: str, lane: str) -> int:
        """Return how many records of a stream wait for this consumer, or are claimed by it; costs no disk access."""
        ...

    def totals(self) -> SpoolTotals:
        """Return the totals of ``stats``, at no cost for any number of streams."""
        ...

    def waiting(self) -> list[ConsumerStats]:
        """Return the consumers that have records to claim or to ack, as ``stats`` does.

        Costs time for the streams that hold records, and none for the empty ones.
        """
        ...

    def stats(self) -> SpoolStats:
        """Return counts kept in memory, of every consumer of every stream; costs no disk access."""
        ...

    def room(self, lane: str) -> SpoolCapacity:
        """Return the bytes that all streams of a stream's destination hold, and that a non-urgent append could add.

        Records that are being appended count as held.
        """
        ...

    async def close(self) -> None:
        """Commit pending records and release the directory. Waiting callers get SpoolClosed."""
        ...
