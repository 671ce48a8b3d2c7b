"""A message as one line of ``POST /v1/messages``, as stored in the SDK's spool and sent to the receiver."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from bus.domain.headers import check_headers
from bus.domain.identity import parse_id
from bus.domain.texts import LONGEST_TEXT, check_ascii, check_text
from bus.domain.times import format_time, parse_time
from bus.errors import InvalidMessage, WrongType

_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
_BINARY: Final = "application/octet-stream"
_TRACE: Final = ("traceparent", "tracestate")
_encode: Final = msgspec.json.Encoder().encode
_NULL: Final = b"null"
_ENCODE: Final = "encode it to bytes first"
Kind = TypeVar("Kind")


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of a line, as OpenAPI names them; ``body`` holds JSON made here, ``body_base64`` anything else.

    ``producer`` is the epoch of the lease under which it is sent to a strictly ordered destination, 0 for none;
    ``event`` has source and id of a CloudEvent that came by HTTP.
    """

    id: str
    destination: str
    sent_at: str = ""
    content_type: str = ""
    source: str = ""
    biz_id: str = ""
    key: str = ""
    routing_key: str = ""
    headers: dict[str, str] = {}
    deliver_at: str = ""
    idempotency_key: str = ""
    traceparent: str = ""
    tracestate: str = ""
    original_id: str = ""
    replay: str = ""
    event: tuple[str, ...] = ()
    producer: int = 0
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    body_base64: bytes | msgspec.UnsetType = msgspec.UNSET

    @property
    def content(self) -> bytes:
        """The message's own bytes."""
        if isinstance(self.body_base64, bytes):
            return self.body_base64
        return b"" if self.body is msgspec.UNSET else bytes(self.body)


class Head(msgspec.Struct, frozen=True):
    """The part of a line that the sender needs; the rest is skipped unread."""

    id: str
    destination: str
    producer: int = 0
    key: str = ""
    idempotency_key: str = ""
    event: tuple[str, ...] = ()

    @property
    def may_repeat_another(self) -> bool:
        """Whether a receiver may answer with the id of an earlier message with the same idempotency key or event."""
        return bool(self.idempotency_key or self.event)


_decoder: Final = msgspec.json.Decoder(Line)
_head_decoder: Final = msgspec.json.Decoder(Head)


def encode_line(line: Line) -> bytes:
    """Return the line without its end; it has no line break inside."""
    return _encode(line)


def decode_line(payload: bytes) -> Line:
    """Undo ``encode_line``; raises ``msgspec.DecodeError`` when the bytes are something else."""
    return _decoder.decode(payload)


def decode_head(payload: bytes) -> Head:
    """Read id and destination; raises ``msgspec.DecodeError`` when the bytes are not a line."""
    return _head_decoder.decode(payload)


class Content(NamedTuple):
    """A message's bytes and their type; ``is_json`` says that the bytes are one JSON value without line breaks."""

    body: bytes
    content_type: str
    is_json: bool


def content_of(message: Any, content_type: str | None) -> Content:
    """Convert a message to bytes: bytes unchanged, str as UTF-8, anything else as JSON.

    Raises
    ------
    InvalidMessage
        It cannot be JSON, or the text cannot be UTF-8; ``WrongType`` where that is for its type.
    """
    if isinstance(message, (bytes, bytearray, memoryview)):
        return Content(bytes(message), content_type or _BINARY, is_json=False)
    try:
        if isinstance(message, str):
            return Content(message.encode(), content_type or _TEXT, is_json=False)
        body = _encode(message)
    except (TypeError, ValueError, RecursionError) as error:
        kind = WrongType if isinstance(error, TypeError) else InvalidMessage
        raise kind(f"the message is neither bytes, text nor JSON: {error}", hint=_ENCODE, field="body") from error
    # The encoder writes null for a number that JSON does not have, and only then is the message looked through.
    if _NULL in body and not _is_finite(msgspec.to_builtins(message)):
        raise InvalidMessage("the message has NaN or an infinite number, and JSON none", hint=_ENCODE, field="body")
    return Content(body, content_type or _JSON, is_json=True)


def _is_finite(value: Any) -> bool:
    """Whether all numbers of a value of built-in types are finite; not recursive, since a message may be deep."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, float) and not math.isfinite(one):
            return False
        if isinstance(one, dict):
            left += one.values()
        elif isinstance(one, (list, tuple, set, frozenset)):
            left += one
    return True


def text_of(value: str | None, field: str, check: Callable[[str, str], str] = check_text) -> str:
    """Return the value as a receiver takes it, empty for none; raises ``InvalidMessage``, ``field`` naming it."""
    return "" if value is None else check(typed(value, str, field), field)


def typed(value: Any, kind: type[Kind], field: str) -> Kind:
    """Return a value that is of a type; raises ``WrongType``, ``field`` naming it."""
    if not isinstance(value, kind):
        raise wrong_type(field, kind.__name__, value)
    return value


def wrong_type(field: str, wanted: str, value: Any, *, of: str = "") -> WrongType:
    """Return the error of a value that is of another type; the value itself, which may be secret, is not in it."""
    return WrongType(f"{of or field}: expected {wanted}, got {type(value).__name__}", field=field)


def id_of(value: str | None) -> str:
    """Return the id that the caller gave as it is written, empty for none; raises ``InvalidMessage``."""
    if value is None:
        return ""
    try:
        return parse_id(typed(value, str, "id"))
    except ValueError as error:
        raise InvalidMessage(f"id is no UUID of version 7: {value!r:.100}", hint="leave it out", field="id") from error


class Headers(NamedTuple):
    """A message's own headers, apart from the trace context that was given among them."""

    own: dict[str, str]
    traceparent: str
    tracestate: str


def split_headers(headers: Mapping[str, str] | None) -> Headers:
    """Check headers and take the trace context out of them; without one, that of the current span, if any.

    Raises
    ------
    InvalidMessage
        A name or value cannot be delivered, or the name is one of the bus's own.
    """
    own: dict[str, str] = {}
    trace = dict.fromkeys(_TRACE, "")
    if headers is not None and not isinstance(headers, Mapping):
        raise wrong_type("headers", "a mapping of names to texts", headers)
    for name, value in (headers or {}).items():
        for text, of in ((name, "a name in headers"), (value, f"header {name}")):
            if not isinstance(text, str):
                raise wrong_type("headers", "str", text, of=of)
        if name.lower() in trace:
            trace[name.lower()] = text_of(value, name.lower(), check_ascii)
        else:
            own[name] = value
    try:
        check_headers(own)
    except ValueError as error:
        raise InvalidMessage(f"headers: {error}", field="headers") from error
    if not trace["traceparent"]:
        return Headers(own, *_current_span())
    return Headers(own, trace["traceparent"], trace["tracestate"])


def _current_span() -> tuple[str, str]:
    """Return the W3C trace context of OpenTelemetry's current span; one can only exist when the API was imported."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return "", ""
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return "", ""
    state = span.trace_state.to_header()
    # A state that is too long is left out, as W3C Trace Context allows; a message never fails for it.
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}", (
        state if len(state) <= LONGEST_TEXT else ""
    )


def check_deliver_at(moment: datetime | str | None) -> str:
    """Return the time as RFC 3339 in UTC, empty for none; raises ``InvalidMessage`` for one without a zone."""
    if moment is None:
        return ""
    if not isinstance(moment, (datetime, str)):
        raise wrong_type("deliver_at", "datetime or str", moment)
    text = moment.isoformat() if isinstance(moment, datetime) else moment
    try:
        return format_time(parse_time(text))
    except (ValueError, OverflowError) as error:
        raise InvalidMessage(
            f"deliver_at is not a time: {error}",
            hint="such as datetime.now(UTC) + timedelta(hours=1)",
            field="deliver_at",
        ) from error
