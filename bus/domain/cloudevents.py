"""A message as a CloudEvent in the binary binding, for brokers whose records have headers (CloudEvents 1.0.2).

The standard attributes let other consumers understand our records; the attribute ``busmeta`` carries what the
standard has no word for, so that a message that travelled is the very one that was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from bus.domain.message import Message
from bus.domain.times import format_time

CONTENT_TYPE: Final = "content-type"
_SPEC: Final = "1.0"
_NO_SOURCE: Final = "/bus"


class _Meta(msgspec.Struct, array_like=True, gc=False):
    """What the standard attributes do not say exactly."""

    sent_at: int
    received_at: int
    source: str
    biz_id: str
    key: str
    routing_key: str
    headers: dict[str, str]
    deliver_at: int
    expected: tuple[str, ...]
    retention_days: int
    original_id: str
    idempotency_key: str
    traceparent: str
    tracestate: str
    edited_from: str = ""
    replay: str = ""


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(_Meta)


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
        "busmeta": _meta(message),
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
    return Message(
        id=attributes["id"],
        destination=attributes["type"],
        body=body,
        content_type=attributes["datacontenttype"],
        sent_at=meta.sent_at,
        received_at=meta.received_at,
        source=meta.source,
        biz_id=meta.biz_id,
        key=meta.key,
        routing_key=meta.routing_key,
        headers=meta.headers,
        deliver_at=meta.deliver_at,
        traceparent=meta.traceparent,
        tracestate=meta.tracestate,
        expected=meta.expected,
        retention_days=meta.retention_days,
        original_id=meta.original_id,
        idempotency_key=meta.idempotency_key,
        edited_from=meta.edited_from,
        replay=meta.replay,
    )


def _meta(message: Message) -> str:
    meta = _Meta(
        message.sent_at,
        message.received_at,
        message.source,
        message.biz_id,
        message.key,
        message.routing_key,
        message.headers,
        message.deliver_at,
        message.expected,
        message.retention_days,
        message.original_id,
        message.idempotency_key,
        message.traceparent,
        message.tracestate,
        message.edited_from,
        message.replay,
    )
    return _encoder.encode(meta).decode()
