"""From a request to a draft of a message: headers of a single one, lines of a batch."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Final
from urllib.parse import unquote

import msgspec

from bus.domain.headers import own_headers
from bus.domain.identity import parse_id
from bus.domain.replay import Replay
from bus.domain.texts import check_ascii, check_text
from bus.domain.times import parse_time
from bus.errors import InvalidMessage

_OWN_HEADER: Final = b"bus-header-"
_CLOUD_EVENT: Final = b"ce-"
IDENTIFYING: Final = frozenset({b"bus-message-id", b"idempotency-key", b"ce-id"})
"""Headers without which a single message is no repetition of another."""
_GREATEST: Final = 2**63 - 1
_NULL: Final = b"null"
_JSON: Final = "application/json"
_BINARY: Final = "application/octet-stream"


class Draft(msgspec.Struct, gc=False):
    """What the producer said; the receiver stamps the rest. Times in milliseconds since the epoch, 0 when not given.

    ``event`` has source and id of a CloudEvent without an Idempotency-Key of the producer's own; ``producer`` is the
    epoch of a producer that has the lease of a strictly ordered destination. ``is_parsed`` says that the body was a
    value of a JSON document that was parsed.
    """

    destination: str
    body: bytes
    id: str = ""
    content_type: str = ""
    sent_at: int = 0
    source: str = ""
    biz_id: str = ""
    key: str = ""
    routing_key: str = ""
    headers: dict[str, str] = {}
    deliver_at: int = 0
    traceparent: str = ""
    tracestate: str = ""
    idempotency_key: str = ""
    event: tuple[str, ...] = ()
    original_id: str = ""
    replay: str = ""
    producer: int = 0
    is_parsed: bool = False

    @property
    def repeats(self) -> tuple[str, ...]:
        """The key by which two drafts are the same message, whatever their ids; empty without one."""
        return self.event or ((self.idempotency_key,) if self.idempotency_key else ())


class _Line(msgspec.Struct):
    """A line as it is sent; null means that a field is missing, but in ``body`` it is a JSON value."""

    destination: str
    id: str | None = None
    biz_id: str | None = None
    key: str | None = None
    routing_key: str | None = None
    source: str | None = None
    sent_at: str | None = None
    headers: dict[str, str] | None = None
    content_type: str | None = None
    deliver_at: str | None = None
    idempotency_key: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    original_id: str | None = None
    replay: str | None = None
    event: tuple[str, str] | None = None
    producer: Annotated[int, msgspec.Meta(ge=0, le=_GREATEST)] | None = None
    body: msgspec.Raw = msgspec.Raw()
    body_base64: str | None = None


_line_decoder: Final = msgspec.json.Decoder(_Line)


def draft_of_request(destination: str, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> Draft:
    """Read the headers of a single message.

    Raises
    ------
    InvalidMessage
        A header has an impossible value; ``field`` names it.
    """
    draft = Draft(destination, body)
    own: dict[str, str] = {}
    events: dict[str, str] = {}
    for name, value in headers:
        reader = _READERS.get(name)
        if reader is not None:
            reader(draft, value)
        elif name.startswith(_OWN_HEADER):
            _add_header(own, name[len(_OWN_HEADER) :].decode("latin-1"), _text(name, value))
        elif name.startswith(_CLOUD_EVENT):
            _add_header(events, name.decode("latin-1"), _text(name, value))
    if events:
        _cloud_event(draft, events)
        own.update(events)
    if own:
        draft.headers = _own_headers(own)
    if not draft.content_type:
        draft.content_type = _BINARY
    return draft


def draft_of_line(line: bytes) -> Draft:
    """Read a line of a batch.

    Raises
    ------
    InvalidMessage
        The line is not such an object, or has neither or both of ``body`` and ``body_base64``.
    """
    try:
        found = _line_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMessage(f"the line is not a message: {error}") from error
    body, content_type = _line_body(found)
    headers = _own_headers(found.headers or {})
    return Draft(
        destination=found.destination,
        body=body,
        id=_id(found.id, "id") if found.id else "",
        content_type=check_ascii(found.content_type or "", "content_type") or content_type,
        sent_at=_time(found.sent_at or "", "sent_at"),
        source=check_text(found.source or "", "source"),
        biz_id=check_text(found.biz_id or "", "biz_id"),
        key=check_text(found.key or "", "key"),
        routing_key=check_text(found.routing_key or "", "routing_key"),
        headers=headers,
        deliver_at=_time(found.deliver_at or "", "deliver_at"),
        traceparent=check_ascii(found.traceparent or "", "traceparent"),
        tracestate=check_ascii(found.tracestate or "", "tracestate"),
        idempotency_key=check_text(found.idempotency_key or "", "idempotency_key") or _key_of(found.event or ()),
        original_id=_id(found.original_id, "original_id") if found.original_id else "",
        replay=_replay(found.replay, "replay") if found.replay else "",
        event=found.event or (),
        producer=found.producer or 0,
        is_parsed=found.body_base64 is None,
    )


def _line_body(line: _Line) -> tuple[bytes, str]:
    raw = bytes(line.body)
    if raw == _NULL and line.body_base64 is not None:
        raw = b""
    if bool(raw) == (line.body_base64 is not None):
        raise InvalidMessage('a line has either "body" or "body_base64"', field="body")
    if line.body_base64 is None:
        _check_utf8(raw)
        return raw, _JSON
    try:
        return base64.b64decode(line.body_base64, validate=True), _BINARY
    except (binascii.Error, ValueError) as error:
        raise InvalidMessage(f"body_base64 is not base64: {error}", field="body_base64") from error


def _check_utf8(body: bytes) -> None:
    """Refuse what is not UTF-8, and so no JSON (RFC 8259, section 8.1): the decoder does not check raw values."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise InvalidMessage(f"the body is not UTF-8, so it is no JSON: {error}", field="body") from error


def _add_header(headers: dict[str, str], name: str, value: str) -> None:
    if name in headers:
        raise InvalidMessage(f"header {name!r} is there twice", field="headers")
    headers[name] = value


def _own_headers(headers: Mapping[str, str]) -> dict[str, str]:
    try:
        return own_headers(headers)
    except ValueError as error:
        raise InvalidMessage(str(error), field="headers") from error


def _cloud_event(draft: Draft, events: dict[str, str]) -> None:
    """Understand the CloudEvents 1.0 binary binding: (source, id) identify an event, so they make it idempotent."""
    source, event_id = unquote(events.get("ce-source", "")), unquote(events.get("ce-id", ""))
    draft.source = draft.source or check_text(source, "ce-source")
    if event_id and not draft.idempotency_key:
        draft.event = (source, event_id)
        draft.idempotency_key = _key_of(draft.event)
    draft.biz_id = draft.biz_id or check_text(unquote(events.get("ce-subject", "")), "ce-subject")
    draft.key = draft.key or check_text(unquote(events.get("ce-partitionkey", "")), "ce-partitionkey")
    if events.get("ce-time") and not draft.sent_at:
        draft.sent_at = _time(events["ce-time"], "ce-time")


def _key_of(event: Sequence[str]) -> str:
    """Return the key of an event for people, to whom another one may read the same; empty for none."""
    return ":".join(("ce", *event)) if event else ""


def _text(name: bytes, value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        field = name.decode("latin-1")
        raise InvalidMessage(f"header {field} is not UTF-8", field=field) from error


def _id(value: str, field: str) -> str:
    try:
        return parse_id(value)
    except ValueError as error:
        raise InvalidMessage(f"{field} {value[:64]!r} is not a UUID of version 7", field=field) from error


def _replay(value: str, field: str) -> str:
    try:
        return str(Replay.parse(value))
    except ValueError as error:
        raise InvalidMessage(
            f"{field} {value[:140]!r} is not the name of a replay and the id of a message", field=field
        ) from error


def _time(value: str, field: str) -> int:
    if not value:
        return 0
    try:
        return parse_time(value)
    except (ValueError, OverflowError) as error:
        raise InvalidMessage(f"{field} {value[:64]!r} is not an RFC 3339 time", field=field) from error


def _reader(attribute: str, field: str, convert: Callable[[str, str], object]) -> Callable[[Draft, bytes], None]:
    def read(draft: Draft, value: bytes) -> None:
        setattr(draft, attribute, convert(_text(field.encode(), value), field))

    return read


_READERS: Final = {
    field.encode(): _reader(attribute, field, convert)
    for field, attribute, convert in (
        ("content-type", "content_type", check_ascii),
        ("bus-message-id", "id", _id),
        ("bus-original-id", "original_id", _id),
        ("bus-replay", "replay", _replay),
        ("bus-biz-id", "biz_id", check_text),
        ("bus-source", "source", check_text),
        ("bus-key", "key", check_text),
        ("bus-routing-key", "routing_key", check_text),
        ("bus-sent-at", "sent_at", _time),
        ("bus-deliver-at", "deliver_at", _time),
        ("idempotency-key", "idempotency_key", check_text),
        ("traceparent", "traceparent", check_ascii),
        ("tracestate", "tracestate", check_ascii),
    )
}
