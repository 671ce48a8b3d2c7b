"""The embedded store: the parts put together behind the port."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bus.domain.delivery import Compensation, Outcome
from bus.domain.message import Message
from bus.domain.selection import Selection
from bus.domain.times import DAY
from bus.domain.trace import Trace
from bus.ports.store import DeliveryKey, Document, Page
from bus.stores.sqlite.compensations import Compensations
from bus.stores.sqlite.connection import sync_directory
from bus.stores.sqlite.control import Control
from bus.stores.sqlite.documents import Documents
from bus.stores.sqlite.gathering import Gathering
from bus.stores.sqlite.keys import id_key
from bus.stores.sqlite.merging import Keyed
from bus.stores.sqlite.open_deliveries import OpenDeliveries
from bus.stores.sqlite.reading import Reading
from bus.stores.sqlite.search import Searcher
from bus.stores.sqlite.shelf import Label, Shelf
from bus.stores.sqlite.writing import TraceWriter


class SqliteStore:
    """The ``Store`` in one directory: ``control.db``, and a file per day of the ids and retention class.

    One process has it open; only documents may be written by others at the same time. To be made and used on
    the running event loop.

    Parameters
    ----------
    directory
        Made when it is not there.
    linger
        Seconds that a write waits for others to share its commit.
    gather
        Writes at which a commit no longer waits.

    Raises
    ------
    ConfigurationError
        A newer version of the bus wrote the files.
    StoreError
        ``control.db`` cannot be opened.
    """

    def __init__(self, directory: Path | str, *, linger: float = 0.05, gather: int = 512) -> None:
        directory = Path(directory)
        if not directory.is_dir():
            directory.mkdir(parents=True, exist_ok=True)
            sync_directory(directory.parent)
        self._committer = ThreadPoolExecutor(1, thread_name_prefix="store-commit")
        self._control = Control(directory, self._committer)
        self._compensations = Compensations(self._control)
        self._documents = Documents(self._control)
        self._shelf = Shelf(directory, self._committer)
        self._reading = Reading(self._shelf)
        self._writer = TraceWriter(self._shelf, self._compensations, self._committer)
        self._gathering: Gathering[Sequence[Keyed], None] = Gathering(self._writer.commit, linger=linger, limit=gather)
        self._open_deliveries = OpenDeliveries(self._reading, self._compensations, self.write)

    @classmethod
    async def open(cls, directory: Path | str, *, linger: float = 0.05, gather: int = 512) -> SqliteStore:
        """Return the store of a directory; see the class for what is raised."""
        return cls(directory, linger=linger, gather=gather)

    async def write(self, writes: Sequence[Message | Outcome]) -> None:
        """Merge messages and outcomes into their documents; durable when it returns."""
        if writes:
            await self._gathering.add([_keyed(write) for write in writes], len(writes))

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

    async def unsettled(self, destination: str, subscription: str, before: int, limit: int) -> list[Message]:
        """Return whole messages whose delivery is pending and that were received before a time, the oldest first."""
        return await self._open_deliveries.unsettled((destination, subscription), before, limit)

    async def expire(self, now: int) -> tuple[list[str], list[str]]:
        """Drop whole partitions past their retention in which nothing is unfinished."""
        dropped: list[str] = []
        kept: list[str] = []
        for label in reversed(self._shelf.newest_first()):
            if (label.day - 1 + label.retention_days) * DAY > now:
                continue
            async with self._writer.lock:
                verdict = await self._droppable(label, now)
                if verdict:
                    await self._reading.forget(label)
                    await self._shelf.drop(label)
                    dropped.append(label.name)
            if verdict is None:
                kept.append(label.name)
        return dropped, kept

    async def compensate(self, rows: Sequence[Compensation]) -> None:
        """Insert rows; one of a greater (generation, attempts) replaces, any other leaves the present one."""
        if rows:
            await self._compensations.change(rows, {})

    async def lease(
        self, now: int, until: int, room: dict[tuple[str, str], int], limit: int, *, owner: str = ""
    ) -> list[Compensation]:
        """Take rows that are due and not leased, round robin over subscriptions, and raise their epoch."""
        return await self._compensations.lease(now, until, room, limit, owner)

    async def reclaim(self, owner: str) -> int:
        """End all leases of an owner who has just started again; return how many."""
        return await self._compensations.reclaim(owner)

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
        found: set[tuple[str, str]] = {lane for lane in self._compensations.due() if lane[1]}
        for label in self._reading.newest_first():
            found |= await self._reading.run(partial(Searcher.lanes, label=label))
        return found

    async def cancel(self, destination: str, subscription: str, now: int) -> int:
        """End all open deliveries of a removed subscription as ``canceled``; return how many."""
        return await self._open_deliveries.cancel((destination, subscription), now)

    async def due(self, now: int) -> dict[tuple[str, str], int]:  # noqa: ARG002 - rows count, due or not
        """Return how many rows wait for each (destination, subscription); kept in memory."""
        return self._compensations.due()

    async def next_due(self) -> int | None:
        """Return the earliest time (ms) at which a row can be leased."""
        return self._compensations.next_due()

    async def get(self, collection: str, key: str) -> Document | None:
        """Return one document."""
        return self._documents.get(collection, key)

    async def list(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[Document]:
        """Return documents by key order, those with the prefix and after a key."""
        return self._documents.list(collection, prefix=prefix, after=after, limit=limit)

    async def put(self, collection: str, key: str, value: bytes, *, version: int | None = None) -> int:
        """Write a document and return its new version; durable when it returns."""
        return await self._documents.put(collection, key, value, version=version)

    async def delete(self, collection: str, key: str) -> bool:
        """Delete a document; whether it was there."""
        return await self._documents.delete(collection, key)

    async def close(self) -> None:
        """Commit what is pending and give up the connections."""
        await self._gathering.close()
        await self._reading.close()
        await self._shelf.close()
        await self._control.close()
        self._committer.shutdown()

    async def _droppable(self, label: Label, now: int) -> bool | None:
        async with self._shelf.reading(label) as partition:
            return partition is not None and partition.droppable(now - label.retention_days * DAY)


def _keyed(write: Message | Outcome) -> Keyed:
    return Keyed(id_key(write.id if isinstance(write, Message) else write.message_id), write)
