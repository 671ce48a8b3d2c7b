"""Spans as OTLP has them (opentelemetry-proto 1.x, ``ExportTraceServiceRequest``), written as protobuf by hand.

What all spans of a place have in common is encoded once. So a span costs a few microseconds; with generated classes it
costs several times as much (docs/adr/0032).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Final

from bus.domain.tracing.context import TraceContext
from bus.domain.tracing.spans import MESSAGE_ID, SIZE, Shape, Span, Value

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.37.0"
_MILLISECOND: Final = 1_000_000
_FAILED: Final = b"\x18\x02"
_CACHED: Final = 4096
_SEVEN_BITS: Final = 0x7F
_ONE_BYTE: Final = [bytes((number,)) for number in range(128)]
# The tags are field << 3 | wire type: 2 for bytes of a length, 1 for eight bytes, 5 for four, 0 for a varint.
_times = Struct("<BQBQ").pack
_flags = Struct("<BBI").pack


def encode_request(resource: Mapping[str, Value], version: str, spans: Iterable[bytes]) -> bytes:
    """Return the body of a POST: who tells, and encoded spans."""
    scope = _field(b"\x0a", _field(b"\x0a", b"pier") + _field(b"\x12", version.encode()))
    scope_spans = _field(b"\x12", b"".join((scope, *spans, _field(b"\x1a", SCHEMA_URL.encode()))))
    about = b"".join(_field(b"\x0a", _pair(key, value)) for key, value in resource.items())
    return _field(b"\x0a", _field(b"\x0a", about) + scope_spans)


def encode_span(span: Span, span_id: str) -> bytes:
    """Return a span as a field of its scope, by its own id or another one where it has none."""
    start, duration = span.started_at * _MILLISECOND, int(span.duration * _MILLISECOND)
    parent = f"2208{span.parent_id}" if span.parent_id else ""
    parts = [
        bytes.fromhex(f"0a10{span.trace_id}1208{span_id}{parent}"),
        _shaped(span.shape),
        _times(0x39, start, 0x41, start + duration if duration > 0 else start),
        _flagged(span.flags),
    ]
    if span.message_id:
        parts += (_MESSAGE_ID, span.message_id.encode())
    if span.size >= 0:
        parts.append(_sized(span.size))
    if span.own:
        parts += [_attribute(key, value) for key, value in span.own]
    if span.state:
        parts.append(_field(b"\x1a", span.state.encode()))
    if span.links:
        parts += [_field(b"\x6a", _link(link)) for link in span.links]
    if span.error:
        parts.append(_field(b"\x7a", _field(b"\x12", span.error.encode(errors="replace")) + _FAILED))
    body = b"".join(parts)
    return _headed(len(body)) + body


def rejected_of(answer: bytes) -> int:
    """Return how many spans a collector says that it did not take: ``ExportTraceServiceResponse.partial_success``.

    0 for what is no such answer: it says nothing of them.
    """
    try:
        return _number(_message(answer, 0x0A), 0x08)
    except IndexError:
        return 0


# A function of one number is looked up twice as fast as others, and nearly all spans are alike in these.


@lru_cache(_CACHED)
def _headed(size: int) -> bytes:
    return b"\x12" + _varint(size)


@lru_cache(_CACHED)
def _sized(size: int) -> bytes:
    return _field(b"\x4a", _pair(SIZE, size))


@lru_cache(_CACHED)
def _flagged(flags: int) -> bytes:
    return _flags(0x85, 0x01, flags)


@lru_cache(_CACHED)
def _shaped(shape: Shape) -> bytes:
    name, kind = _field(b"\x2a", shape.name.encode()), b"\x30" + _ONE_BYTE[shape.kind]
    return name + kind + b"".join(_field(b"\x4a", _pair(key, value)) for key, value in shape.attributes)


@lru_cache(_CACHED)
def _attribute(key: str, value: Value) -> bytes:
    return _field(b"\x4a", _pair(key, value))


def _pair(key: str, value: Value) -> bytes:
    said = b"\x18" + _varint(value) if isinstance(value, int) else _field(b"\x0a", value.encode(errors="replace"))
    return _field(b"\x0a", key.encode()) + _field(b"\x12", said)


def _link(link: TraceContext) -> bytes:
    state = _field(b"\x1a", link.state.encode()) if link.state else b""
    ids = b"\x0a\x10" + bytes.fromhex(link.trace_id) + b"\x12\x08" + bytes.fromhex(link.span_id)
    return ids + state + b"\x35" + link.flags.to_bytes(4, "little")


def _field(tag: bytes, content: bytes) -> bytes:
    size = len(content)
    return tag + (_ONE_BYTE[size] if size <= _SEVEN_BITS else _varint(size)) + content


def _varint(number: int) -> bytes:
    """Return a number that is not negative in groups of seven bits, the lowest first."""
    found = bytearray()
    while number > _SEVEN_BITS:
        found.append(number & _SEVEN_BITS | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _read_varint(text: bytes, place: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = text[place]
        number |= (byte & _SEVEN_BITS) << shift
        place, shift = place + 1, shift + 7
        if byte <= _SEVEN_BITS:
            return number, place


def _message(text: bytes, tag: int) -> bytes:
    """Return the message that is the first field; empty where something else is."""
    if not text or text[0] != tag:
        return b""
    size, place = _read_varint(text, 1)
    return text[place : place + size]


def _number(text: bytes, tag: int) -> int:
    """Return the number that is the first field; 0 where something else is."""
    return _read_varint(text, 1)[0] if text and text[0] == tag else 0


# A UUID has 36 characters: all lengths are always the same.
_MESSAGE_ID: Final = _field(b"\x4a", _pair(MESSAGE_ID, "x" * 36)).removesuffix(b"x" * 36)
