"""The MongoDB store: the parts put together behind the port."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from pymongo.errors import DuplicateKeyError

from bus.domain.delivery.delivery import Compensation, Outcome
from bus.domain.health.vitals import StoreFigures
from bus.domain.message import Message
from bus.domain.searching.selection import Selection
from bus.domain.tracing.contents import Contents
from bus.domain.tracing.failures import Failures
from bus.domain.tracing.partition import PartitionLabel
from bus.domain.tracing.trace import Trace
from bus.errors import ConfigurationError, StoreUnavailable
from bus.ports.clock import Clock
from bus.ports.store import (
    MOST_GROUPS,
    MOST_KEYS,
    DeliveryKey,
    Document,
    DocumentWrite,
    Ended,
    KeyRows,
    Page,
    UnfinishedRows,
    untold,
)
from bus.stores.gathering import BatchCollector
from bus.stores.mongodb.bodies import Bodies
from bus.stores.mongodb.compensations import Compensations
from bus.stores.mongodb.connection import Connection, Form
from bus.stores.mongodb.damaged import DamagedDocuments
from bus.stores.mongodb.documents import Documents
from bus.stores.mongodb.dropping import Expiry, PartitionDrop
from bus.stores.mongodb.failing import FailureIndex
from bus.stores.mongodb.health import read_health
from bus.stores.mongodb.indexes import COMPENSATIONS, META, PREPARED, ROWS
from bus.stores.mongodb.open_deliveries import OpenDeliveries
from bus.stores.mongodb.partitions import Partitions
from bus.stores.mongodb.reading import CommittedReader
from bus.stores.mongodb.search import Searcher
from bus.stores.mongodb.writing import Call, TraceWriter

_log = logging.getLogger(__name__)
_FORMAT: Final = 1


class MongodbStore:
    """The ``Store`` in one database of a MongoDB, shared by any number of processes.

    To be made and used on the running event loop.

    Parameters
    ----------
    url
        ``mongodb://`` or ``mongodb+srv://``. Write concern, read preference and time-outs in it have no effect: the
        bus sets its own.
    clock
        Times searches and what is remembered of partitions.
    database
        Its name; empty for the one that the URL names, or else ``bus``.
    gather
        How many writes share a bulk.

    Raises
    ------
    ConfigurationError
        The URL is not one of a MongoDB.
    """

    def __init__(self, url: str, *, clock: Clock, database: str = "", gather: int = 512) -> None:
        self._clock = clock
        self._connection = Connection(url, database)
        self._damaged = DamagedDocuments(self._connection)
        self._partitions = Partitions(self._connection, clock)
        self._bodies = Bodies(self._connection)
        self._compensations = Compensations(self._connection, self._bodies, self._damaged)
        self._documents = Documents(self._connection, self._damaged)
        self._reading = CommittedReader(self._connection, self._partitions, self._bodies, self._damaged)
        self._searcher = Searcher(self._connection, self._partitions, self._reading, clock)
        self._failing = FailureIndex(self._connection, self._partitions, self._damaged, clock)
        self._expiry = Expiry(self._connection, self._partitions)
        self._dropping = PartitionDrop(self._connection, self._partitions, self._reading, self._bodies)
        writer = TraceWriter(
            self._connection, self._partitions, self._bodies, self._compensations, self._damaged, self._documents
        )
        self._gathering: BatchCollector[Call, None] = BatchCollector(writer.commit, limit=gather)
        self._open_deliveries = OpenDeliveries(
            self._connection, self._partitions, self._reading, self._compensations, self.write, clock
        )
        self._preparing = asyncio.Lock()
        self._unprepared: StoreUnavailable | None = None
        self._prepared_after = -1
        self._prepared_at = float("-inf")

    @classmethod
    async def open(cls, url: str, *, clock: Clock, database: str = "", gather: int = 512) -> MongodbStore:
        """Return the store of a database, with its indexes made; parameters as of the class.

        A server that does not answer within five seconds is no error: what is made at the start is then made by the
        first write that reaches it, and until then every call raises ``StoreUnavailable``.

        Raises
        ------
        ConfigurationError
            The URL is not one of a MongoDB, or a newer version of the bus wrote the database.
        StoreError
            The server refuses, for example the login.
        """
        store = cls(url, clock=clock, database=database, gather=gather)
        try:
            await store._prepare()
        except StoreUnavailable as error:
            _log.warning("the store is away, and the bus starts without it: %s", error)
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def damaged(self) -> int:
        """Number of documents that this process could not read; the log and ``damaged`` have them."""
        return self._damaged.count

    async def health(self) -> StoreFigures:
        """Return the health of the replica set and its oplog; a login that may not see them gets nothing."""
        return await read_health(self._connection)

    async def write(self, writes: Sequence[Message | Outcome], documents: Sequence[DocumentWrite] = ()) -> None:
        """Merge messages and outcomes into their documents; a majority has them in its journal when it returns."""
        if writes:
            await self._prepare()
            await self._gathering.add(Call(writes, documents), len(writes))
            await self._prepare()
        else:
            await self._documents.put_all(documents)

    async def trace(self, message_id: str) -> Trace | None:
        """Return a message's document, without its body."""
        return await self._reading.trace(message_id)

    async def message(self, message_id: str) -> Message | None:
        """Return the whole message with its body."""
        return await self._reading.message(message_id)

    async def finished(self, keys: Sequence[DeliveryKey]) -> set[DeliveryKey]:
        """Return those deliveries that need no further POST."""
        return await self._reading.finished(keys)

    async def search(self, selection: Selection, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Return one page, newest id first; ``bus.stores.mongodb.search`` says what costs the same in any store."""
        return await self._searcher.search(selection, cursor, limit)

    async def failures(self, selection: Selection, *, limit: int = MOST_GROUPS) -> Failures:
        """Return failing deliveries, grouped; reads a part of each trace that fails, for a second at most."""
        return await self._failing.groups(selection, limit)

    async def unsettled(self, destination: str, subscription: str, before: int, limit: int) -> list[Message]:
        """Return whole messages whose delivery is pending and that were received before a time, the oldest first."""
        return await self._open_deliveries.unsettled((destination, subscription), before, limit)

    async def expire(self, now: int) -> tuple[list[str], list[str]]:
        """Drop whole partitions past their retention in which nothing is unfinished."""
        return await self._expiry.expire(now)

    async def drop(self, partition: PartitionLabel, contents: Contents) -> None:
        """Drop a partition whole that has exactly these contents; ``PartitionDrop`` says what may come between."""
        await self._dropping.drop(partition, contents)

    async def compensate(self, rows: Sequence[Compensation]) -> None:
        """Insert rows; one of a greater (generation, attempts) replaces, any other leaves the present one."""
        if rows:
            await self._prepare()
            await self._compensations.change(rows, ())
            await self._prepare()

    async def ready(self, now: int) -> set[tuple[str, str]]:
        """Return each (destination, subscription) with rows that can be leased now."""
        return await self._compensations.ready(now)

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
        """Take rows that are due and not leased, round robin over subscriptions, and raise their epoch."""
        return await self._compensations.lease(now, until, room, limit, owner, now if over is None else over)

    async def reclaim(self, owner: str) -> int:
        """End all leases of an owner who has just started again; return how many."""
        return await self._compensations.reclaim(owner)

    async def rewind(self, now: int, skew: int) -> int:
        """Keep the waits of rows that were set when the clock was ahead of now; return how many there were."""
        return await self._compensations.rewind(now, skew)

    async def unlease(self, rows: Sequence[Compensation]) -> None:
        """Give leased rows back, unless another lease has taken them."""
        await self._compensations.unlease(rows)

    async def finish(self, rows: Sequence[Compensation]) -> None:
        """Delete rows of this or a smaller generation."""
        await self._compensations.finish(rows)

    async def subscribed(self) -> set[tuple[str, str]]:
        """Return every (destination, subscription) that the store has a delivery of."""
        rows = await self._compensations.due()
        return {lane for lane in rows if lane[1]} | await self._partitions.subscribed()

    async def cancel(self, destination: str, subscription: str, now: int, ended: Ended = untold) -> int:
        """End open deliveries of a removed subscription, of messages received until now (ms); return how many."""
        return await self._open_deliveries.cancel((destination, subscription), now, ended)

    async def due(self, now: int) -> dict[tuple[str, str], int]:  # noqa: ARG002 - rows count, due or not
        """Return how many rows wait for each (destination, subscription)."""
        return await self._compensations.due()

    async def unfinished(self, now: int) -> dict[tuple[str, str], UnfinishedRows]:
        """Return the rows of each (destination, subscription) that has some."""
        return await self._compensations.unfinished(now)

    async def next_due(self) -> int | None:
        """Return the earliest time (ms) at which a row can be leased."""
        return await self._compensations.next_due()

    async def ordered_keys(
        self, destination: str, subscription: str, *, after: str | None = None, limit: int = MOST_KEYS
    ) -> list[KeyRows]:
        """Return the keys with rows that keep an order, those after one."""
        return await self._compensations.ordered_keys((destination, subscription), after, limit)

    async def ordered_rows(
        self, destination: str, subscription: str, order_key: str, *, after: int = 0, limit: int
    ) -> list[Compensation]:
        """Return the rows of a key behind a place, in the order of their places."""
        return await self._compensations.ordered_rows((destination, subscription), order_key, after, limit)

    async def get(self, collection: str, key: str) -> Document | None:
        """Return one document."""
        return await self._documents.get(collection, key)

    async def list(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[Document]:
        """Return documents by key order, those with the prefix and after a key."""
        return await self._documents.list(collection, prefix=prefix, after=after, limit=limit)

    async def put(self, collection: str, key: str, value: bytes, *, version: int | None = None) -> int:
        """Write a document and return its new version; a majority has it in its journal when it returns."""
        return await self._documents.put(collection, key, value, version=version)

    async def note(self, documents: Sequence[DocumentWrite]) -> None:
        """Write documents in one bulk; a majority has them in its journal when it returns."""
        await self._documents.put_all(documents)

    async def delete(self, collection: str, key: str) -> bool:
        """Delete a document; whether it was there."""
        return await self._documents.delete(collection, key)

    async def close(self) -> None:
        """Write what is pending and give up the connections."""
        await self._gathering.close()
        await self._connection.close()

    async def _prepare(self) -> None:
        """Check the database's format and make the indexes of unfinished work.

        This is done again after a connection ended, and from time to time, for the server may have lost everything;
        also right after a write, during which the connection may have ended. Callers at the same time share one try,
        and so its failure: else each would wait for the deadlines of all before it.
        """
        before = self._unprepared
        async with self._preparing:
            now = self._clock.monotonic()
            losses = self._connection.losses
            if self._prepared_after == losses and now - self._prepared_at <= PREPARED:
                return
            if self._unprepared is not None and self._unprepared is not before:
                raise StoreUnavailable(self._unprepared.said, hint=self._unprepared.hint_said)
            try:
                await self._check_format()
                rows = self._connection[COMPENSATIONS]
                await self._connection.exchange(
                    "make the indexes of unfinished work", lambda: rows.create_indexes(ROWS)
                )
            except StoreUnavailable as error:
                self._unprepared = StoreUnavailable(error.said, hint=error.hint_said)
                raise
            self._prepared_after, self._prepared_at = losses, now

    async def _check_format(self) -> None:
        meta = self._connection[META]

        async def read() -> Form | None:
            if (found := await meta.find_one({"_id": "format"})) is not None:
                return found
            try:
                await meta.insert_one({"_id": "format", "version": _FORMAT})
            except DuplicateKeyError:
                return await meta.find_one({"_id": "format"})
            return None

        found = await self._connection.exchange("read the version of the database's format", read)
        version = found.get("version") if found is not None else _FORMAT
        if not isinstance(version, int) or version > _FORMAT:
            raise ConfigurationError(
                f"the database has version {version!r} of the store's format; this bus supports {_FORMAT}",
                hint="start the version of the bus that wrote it, or a newer one",
            )
