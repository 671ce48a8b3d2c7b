"""The work of one gathering on one partition: merge in memory, then write each document once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from bus.domain.delivery.delivery import Outcome
from bus.domain.identity import id_time
from bus.domain.message import Message
from bus.domain.tracing.trace import encode_trace, merge_message, merge_outcome, start_trace
from bus.stores.sqlite.partitions import trace_sql
from bus.stores.sqlite.partitions.partition import LoadedDocument, Partition
from bus.stores.sqlite.partitions.references import Name, may_have_names, names_of

_SLICE: Final = 64  # documents between which the loop serves others
Element = TypeVar("Element")
Row = tuple[Any, ...]


class KeyedWrite(NamedTuple):
    """A write with its message id's bytes."""

    key: bytes
    write: Message | Outcome


class Merge:
    """The writes of one gathering for one partition, inside one transaction that the caller begins and ends.

    A document that is not in memory is inserted blindly when its message came along, because then it is new as
    a rule; only where the file has it already is it read and merged.
    """

    def __init__(self, partition: Partition, writes: Sequence[KeyedWrite]) -> None:
        self.partition = partition
        self.outcomes = [(key, write) for key, write in writes if isinstance(write, Outcome)]
        self.held: dict[bytes, LoadedDocument] = {}
        self._messages = [(key, write) for key, write in writes if isinstance(write, Message)]

    async def apply(self) -> None:
        """Run every statement of the transaction but its beginning and its end."""
        async for messages in _slices(self._messages):
            for key, message in messages:
                self._merge_message(key, message)
        async for outcomes in _slices(self.outcomes):
            for key, outcome in outcomes:
                self._merge_outcome(key, outcome)
        changed = [held for held in self.held.values() if held.row]
        async for fresh in _slices([held for held in self.held.values() if not held.row]):
            changed += self._insert(fresh)
        async for held in _slices(changed):
            self._update(held)
        self.partition.note_newest(max(map(_received_at, self.held.values()), default=0))

    def remember(self) -> None:
        """Keep in memory, after the commit, what is likely to be written again."""
        for held in self.held.values():
            self.partition.remember(held)

    def _merge_message(self, key: bytes, message: Message) -> None:
        held = self.held.get(key)
        if held is None:
            held = self.partition.recent.get(key) or _start(key, message.id, message)
            self.held[key] = held
        if merge_message(held.trace, message):
            held.body = message.body

    def _merge_outcome(self, key: bytes, outcome: Outcome) -> None:
        held = self.held.get(key)
        if held is None:
            partition = self.partition
            held = partition.recent.get(key) or partition.load(key) or _start(key, outcome.message_id, outcome)
            self.held[key] = held
        merge_outcome(held.trace, outcome)

    def _insert(self, fresh: Sequence[LoadedDocument]) -> list[LoadedDocument]:
        """Insert documents, and return those that the file had already, merged with it."""
        partition = self.partition
        for held in fresh:
            held.row = partition.next_row()
            held.status = trace_sql.STATUS[held.trace.status]
            held.listed = held.trace.message is not None
        rows = [(held.row, held.key, *self._columns(held)) for held in fresh]
        before = partition.writer.total_changes()
        partition.writer.executemany(trace_sql.INSERT_MESSAGE, rows)
        known: list[LoadedDocument] = []
        if partition.writer.total_changes() - before < len(fresh):
            known = [self._again(held.key) for held in fresh if self._row_of(held.key) != held.row]
            fresh = [held for held in fresh if self.held[held.key] is held]
        self._write_rest(fresh)
        return known

    def _row_of(self, key: bytes) -> int:
        return int(next(self.partition.writer.execute(trace_sql.ROW_OF, (key,)))[0])

    def _again(self, key: bytes) -> LoadedDocument:
        """Merge a document's writes into what the file has."""
        stored = self.partition.load(key)
        assert stored is not None  # noqa: S101 - its row was in the way of the insert
        self.held[key] = stored
        for other, message in self._messages:
            if other == key:
                self._merge_message(key, message)
        for other, outcome in self.outcomes:
            if other == key:
                self._merge_outcome(key, outcome)
        return stored

    def _update(self, changed: Sequence[LoadedDocument]) -> None:
        whole: list[Row] = []
        states: list[Row] = []
        documents: list[Row] = []
        for held in changed:
            status = trace_sql.STATUS[held.trace.status]
            if (not held.listed and held.trace.message is not None) or held.body is not None:
                whole.append((*self._columns(held), held.row))
                held.listed = True
            elif status != held.status:
                states.append((status, encode_trace(held.trace), held.row))
            else:
                documents.append((encode_trace(held.trace), held.row))
            held.status = status
        self._run(trace_sql.UPDATE_MESSAGE, whole)
        self._run(trace_sql.UPDATE_STATE, states)
        self._run(trace_sql.UPDATE_DOCUMENT, documents)
        self._write_rest(changed)

    def _write_rest(self, written: Sequence[LoadedDocument]) -> None:
        """Write bodies, and the indexes of deliveries, failures and references where they change."""
        bodies: list[Row] = []
        dropped: list[Row] = []
        added: list[Row] = []
        failing: list[LoadedDocument] = []
        named: list[tuple[LoadedDocument, frozenset[Name]]] = []
        for held in written:
            if held.body is not None:
                bodies.append((held.row, held.body))
                held.body = None
                message = held.trace.message
                if held.names or may_have_names(message):
                    named.append((held, names_of(message)))
            states = self.partition.states(held.trace)
            if states != held.indexed:
                dropped += [(*item, held.key) for item in held.indexed.items() - states.items()]
                added += [(*item, held.key, held.row) for item in states.items() - held.indexed.items()]
                held.indexed = states
            if held.failing or (states and not trace_sql.FAILING.isdisjoint(states.values())):
                failing.append(held)
        self._run(trace_sql.PUT_BODY, bodies)
        self._run(trace_sql.DROP_DELIVERY, dropped)
        self._run(trace_sql.ADD_DELIVERY, added)
        if failing:
            self._write_failures(failing)
        if named:
            self._write_references(named)

    def _write_failures(self, written: Sequence[LoadedDocument]) -> None:
        """Write the index of failures where it changes."""
        dropped: list[Row] = []
        added: list[Row] = []
        for held in written:
            failing = self.partition.failing(held.trace)
            dropped += [(lane, one[0], held.key) for lane, one in held.failing.items() if failing.get(lane) != one]
            added += [
                (lane, *one, held.key, held.row) for lane, one in failing.items() if held.failing.get(lane) != one
            ]
            held.failing = failing
        self._run(trace_sql.DROP_FAILURE, dropped)
        self._run(trace_sql.ADD_FAILURE, added)

    def _write_references(self, named: Sequence[tuple[LoadedDocument, frozenset[Name]]]) -> None:
        """Write the index of references where it changes: with a message, or when another of the same id wins."""
        self._run(trace_sql.DROP_REFERENCE, [(name, held.key) for held, names in named for name in held.names - names])
        self._run(trace_sql.ADD_REFERENCE, [(name, held.key) for held, names in named for name in names - held.names])
        for held, names in named:
            held.names = names

    def _run(self, statement: str, rows: list[Row]) -> None:
        if rows:
            self.partition.writer.executemany(statement, rows)

    def _columns(self, held: LoadedDocument) -> Row:
        trace = held.trace
        message = trace.message
        if message is None:
            return (None, None, None, trace_sql.STATUS[trace.status], encode_trace(trace))
        return (
            self.partition.destination_number(trace.destination),
            message.biz_id or None,
            message.source or None,
            trace_sql.STATUS[trace.status],
            encode_trace(trace),
        )


def _start(key: bytes, message_id: str, write: Message | Outcome) -> LoadedDocument:
    return LoadedDocument(key, start_trace(message_id, write.destination, write.retention_days))


def _received_at(held: LoadedDocument) -> int:
    """Return the time of receipt of a document's message; the time of its id while it has not arrived."""
    message = held.trace.message
    return message.received_at if message is not None else id_time(held.trace.id)


async def _slices(elements: Sequence[Element]) -> AsyncIterator[Sequence[Element]]:
    """Give the elements in slices, and the loop a turn after each."""
    for start in range(0, len(elements), _SLICE):
        yield elements[start : start + _SLICE]
        await asyncio.sleep(0)
