"""A message as a CloudEvent in the binary binding, for brokers whose records have headers (CloudEvents 1.0.2).

The standard attributes let other consumers understand our records; the attribute ``busmeta`` carries what the
standard has no word for, so that a message that travelled is the very one that was sent.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from bus.domain.message import Message
from bus.domain.times import format_time

CONTENT_TYPE: Final = "content-type"
_SPEC: Final = "1.0"
_NO_SOURCE: Final = "/bus"


_OLDEST: Final = (
    *("sent_at", "received_at", "source", "biz_id", "key", "routing_key", "headers", "deliver_at", "expected"),
    *("retention_days", "original_id", "idempotency_key", "traceparent", "tracestate"),
)
"""The fields that ``busmeta`` had from the beginning, in their order there."""
_EXACT: Final = ("id", "destination", "body", "content_type")
"""The fields that a standard attribute, or the data, carries unchanged, so that ``busmeta`` need not."""
_META: Final = (
    *_OLDEST,
    *(name for name in Message.__struct_fields__ if name not in (*_OLDEST, *_EXACT)),
)
"""The fields of ``busmeta``; those that were added later have their defaults where a record lacks them."""


def _meta_field(field: msgspec.structs.FieldInfo) -> tuple[str, Any] | tuple[str, Any, Any]:
    if field.name in _OLDEST:
        return field.name, field.type
    if field.default is msgspec.NODEFAULT:
        return field.name, field.type, msgspec.field(default_factory=field.default_factory)
    return field.name, field.type, field.default


_fields: Final = {field.name: field for field in msgspec.structs.fields(Message)}
_meta_of: Final = operator.attrgetter(*_META)
_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(
    msgspec.defstruct("_Meta", [_meta_field(_fields[name]) for name in _META], array_like=True, gc=False)
)


def attributes_of(message: Message) -> dict[str, str]:
    """Return the event's attributes by name, without a binding's prefix; the body is the event's data as it is.

    ``datacontenttype`` is among them; a binding moves it to its own ``content-type``. Values of standard attributes
    are ASCII (percent-encoded); ``busmeta`` is JSON in UTF-8.
    """
    attributes = {
        "specversion": _SPEC,
        "id": message.id,
        "source": quote(message.source) or _NO_SOURCE,
        "type": message.destination,
        "datacontenttype": message.content_type,
        "busmeta": _encoder.encode(_meta_of(message)).decode(),
    }
    if message.sent_at:
        attributes["time"] = format_time(message.sent_at)
    if message.biz_id:
        attributes["subject"] = quote(message.biz_id)
    if message.key:
        attributes["partitionkey"] = quote(message.key)
    if message.traceparent:
        attributes["traceparent"] = message.traceparent
    if message.tracestate:
        attributes["tracestate"] = message.tracestate
    return attributes


def message_of(attributes: Mapping[str, str], body: bytes) -> Message:
    """Undo ``attributes_of``.

    Raises
    ------
    ValueError
        The event was not published by this bus, or is damaged; the text says what is missing.
    """
    missing = [name for name in ("id", "type", "datacontenttype", "busmeta") if name not in attributes]
    if missing:
        raise ValueError(f"not a message of the bus: without {', '.join(missing)}")
    try:
        meta = _decoder.decode(attributes["busmeta"])
    except msgspec.DecodeError as error:
        raise ValueError(f"not a message of the bus: busmeta: {error}") from error
    exact = attributes["id"], attributes["type"], body, attributes["datacontenttype"]
    return Message(*exact, **dict(zip(_META, _meta_of(meta), strict=True)))
