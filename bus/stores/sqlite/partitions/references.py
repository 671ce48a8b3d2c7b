"""The references of a message besides its id and biz id: its names in the index of references."""

from __future__ import annotations

from bus.domain.message import Message
from bus.domain.searching.conditions import parse_ref, trace_id_of
from bus.stores.sqlite.keys import id_key

Name = str | bytes


def may_have_names(message: Message | None) -> bool:
    """Whether it is worth looking for names of a message; most have none."""
    return message is not None and bool(
        message.key or message.idempotency_key or message.traceparent or message.original_id
    )


def names_of(message: Message | None) -> frozenset[Name]:
    """Return a message's keys as text, and the ids of its trace and of its first sending as bytes."""
    if message is None:
        return frozenset()
    names: list[Name] = [name for name in (message.key, message.idempotency_key) if name]
    if message.traceparent and (traced := trace_id_of(message.traceparent)):
        names.append(bytes.fromhex(traced))
    if message.original_id and (original := parse_ref(message.original_id).message_id):
        names.append(id_key(original))
    return frozenset(names)
