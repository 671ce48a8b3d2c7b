"""Large values apart from the documents that refer to them: the bodies of messages, and rows that carry large ones.

A value is named by its content, so writing it again changes nothing, and no writer can take another's away. It is cut
into parts, for a message may be as large as MongoDB lets a document be.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from bus.stores.mongodb.connection import Connection, Form
from bus.stores.mongodb.forms import DamagedDocument
from bus.stores.mongodb.inserting import insert_new, slices
from bus.stores.mongodb.names import Label

_PART: Final = 8 * 2**20
_DIGEST_BYTES: Final = 16


class Reference(NamedTuple):
    """The place where a value is stored: its message, its name, and its size in bytes."""

    message_id: str
    name: str
    size: int


def reference_of(message_id: str, value: bytes) -> Reference:
    """Return the reference by which a value is found once it is stored; an empty one has an empty name."""
    name = blake2b(value, digest_size=_DIGEST_BYTES).hexdigest() if value else ""
    return Reference(message_id, name, len(value))


class Bodies:
    """The large values of all partitions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def put(self, label: Label, values: Sequence[tuple[str, bytes]]) -> None:
        """Store values of messages of a partition; durable when it returns."""
        forms: dict[str, Form] = {}
        for message_id, value in values:
            reference = reference_of(message_id, value)
            for name, start in zip(_parts(reference), range(0, len(value), _PART), strict=True):
                forms[name] = {"_id": name, "bytes": value[start : start + _PART]}
        await insert_new(self._connection, label.bodies, list(forms.values()), lambda form: len(form["bytes"]))

    async def get(self, label: Label, references: Sequence[Reference]) -> list[bytes | DamagedDocument]:
        """Return values in order; ``DamagedDocument`` in the place of one that is not whole."""
        found: dict[str, bytes] = {}
        names = [(name, reference.size) for reference in references for name in _parts(reference)]
        for piece in slices(names, lambda part: min(part[1], _PART)):
            forms = await self._connection.find(label.bodies, {"_id": {"$in": [name for name, _ in piece]}})
            found |= {form["_id"]: form["bytes"] for form in forms}
        return [_joined(label, reference, found) for reference in references]


def _parts(reference: Reference) -> list[str]:
    return [
        f"{reference.message_id}/{reference.name}/{number}" for number, _ in enumerate(range(0, reference.size, _PART))
    ]


def _joined(label: Label, reference: Reference, found: dict[str, bytes]) -> bytes | DamagedDocument:
    value = b"".join(found.get(name, b"") for name in _parts(reference))
    if len(value) != reference.size:
        return DamagedDocument(
            f"{label.bodies} has {len(value)} of the {reference.size} bytes of message {reference.message_id}"
        )
    return value
