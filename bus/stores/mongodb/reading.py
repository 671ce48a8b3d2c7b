"""Reading single messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from bus.domain.message import Message
from bus.domain.tracing.trace import Trace, is_finished
from bus.errors import StoreError
from bus.localized_text import localized
from bus.ports.store import DeliveryKey
from bus.stores.mongodb.bodies import Bodies, Reference
from bus.stores.mongodb.connection import Connection, Form
from bus.stores.mongodb.damaged import DamagedDocuments
from bus.stores.mongodb.forms import DamagedDocument, read_body_reference, read_trace
from bus.stores.mongodb.inserting import slices
from bus.stores.mongodb.names import Label, day_of_id, label_of
from bus.stores.mongodb.partitions import Partitions


class StoredTrace(NamedTuple):
    """A trace, its partition, and the reference of its message's body."""

    trace: Trace
    label: Label
    body: Reference


class CommittedReader:
    """Reads what is committed."""

    def __init__(
        self, connection: Connection, partitions: Partitions, bodies: Bodies, damaged: DamagedDocuments
    ) -> None:
        self._connection = connection
        self._partitions = partitions
        self._bodies = bodies
        self._damaged = damaged

    async def trace(self, message_id: str) -> Trace | None:
        """Return a message's document, without its body."""
        found = await self._find(message_id)
        return found.trace if found else None

    async def message(self, message_id: str) -> Message | None:
        """Return the whole message with its body."""
        found = await self._find(message_id)
        if found is None or found.trace.message is None:
            return None
        (body,) = await self._bodies.get(found.label, [found.body])
        if isinstance(body, DamagedDocument):
            raise StoreError(
                str(body), hint=localized("documents were deleted from the collection; restore it from a backup")
            )
        return msgspec.structs.replace(found.trace.message, body=body)

    async def whole(self, label: Label, found: Sequence[StoredTrace]) -> list[Message]:
        """Return the whole messages of traces of one partition that have theirs; those without a body are noted."""
        messages: list[Message] = []
        bodies = await self._bodies.get(label, [one.body for one in found])
        for one, body in zip(found, bodies, strict=True):
            if isinstance(body, DamagedDocument):
                self._damaged.note(label.bodies, {"_id": one.trace.id}, body)
            elif one.trace.message is not None:
                messages.append(msgspec.structs.replace(one.trace.message, body=body))
        return messages

    async def finished(self, keys: Sequence[DeliveryKey]) -> set[DeliveryKey]:
        """Return those deliveries that need no further POST."""
        asked: defaultdict[Label, list[DeliveryKey]] = defaultdict(list)
        for key in keys:
            if day_of_id(key.message_id) is not None:
                asked[label_of(key.message_id, key.retention_days)].append(key)
        finished: set[DeliveryKey] = set()
        for label, part in asked.items():
            traces = await self.traces(label, sorted({key.message_id for key in part}))
            finished |= {
                key
                for key in part
                if (trace := traces.get(key.message_id)) and is_finished(trace, key.subscription, key.generation)
            }
        return finished

    async def traces(self, label: Label, names: Sequence[str]) -> dict[str, Trace]:
        """Return traces of a partition by id, as far as there are any that can be read."""
        traces: dict[str, Trace] = {}
        for piece in slices(names):
            forms = await self._connection.find(label.traces, {"_id": {"$in": piece}})
            traces |= {found.trace.id: found.trace for found in self.found(label, forms)}
        return traces

    def found(self, label: Label, forms: Sequence[Form]) -> list[StoredTrace]:
        """Return the traces of documents; those that cannot be read are noted and left out."""
        traces: list[StoredTrace] = []
        for form in forms:
            try:
                trace = read_trace(form)
                body = Reference(trace.id, read_body_reference(form), trace.body_bytes)
                traces.append(StoredTrace(trace, label, body))
            except DamagedDocument as error:
                self._damaged.note(label.traces, form, error)
        return traces

    async def _find(self, text: str) -> StoredTrace | None:
        """Return a trace; of several retention classes the one that has the message."""
        name = day_of_id(text)
        best: StoredTrace | None = None
        if name is None:
            return None
        message_id, day = name
        for label in await self._partitions.of_day(day):
            for form in await self._connection.find(label.traces, {"_id": message_id}):
                found = self._readable(label, form)
                if best is None or found.trace.message is not None:
                    best = found
        return best

    def _readable(self, label: Label, form: Form) -> StoredTrace:
        found = self.found(label, [form])
        if not found:
            raise StoreError(
                localized(
                    "document {id} of {place} is not one that this bus can read", id=form["_id"], place=label.traces
                ),
                hint=localized(
                    "the log says what is wrong with it; another version or a person wrote it: restore "
                    "it or delete it, everything else continues"
                ),
            )
        return found[0]
