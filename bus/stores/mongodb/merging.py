"""Merges one gathering into one partition: reads, merges in memory, writes where no other process wrote in between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from bson import ObjectId
from pymongo import InsertOne, ReplaceOne, UpdateOne
from pymongo.errors import BulkWriteError

from bus.domain.delivery.delivery import Outcome
from bus.domain.message import Message
from bus.domain.tracing.trace import Trace, merge_message, merge_outcome, start_trace
from bus.errors import StoreError
from bus.stores.mongodb.bodies import reference_of
from bus.stores.mongodb.connection import Collection, Connection, Form
from bus.stores.mongodb.damaged import DamagedDocuments
from bus.stores.mongodb.errors import DUPLICATE_KEY, failed_writes, translate_write
from bus.stores.mongodb.forms import DamagedDocument, read_body_reference, read_trace, trace_form
from bus.stores.mongodb.inserting import slices
from bus.stores.mongodb.names import Label, lane_name

Write = Message | Outcome
Operation = InsertOne[Form] | UpdateOne | ReplaceOne[Form]
_REVISION: Final = "revision"


class LoadedTrace:
    """A trace in memory, and the document that it was read from.

    Attributes
    ----------
    stored
        The document; empty while there is none.
    body
        The reference of the message's body.
    damaged
        Whether the document cannot be read, so that the trace begins anew in its place.
    touched
        Whether it is to be written even where it did not change.
    """

    __slots__ = ("body", "damaged", "stored", "touched", "trace")

    def __init__(self, trace: Trace, stored: Form, *, body: str = "", damaged: bool = False) -> None:
        self.trace = trace
        self.stored = stored
        self.body = body
        self.damaged = damaged
        self.touched = False


class Merge:
    """The writes of one gathering for one partition, in rounds, until every one is in its document.

    A document is inserted blindly when its message came along, because then it is new as a rule. A document that turns
    out to be there already, or was written by another process since it was read, is left for the next round.
    """

    def __init__(
        self, connection: Connection, damaged: DamagedDocuments, label: Label, writes: Sequence[Write]
    ) -> None:
        self.label = label
        self.held: dict[str, LoadedTrace] = {}
        self.wrote = False
        self._connection = connection
        self._damaged = damaged
        self._writes: defaultdict[str, list[Write]] = defaultdict(list)
        self._blind: set[str] = set()
        for write in writes:
            if isinstance(write, Message):
                self._writes[write.id].append(write)
                self._blind.add(write.id)
            else:
                self._writes[write.message_id].append(write)
        self._open = set(self._writes)
        self._refused: StoreError | None = None

    @property
    def _traces(self) -> Collection:
        return self._connection[self.label.traces]

    @property
    def done(self) -> bool:
        """Whether every write is in its document."""
        return not self._open

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes whose documents are still to be written."""
        return [write for name in self._open for write in self._writes[name] if isinstance(write, Outcome)]

    @property
    def bodies(self) -> list[tuple[str, bytes]]:
        """The bodies of all messages."""
        return [
            (write.id, write.body) for writes in self._writes.values() for write in writes if isinstance(write, Message)
        ]

    @property
    def lanes(self) -> set[str]:
        """The subscriptions of all deliveries of the documents."""
        return {
            lane_name(held.trace.destination, name) for held in self.held.values() for name in held.trace.deliveries
        }

    async def read(self) -> None:
        """Read the open documents and merge the writes into them."""
        self.held = {}
        names = sorted(self._open - self._blind)
        self._blind = set()
        for piece in slices(names):
            for form in await self._connection.find(self.label.traces, {"_id": {"$in": piece}}):
                self.held[form["_id"]] = await self._hold(form)
        for name in self._open:
            held = self.held.get(name)
            if held is None:
                held = self.held[name] = LoadedTrace(_start(name, self._writes[name][0]), {})
            for write in self._writes[name]:
                _merge(held, write)

    async def write(self) -> None:
        """Write the merged documents; those that another process wrote meanwhile stay open."""
        inserts: list[Form] = []
        updates: list[tuple[str, UpdateOne | ReplaceOne[Form]]] = []
        for name, held in self.held.items():
            form = trace_form(held.trace, held.body)
            if not held.stored:
                inserts.append({"_id": name, _REVISION: _revision(), **form})
            elif held.damaged:
                updates.append((name, ReplaceOne(_as_read(held.stored), {_REVISION: _revision(), **form})))
            elif changes := _changes(held, form):
                updates.append((name, UpdateOne(_as_read(held.stored), {"$set": changes})))
        still_open: set[str] = set()
        for fresh in slices(inserts):
            still_open |= await self._insert(fresh)
        for changed in slices(updates):
            still_open |= await self._update(changed)
        self._open = still_open

    async def confirm(self) -> None:
        """Wait until what was read is as durable as what is written.

        A document that did not change needs no write, but the one who wrote it may still wait for the majority. A
        write that changes nothing is acknowledged after all that is before it.
        """
        held = next((held for held in self.held.values() if held.stored), None)
        if held is not None and not self.wrote:
            present, same = _as_read(held.stored), {"$set": {"retention_days": held.trace.retention_days}}
            await self._connection.exchange(
                f"write {self.label.traces}", lambda: self._traces.update_one(present, same)
            )

    def check(self) -> None:
        """Raise the error of a document that the server refused, now that all others are written."""
        if self._refused is not None:
            raise self._refused

    async def _hold(self, form: Form) -> LoadedTrace:
        try:
            return LoadedTrace(read_trace(form), form, body=read_body_reference(form))
        except DamagedDocument as error:
            await self._damaged.set_aside(self.label.traces, form, error)
            return LoadedTrace(_start(form["_id"], self._writes[form["_id"]][0]), form, damaged=True)

    async def _insert(self, forms: Sequence[Form]) -> set[str]:
        """Return the ids of documents that were there already."""
        _, failed = await self._bulk([InsertOne(form) for form in forms])
        present: set[str] = set()
        for place, code, text in failed:
            if code == DUPLICATE_KEY:
                present.add(forms[place]["_id"])
            else:
                self._refuse(forms[place]["_id"], code, text)
        return present

    async def _update(self, updates: Sequence[tuple[str, UpdateOne | ReplaceOne[Form]]]) -> set[str]:
        """Return the ids to read again: if one did not match, all, for the server does not say which."""
        matched, failed = await self._bulk([operation for _, operation in updates])
        for place, code, text in failed:
            self._refuse(updates[place][0], code, text)
        if matched + len(failed) == len(updates):
            return set()
        return {name for name, _ in updates} - {updates[place][0] for place, _, _ in failed}

    async def _bulk(self, operations: list[Operation]) -> tuple[int, list[tuple[int, int, str]]]:
        """Return how many updates found their document, and the operations that the server refused."""
        self.wrote = True

        async def write() -> tuple[int, list[tuple[int, int, str]]]:
            try:
                return (await self._traces.bulk_write(operations, ordered=False)).matched_count, []
            except BulkWriteError as error:
                if error.details["writeConcernErrors"]:
                    raise
                return error.details["nMatched"], failed_writes(error)

        return await self._connection.exchange(f"write {self.label.traces}", write)

    def _refuse(self, message_id: str, code: int, text: str) -> None:
        if self._refused is None or not self._refused.retriable:
            self._refused = translate_write(code, text, f"write {message_id} into {self.label.traces}")


def _start(message_id: str, write: Write) -> Trace:
    return start_trace(message_id, write.destination, write.retention_days)


def _merge(held: LoadedTrace, write: Write) -> None:
    if isinstance(write, Outcome):
        merge_outcome(held.trace, write)
    elif merge_message(held.trace, write):
        held.body = reference_of(write.id, write.body).name


def _as_read(stored: Form) -> Form:
    """Return the condition that a document is still the one that was read."""
    return {"_id": stored["_id"], _REVISION: {"$eq": stored.get(_REVISION)}}


def _changes(held: LoadedTrace, form: Form) -> Form:
    changed = {name: value for name, value in form.items() if held.stored.get(name) != value}
    if not changed and not held.touched:
        return {}
    return changed | {_REVISION: _revision()}


def _revision() -> str:
    """Return the name of a write; a number would be given twice where a new primary has lost what was read."""
    return str(ObjectId())
