"""The embedded store: the parts put together behind the port."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bus.domain.delivery.delivery import Compensation, Outcome
from bus.domain.health.vitals import StoreFigures
from bus.domain.message import Message
from bus.domain.searching.selection import Selection
from bus.domain.tracing.contents import Contents
from bus.domain.tracing.failures import Failures
from bus.domain.tracing.partition import PartitionLabel
from bus.domain.tracing.trace import Trace
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
from bus.stores.sqlite.compensations import Compensations
from bus.stores.sqlite.control import Control
from bus.stores.sqlite.documents import Documents
from bus.stores.sqlite.dropping import Expiry, PartitionDrop
from bus.stores.sqlite.failing import FailureIndex
from bus.stores.sqlite.file_sizes import read_sizes
from bus.stores.sqlite.keys import id_key
from bus.stores.sqlite.open_deliveries import OpenDeliveries
from bus.stores.sqlite.partitions.directory import Directory
from bus.stores.sqlite.partitions.merging import KeyedWrite
from bus.stores.sqlite.partitions.open_partitions import OpenPartitions
from bus.stores.sqlite.reading import CommittedReader
from bus.stores.sqlite.search import Searcher
from bus.stores.sqlite.writing import Call, TraceWriter


class SqliteStore:
    """The ``Store`` in one directory: ``control.db``, and a file per day of the ids and retention class.

    Any number of processes of one machine may have it open at the same time; on a local disk, since the locks and
    shared memory of SQLite do not reach over a network. One of them writes at a time, in turns. While another is
    stopped in its turn, calls that write raise ``StoreUnavailable`` after some seconds, and nothing else waits.
    To be opened with ``open`` and used on the running event loop.
    """

    def __init__(self, directory: Directory, control: Control, committer: Executor, gather: int) -> None:
        self._committer = committer
        self._path = directory.path
        self._control = control
        self._turn = directory.turn("traces")
        self._compensations = Compensations(control)
        self._documents = Documents(control)
        self._open_partitions = OpenPartitions(directory, committer)
        self._reading = CommittedReader(self._open_partitions, directory)
        self._failing = FailureIndex(self._reading)
        self._expiry = Expiry(self._open_partitions, self._reading, self._turn)
        self._dropping = PartitionDrop(self._open_partitions, self._reading, directory, self._turn)
        self._writer = TraceWriter(self._open_partitions, self._compensations, self._turn, committer)
        self._gathering: BatchCollector[Call, None] = BatchCollector(self._writer.commit, limit=gather)
        self._open_deliveries = OpenDeliveries(self._reading, self._compensations, self.write)

    @classmethod
    async def open(cls, directory: Path | str, *, gather: int = 512) -> SqliteStore:
        """Return the store of a directory.

        Parameters
        ----------
        directory
            Made when it is not there.
        gather
            How many writes share a commit.

        Raises
        ------
        ConfigurationError
            A newer version of the bus wrote the files.
        StoreError
            ``control.db`` cannot be opened.
        """
        committer = ThreadPoolExecutor(1, thread_name_prefix="store-commit")
        in_thread = partial(asyncio.get_running_loop().run_in_executor, committer)
        try:
            files = await in_thread(Directory, Path(directory))
            connections = await in_thread(files.open_control)
        except BaseException:
            committer.shutdown(wait=False)
            raise
        return cls(files, Control(*connections, files.turn("control"), committer), committer, gather)

    async def health(self) -> StoreFigures:
        """Return the sizes of the files, and whether checkpoints keep up."""
        return await asyncio.to_thread(read_sizes, self._path)

    async def write(self, writes: Sequence[Message | Outcome], documents: Sequence[DocumentWrite] = ()) -> None:
        """Merge messages and outcomes into their documents; durable when it returns."""
        if writes:
            await self._gathering.add(Call([_keyed(write) for write in writes], documents), len(writes))
        elif documents:
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
        """Return one page, newest id first; ``bus.stores.sqlite.search`` says what costs the same in any store."""
        return await self._reading.search(selection, cursor, limit)

    async def failures(self, selection: Selection, *, limit: int = MOST_GROUPS) -> Failures:
        """Return failing deliveries, grouped; 100,000 failed deliveries take about a tenth of a second."""
        return await self._failing.groups(selection, limit)

    async def unsettled(self, destination: str, subscription: str, before: int, limit: int) -> list[Message]:
        """Return whole messages whose delivery is pending and that were received before a time, the oldest first."""
        return await self._open_deliveries.unsettled((destination, subscription), before, limit)

    async def expire(self, now: int) -> tuple[list[str], list[str]]:
        """Drop whole partitions past their retention in which nothing is unfinished."""
        return await self._expiry.expire(now)

    async def drop(self, partition: PartitionLabel, contents: Contents) -> None:
        """Drop a partition whole that has exactly these contents; reads all of it, while other calls continue."""
        await self._dropping.drop(partition, contents)

    async def compensate(self, rows: Sequence[Compensation]) -> None:
        """Insert rows; one of a greater (generation, attempts) replaces, any other leaves the present one."""
        if rows:
            await self._compensations.change(rows, {})

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
        if rows:
            await self._compensations.unlease(rows)

    async def finish(self, rows: Sequence[Compensation]) -> None:
        """Delete rows of this or a smaller generation."""
        if rows:
            await self._compensations.finish(rows)

    async def subscribed(self) -> set[tuple[str, str]]:
        """Return every (destination, subscription) that the store has a delivery of."""
        found = {lane for lane in await self._compensations.due() if lane[1]}
        for label in self._reading.newest_first():
            found |= await self._reading.run(partial(Searcher.lanes, label=label))
        return found

    async def cancel(self, destination: str, subscription: str, now: int, ended: Ended = untold) -> int:
        """End open deliveries of a removed subscription, of messages received until now (ms); return how many."""
        return await self._open_deliveries.cancel((destination, subscription), now, ended)

    async def due(self, now: int) -> dict[tuple[str, str], int]:  # noqa: ARG002 - rows count, due or not
        """Return how many rows wait for each (destination, subscription)."""
        return dict(await self._compensations.due())

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
        """Write a document and return its new version; durable when it returns."""
        return await self._documents.put(collection, key, value, version=version)

    async def note(self, documents: Sequence[DocumentWrite]) -> None:
        """Write documents in one transaction, without an fsync of its own."""
        await self._documents.put_all(documents, synced=False)

    async def delete(self, collection: str, key: str) -> bool:
        """Delete a document; whether it was there."""
        return await self._documents.delete(collection, key)

    async def close(self) -> None:
        """Commit what is pending and give up the connections."""
        await self._gathering.close()
        await self._reading.close()
        await self._open_partitions.close()
        await self._control.close()
        self._turn.close()
        self._committer.shutdown()


def _keyed(write: Message | Outcome) -> KeyedWrite:
    return KeyedWrite(id_key(write.id if isinstance(write, Message) else write.message_id), write)
