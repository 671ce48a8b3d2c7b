"""One partition file: its connections, the numbers of its names, and the documents it wrote last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import apsw

from bus.domain.tracing.trace import Trace, decode_trace, failure_of
from bus.stores.sqlite.connection import inode_of, patiently
from bus.stores.sqlite.errors import translating
from bus.stores.sqlite.partitions import trace_sql
from bus.stores.sqlite.partitions.references import Name, names_of

_RECENT: Final = 10_000


Failing = tuple[int, int, int]  # the number of a signature, the state, and when it failed last
_NOTHING: Final[Mapping[int, Failing]] = {}
_NO_NAMES: Final = frozenset[Name]()


class LoadedDocument:
    """A document in memory, and its state in the file.

    Attributes
    ----------
    row
        Its row in the file; 0 while it has none.
    listed
        Whether the file has the columns that follow from the message.
    status
        The state that the file's row says, as a number.
    indexed
        State in the file's index of deliveries, by the number of destination and subscription.
    failing
        State in its index of failures: how a delivery fails, by the number of destination and subscription.
    names
        What its index of references says: further names of the message.
    body
        A body to write; None when the file has the right one.
    """

    __slots__ = ("body", "failing", "indexed", "key", "listed", "names", "row", "status", "trace")

    def __init__(self, key: bytes, trace: Trace) -> None:
        self.key = key
        self.trace = trace
        self.row = 0
        self.listed = False
        self.status = -1
        self.indexed: dict[int, int] = {}
        self.failing: Mapping[int, Failing] = _NOTHING
        self.names: frozenset[Name] = _NO_NAMES
        self.body: bytes | None = None


class Partition:
    """An open partition: one connection that writes and one for point reads, both used by the loop.

    ``recent`` holds documents that are not finished, so that an outcome that follows its message needs no read. It
    and the numbers below hold until another connection changes the file, which a transaction sees when it begins.

    Attributes
    ----------
    pins
        How many use it at the moment.
    retired
        Whether it is to be closed once it has no users.
    """

    def __init__(self, path: Path, writer: apsw.Connection, reader: apsw.Connection) -> None:
        self.name = path.stem
        self.writer = writer
        self.recent: OrderedDict[bytes, LoadedDocument] = OrderedDict()
        self.pins = 0
        self.retired = False
        self._reader = reader
        self._reader.set_busy_timeout(0)
        self._file = str(path)
        self._inode = inode_of(self._file)
        self._destinations: dict[str, int] = {}
        self._lanes: dict[tuple[str, str], int] = {}
        self._signatures: dict[str, int] = {}
        self._version: int | None = None
        self._last_row = 0
        self._newest = 0

    def present(self) -> bool:
        """Whether its file is still the one of its name; stays true while the caller is in a write transaction."""
        return inode_of(self._file) == self._inode

    def begin(self) -> None:
        """Open a write transaction; raises ``apsw.BusyError`` when another connection has one."""
        self.writer.execute("BEGIN IMMEDIATE")
        try:
            version = next(self.writer.execute(trace_sql.DATA_VERSION))[0]
            if version != self._version:
                self.recent.clear()
                self._last_row = next(self.writer.execute(trace_sql.LAST_ROW))[0]
                self._newest = next(self.writer.execute(trace_sql.NEWEST))[0]
                self._version = version
        except BaseException:
            self.roll_back()
            raise

    def commit(self) -> None:
        """Make the transaction durable; the only step that waits for the disk."""
        self.writer.execute("COMMIT")

    def roll_back(self) -> None:
        """Undo the transaction and forget its changes in memory."""
        self.recent.clear()
        self._destinations.clear()
        self._lanes.clear()
        self._signatures.clear()
        self._version = None
        if self.writer.in_transaction:
            self.writer.execute("ROLLBACK")

    def next_row(self) -> int:
        """Return a row number that no message has."""
        self._last_row += 1
        return self._last_row

    def destination_number(self, code: str) -> int:
        """Return a destination's number; gives it one inside the transaction."""
        number = self._destinations.get(code)
        if number is None:
            number = self._number(trace_sql.NUMBER_OF_DESTINATION, trace_sql.ADD_DESTINATION, (code,))
            self._destinations[code] = number
        return number

    def lane_number(self, destination: str, subscription: str) -> int:
        """Return a subscription's number; gives it one inside the transaction."""
        lane = (destination, subscription)
        number = self._lanes.get(lane)
        if number is None:
            number = self._lanes[lane] = self._number(trace_sql.NUMBER_OF_LANE, trace_sql.ADD_LANE, lane)
        return number

    def _number(self, find: str, add: str, names: tuple[str, ...]) -> int:
        row = self.writer.execute(find, names).fetchone() or next(self.writer.execute(add, names))
        return int(row[0])

    def note_newest(self, received_at: int) -> None:
        """Remember inside the transaction when the newest message was received."""
        if received_at > self._newest:
            self._newest = received_at
            self.writer.execute(trace_sql.SET_NEWEST, (received_at,))

    def load(self, key: bytes) -> LoadedDocument | None:
        """Return a document as the transaction sees it."""
        row = self.writer.execute(trace_sql.DOCUMENT_OF, (key,)).fetchone()
        if row is None:
            return None
        held = LoadedDocument(key, decode_trace(row[1]))
        held.row = row[0]
        held.listed = held.trace.message is not None
        held.status = trace_sql.STATUS[held.trace.status]
        held.indexed = self.states(held.trace)
        held.failing = self.failing(held.trace)
        held.names = names_of(held.trace.message)
        return held

    def states(self, trace: Trace) -> dict[int, int]:
        """Return a document's entries in the index of deliveries: the state of each delivery that is not delivered."""
        destination = trace.destination
        return {
            self.lane_number(destination, name): state
            for name, delivery in trace.deliveries.items()
            if (state := trace_sql.STATUS[delivery.status]) != trace_sql.DELIVERED
        }

    def failing(self, trace: Trace) -> Mapping[int, Failing]:
        """Return a document's entries in the index of failures: the failure of each failing delivery."""
        return {
            self.lane_number(trace.destination, name): (
                self._signature_number(signature),
                trace_sql.STATUS[delivery.status],
                delivery.at,
            )
            for name, delivery in trace.deliveries.items()
            if (signature := failure_of(delivery)) is not None
        }

    def _signature_number(self, text: str) -> int:
        number = self._signatures.get(text)
        if number is None:
            number = self._signatures[text] = self._number(
                trace_sql.NUMBER_OF_SIGNATURE, trace_sql.ADD_SIGNATURE, (text,)
            )
        return number

    def remember(self, held: LoadedDocument) -> None:
        """Keep an unfinished document for the next outcome; forget a finished one."""
        if held.trace.message is None or not held.trace.completed_at:
            self.recent[held.key] = held
            if len(self.recent) > _RECENT:
                self.recent.popitem(last=False)
        else:
            self.recent.pop(held.key, None)

    async def trace(self, key: bytes) -> Trace | None:
        """Return a committed document."""
        row = await self._read(trace_sql.DOCUMENT_OF, key)
        return decode_trace(row[1]) if row else None

    async def body(self, key: bytes) -> tuple[Trace, bytes] | None:
        """Return a committed document with the message's body, empty while only outcomes have arrived."""
        row = await self._read(trace_sql.DOCUMENT_AND_BODY, key)
        return (decode_trace(row[0]), row[1]) if row else None

    async def _read(self, query: str, key: bytes) -> Any:
        with translating(self.name):
            return await patiently(lambda: self._reader.execute(query, (key,)).fetchone())

    def droppable(self, before: int) -> bool | None:
        """Whether all was received before a time (ms) and is finished, as the transaction sees it.

        None when unfinished work keeps it.
        """
        if self._newest >= before:
            return False
        return None if self.has_open() else True

    def has_open(self) -> bool:
        """Whether a delivery is unfinished, as the transaction sees it."""
        return bool(next(self.writer.execute(trace_sql.HAS_OPEN))[0])

    def close(self) -> None:
        """Close the connections; the last one to close folds the write-ahead log into the file."""
        with translating(self.name):
            self._reader.close()
            self.writer.close()
