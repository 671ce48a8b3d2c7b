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
        The queue inside the spool, as a rule a destination's; a stalled lane never holds up another one.
    payload
        Opaque bytes.
    time
        When the record was made, in milliseconds since the epoch.
    """

    lane: str
    payload: bytes
    time: int


class Record(NamedTuple):
    """A durable record: what was appended, and its position, which grows inside a lane and is never used again."""

    position: int
    lane: str
    payload: bytes
    time: int


def decoded(record: Record, decode: Callable[[bytes], Content]) -> Content | None:
    """Return what a record is, None when another version of the bus wrote it.

    Such a record is intact, so the caller must not ack it: it stays in the spool and is counted.
    """
    try:
        return decode(record.payload)
    except msgspec.DecodeError:
        _log.exception("record %d of %s is of another version; it stays in the spool", record.position, record.lane)
        return None


class ConsumerStats(NamedTuple):
    """How far one consumer is behind in one lane (``records`` waiting or claimed; ``oldest`` in ms, or None)."""

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
    """Who is told once what came of something; an `asyncio.Future` is one."""

    def done(self) -> bool:
        """Whether it is not to be told any more."""
        ...

    def set_result(self, result: Result_contra, /) -> None:
        """Learn what came of it."""
        ...

    def set_exception(self, error: Exception, /) -> None:
        """Learn why nothing came of it."""
        ...


def tell(waiter: Waiter[Result], found: Result | Exception) -> None:
    """Tell a waiter what came of its records, or why they were not stored; what it raises is logged."""
    try:
        if waiter.done():
            return
        if isinstance(found, Exception):
            waiter.set_exception(found)
        else:
            waiter.set_result(found)
    except Exception:  # noqa: BLE001 - the others of its commit are told, and the next one is made
        _log.exception("who waited for an append failed")


class Spool(Protocol):
    """A durable local queue with several named consumers, each acking single records in any order.

    A record leaves the file when every consumer attached to its lane acked it. Delivery is at least once:
    an ack that was not committed before a crash is forgotten and its record is claimed again.
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
        """Store the records as `append` does, and tell the waiter what that returns or raises.

        The records in ``done``, which ``consumer`` holds, are acked in the same commit: after a crash both happened or
        neither. When nothing is stored they are still held.

        What ``lingers`` may wait for the commit of others, for a twentieth of a second at most, as acks do.

        It is told on the event loop and after this has returned, unless it is ``done`` by then. Of a commit all waiters
        are told before any consumer is woken. What a waiter raises is logged, and harms nobody else.

        Raises
        ------
        SpoolError
            As `append` does, when that is known at once; then nothing was stored, and the waiter is not told.
        """
        ...

    def lanes(self, consumer: str) -> Sequence[str]:
        """Lanes in which this consumer could claim now, those that were claimed from longest ago first."""
        ...

    async def wait(self, consumer: str, *lanes: str) -> None:
        """Return when this consumer could claim from one of these lanes; from any where none is named."""
        ...

    async def claim(self, consumer: str, limit: int, lane: str) -> list[Record]:
        """Take up to ``limit`` durable records of a lane, in order, that this consumer neither holds nor acked.

        Damaged records are set aside, counted, and never returned. May return none.
        """
        ...

    def ack(self, consumer: str, records: Sequence[Record], *, synced: bool = True) -> None:
        """Finish claimed records. Durable with the next commit, which follows at once; may be called twice.

        With ``synced`` False that commit costs no fsync: a crash of the host, though not of the process, may undo the
        ack until the next commit that has one. For a consumer that may do again what it did.
        """
        ...

    def release(self, consumer: str, records: Sequence[Record]) -> None:
        """Give claimed records back; they are the next to be claimed."""
        ...

    async def settle(self) -> None:
        """Return when all acks made so far are durable."""
        ...

    def attach(self, lane: str, consumer: str) -> None:
        """Let a consumer take part in a lane from the records appended next on; no effect if it does already."""
        ...

    def detach(self, lane: str, consumer: str) -> None:
        """End a consumer's part in a lane; records that waited only for it leave the file."""
        ...

    def recovered(self, consumer: str, record: Record) -> bool:
        """Whether the record may have been claimed by this consumer before a crash or restart."""
        ...

    async def newest(self, consumer: str, limit: int, lane: str, before: int | None = None) -> list[Record]:
        """Return the newest records of a lane that this consumer has not acked, the newest first; claims none.

        With ``before`` only those of smaller positions. Damaged records are left out.
        """
        ...

    def acked(self, consumer: str, record: Record) -> bool:
        """Whether the consumer has acked the record; costs no disk access."""
        ...

    def pending(self, consumer: str, lane: str) -> int:
        """Return how many records of a lane wait for this consumer, or are claimed by it; costs no disk access."""
        ...

    def totals(self) -> SpoolTotals:
        """Return what ``stats`` tells of the whole, at no cost however many lanes there are."""
        ...

    def waiting(self) -> list[ConsumerStats]:
        """Return the consumers that have records to claim or to ack, as ``stats`` does.

        Costs time for the lanes that hold records, and none for the empty ones.
        """
        ...

    def stats(self) -> SpoolStats:
        """Return counts kept in memory, of every consumer of every lane; costs no disk access."""
        ...

    def room(self, lane: str) -> SpoolCapacity:
        """Return what the lanes of a lane's destination hold together, and what an append without urgency could add.

        What is being appended counts as held.
        """
        ...

    async def close(self) -> None:
        """Commit what is pending and give up the directory. Waiting callers end with SpoolClosed."""
        ...
