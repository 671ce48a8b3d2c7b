"""The store: traces, unfinished work, and documents of configuration.

Every write is an idempotent upsert that gives the same result in any order. A role asks for the part it needs.
All methods raise ``StoreUnavailable`` (retriable) when the store does not answer, and then may or may not have
taken effect; all may be called again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from bus.domain.delivery.delivery import Compensation, Outcome
from bus.domain.message import Message
from bus.domain.searching.selection import Selection
from bus.domain.tracing.contents import Contents
from bus.domain.tracing.failures import Failures
from bus.domain.tracing.partition import PartitionLabel
from bus.domain.tracing.trace import Trace
from bus.errors import Conflict
from bus.localized_text import localized

MOST_GROUPS: Final = 1_000
MOST_KEYS: Final = 1_000
NEVER: Final = 2**53 - 1
"""Time (ms) of a row that keeps an order, at which it can be leased: never by itself."""
Ended = Callable[[Sequence[Outcome]], None]
"""Called with deliveries that ended; returns at once and never raises."""


def untold(_: Sequence[Outcome]) -> None:
    """Ignore the deliveries that ended."""


class DocumentWrite(NamedTuple):
    """A document to write, whatever version is there."""

    collection: str
    key: str
    value: bytes


class DeliveryKey(NamedTuple):
    """One delivery in one generation."""

    message_id: str
    retention_days: int
    subscription: str
    generation: int


class Stop(enum.StrEnum):
    """Reason why a page ends before the beginning of the requested range."""

    LIMIT = "limit"
    TIME = "time"


class SearchedRange(NamedTuple):
    """The times of ids, in milliseconds since the epoch, that a page looked at: it has every match between them.

    At an end that the limit made, the messages of that one millisecond are divided between two pages.

    Attributes
    ----------
    since
        Down to where; None for the beginning of what is stored.
    before
        From where, exclusive; None for the end of what is stored.
    stop
        Why the page ended; None when it covers the whole requested range, so that there is no further page.
    """

    since: int | None = None
    before: int | None = None
    stop: Stop | None = None


class Page(NamedTuple):
    """Traces of a search, the newest id first; ``next`` continues after them, None at the end."""

    traces: list[Trace]
    next: str | None
    searched: SearchedRange = SearchedRange()


class UnfinishedRows(NamedTuple):
    """The rows of one subscription: how many, how many of them can be leased now, and when (ms) the first can be.

    None where none can be, since all keep an order.
    """

    rows: int
    due: int
    next_at: int | None


class KeyRows(NamedTuple):
    """The rows of a subscription that keep the order of one key: how many, and the place of the last."""

    order_key: str
    rows: int
    last: int


class TraceStore(Protocol):
    """Messages and the results of their deliveries."""

    async def write(self, writes: Sequence[Message | Outcome], documents: Sequence[DocumentWrite] = ()) -> None:
        """Merge messages and outcomes into their documents; durable when it returns.

        For each outcome, first the compensation row (made, replaced by a newer one, or deleted when the outcome
        finishes its delivery), then the state. Callers at the same time share one commit.

        ``documents`` are written in their order, with the rows or before them: a call that fails, or a crash, leaves
        all of them, some of the first, or none.
        """
        ...

    async def trace(self, message_id: str) -> Trace | None:
        """Return a message's document, without its body."""
        ...

    async def message(self, message_id: str) -> Message | None:
        """Return the whole message with its body; None when it is unknown or only outcomes arrived so far."""
        ...

    async def finished(self, keys: Sequence[DeliveryKey]) -> set[DeliveryKey]:
        """Return those deliveries that need no further POST (``bus.domain.tracing.trace.is_finished``)."""
        ...

    async def search(self, selection: Selection, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Return one page, newest id first; the cost of a page does not grow with the store.

        A page may have fewer traces than ``limit``, even none, and still have a next page: then it ran out of time.
        Bodies are read only where the selection ``reads_bodies``, and only of messages that meet all other conditions.

        Raises
        ------
        ValueError
            The cursor is not one that a search gave.
        """
        ...

    async def failures(self, selection: Selection, *, limit: int = MOST_GROUPS) -> Failures:
        """Return the deliveries that fail (retrying, parked or dead), grouped by subscription and signature.

        Of the selection the destination, the subscription and the times count. The cost grows with the deliveries that
        fail, not with the store, and is bounded: the result shows the part that was not read.
        """
        ...

    async def unsettled(self, destination: str, subscription: str, before: int, limit: int) -> list[Message]:
        """Return whole messages whose delivery is ``pending``, and that were received and to deliver before a time.

        Messages for which a dispatcher has reported why they wait are left out: the dispatcher has them.
        """
        ...

    async def expire(self, now: int) -> tuple[list[str], list[str]]:
        """Drop whole partitions past their retention in which nothing is unfinished.

        Retention counts from when the newest message was received; one that has not arrived counts by its id's time.
        Returns the names dropped, and the names past their retention that unfinished work keeps (an alarm).
        """
        ...

    async def drop(self, partition: PartitionLabel, contents: Contents) -> None:
        """Drop a whole partition whose contents are kept elsewhere.

        Only when it has exactly these contents, all of it is finished, and nothing was written to it since they were
        counted; messages that come later for its day make a new one. The cost grows with the partition.

        Raises
        ------
        NotFound
            There is no such partition.
        Conflict
            It has other contents, or something that is not finished; nothing was dropped.
        """
        ...


class CompensationStore(Protocol):
    """Unfinished work by due time, leased with an epoch."""

    async def compensate(self, rows: Sequence[Compensation]) -> None:
        """Insert rows; one of a greater (generation, attempts) replaces, any other leaves the present one."""
        ...

    async def ready(self, now: int) -> set[tuple[str, str]]:
        """Return each (destination, subscription) with rows that can be leased now (ms).

        Where many rows can, it may have others with rows too. Its cost grows with the ready rows only.
        """
        ...

    async def lease(
        self,
        now: int,
        until: int,
        room: dict[tuple[str, str], int],
        limit: int,
        *,
        owner: str = "",
        over: int | None = None,
    ) -> list[Compensation]:
        """Take rows that are due and not leased, round robin over subscriptions, and raise their epoch.

        Parameters
        ----------
        room
            Capacity of each (destination, subscription) in rows; those not named are left, and each that is named costs
            time, see ``ready``. The subscription of a message to publish is empty.
        limit
            How many in all.
        owner
            Owner of the leases, for ``reclaim``.
        over
            Leases that ended by then (ms) are over; ``now`` when not given, which may be by a clock that is ahead.
        """
        ...

    async def reclaim(self, owner: str) -> int:
        """End all leases of an owner, which has just started again and so holds none; return how many."""
        ...

    async def unlease(self, rows: Sequence[Compensation]) -> None:
        """Give leased rows back, unless another lease (a greater epoch) has taken them."""
        ...

    async def rewind(self, now: int, skew: int) -> int:
        """Keep the waits of rows that were set when the clock was ahead of now (ms); return how many there were.

        Rows keep the time from setting to due time, and the length of their lease, counted from now. The due times of
        messages to publish were chosen by their producers and stay. Cheap when there are no such rows.

        Parameters
        ----------
        skew
            By how many milliseconds the clocks of two processes may differ: rows set no further ahead stay.
        """
        ...

    async def finish(self, rows: Sequence[Compensation]) -> None:
        """Delete rows of this or a smaller generation: their delivery is finished, or their message published."""
        ...

    async def subscribed(self) -> set[tuple[str, str]]:
        """Return every (destination, subscription) that the store has a delivery of, finished or not."""
        ...

    async def cancel(self, destination: str, subscription: str, now: int, ended: Ended = untold) -> int:
        """End open deliveries of a removed subscription as ``canceled``; return how many.

        ``ended`` gets them a part at a time, each once it is durable, also those before a failure. Only deliveries of
        messages received at ``now`` (ms) or before: a later message is one for another subscription of that name,
        made since. The time of receipt is in the message's document, or while that has no message in the copy that the
        row carries; a row whose copy cannot be read is deleted. With an empty subscription, rows of messages to publish
        are deleted by the same rule, and none is counted.
        """
        ...

    async def due(self, now: int) -> dict[tuple[str, str], int]:
        """Return how many rows wait for each (destination, subscription), due or not."""
        ...

    async def unfinished(self, now: int) -> dict[tuple[str, str], UnfinishedRows]:
        """Return the rows of each (destination, subscription) that has some; costs more than ``due``."""
        ...

    async def next_due(self) -> int | None:
        """Return the earliest time (ms) at which a row can be leased, None when there are none."""
        ...

    async def ordered_keys(
        self, destination: str, subscription: str, *, after: str | None = None, limit: int = MOST_KEYS
    ) -> list[KeyRows]:
        """Return the keys with rows that keep an order, those after one; costs their index, not the rows.

        A row keeps its place when one of a greater (generation, attempts) without a place replaces it.
        """
        ...

    async def ordered_rows(
        self, destination: str, subscription: str, order_key: str, *, after: int = 0, limit: int
    ) -> list[Compensation]:
        """Return the rows of a key behind a place, in the order of their places."""
        ...


class DeliveryStore(TraceStore, CompensationStore, Protocol):
    """The part of a store that a dispatcher needs."""


class Document(NamedTuple):
    """A document with the version that a compare-and-set names."""

    key: str
    version: int
    value: bytes


def changed_meanwhile(collection: str, key: str, present: int, wanted: int) -> Conflict:
    """Return the error that ``put`` raises when another version of a document is there."""
    return Conflict(
        localized(
            "{collection}/{key} has version {present}, not {version}; nothing was written",
            collection=collection,
            key=key,
            present=present,
            version=wanted,
        ),
        hint=localized("read it again and repeat the change"),
    )


class DocumentStore(Protocol):
    """Small named documents with compare-and-set: configuration, keys, users, sessions, jobs, the audit log."""

    async def get(self, collection: str, key: str) -> Document | None:
        """Return one document."""
        ...

    async def list(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[Document]:
        """Return documents by key order, those with the prefix and after a key."""
        ...

    async def put(self, collection: str, key: str, value: bytes, *, version: int | None = None) -> int:
        """Write a document and return its new version; durable when it returns.

        ``version`` is the one that must be there: 0 for none, None for any.

        Raises
        ------
        Conflict
            Another version is there.
        """
        ...

    async def delete(self, collection: str, key: str) -> bool:
        """Delete a document; whether it was there."""
        ...


class Store(DeliveryStore, DocumentStore, Protocol):
    """Everything a store does."""

    async def note(self, documents: Sequence[DocumentWrite]) -> None:
        """Write documents that can be made again from the rest of the store: all of them, the first ones, or none.

        A crash of this process does not undo it. One of a host may, until something else is written.
        """
        ...

    async def close(self) -> None:
        """Commit pending writes and close the connections."""
        ...
