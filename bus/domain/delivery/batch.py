"""Several messages in one POST: its body, its headers, and the result of each in the answer (docs/subscribers.md)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from bus.domain.delivery.delivery import BatchMark
from bus.domain.delivery.request import SIGNATURE, trace_headers
from bus.domain.json_bodies import is_json, read_json
from bus.domain.message import Message
from bus.domain.subscription import BatchFormat
from bus.domain.times import format_time
from bus.domain.tracing.context import TraceContext

BATCH_BYTES: Final = 2**20
"""Bodies and own headers of the messages of one POST have at most so many bytes, unless it is a single message."""
LISTED: Final = "the subscriber listed it as failed"
COUNT: Final = "bus-batch"
_CUT_OFF: Final = "the answer was cut off or is too long, so that it is not known what the subscriber listed as failed"
_UNREADABLE: Final = (
    "the answer is encoded, or begins as a JSON object that is broken, so that it is not known which it lists as failed"
)
_NO_LIST: Final = "failed in the answer is no list of ids, so that it is not known which"
_ENCODED: Final = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # no text in an encoding of bytes
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_SPACED: Final = bytes.maketrans(b"\r\n", b"  ")
# What some readers of lines take for their end, and JSON allows in a string as it is.
_ESCAPED: Final = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))


_CONTENT_TYPES: Final = {BatchFormat.NDJSON: "application/x-ndjson", BatchFormat.JSON: "application/json"}


class _Entry(msgspec.Struct, omit_defaults=True):
    """One message of a batch, in the names in which a producer may send it."""

    id: str
    attempt: int
    destination: str
    content_type: str
    biz_id: str = ""
    key: str = ""
    routing_key: str = ""
    source: str = ""
    sent_at: str = ""
    received_at: str = ""
    headers: dict[str, str] = {}
    traceparent: str = ""
    tracestate: str = ""
    replay: str = ""
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    body_base64: bytes | msgspec.UnsetType = msgspec.UNSET


_encode: Final = msgspec.json.Encoder().encode
_parse: Final = msgspec.json.Decoder().decode


def size_in_batch(message: Message) -> int:
    """Return the bytes that a message counts for in ``BATCH_BYTES``."""
    size = len(message.body)
    if message.headers:
        size += sum(len(name) + len(value) for name, value in message.headers.items())
    return size


def batch_entry(message: Message, attempt: int, context: TraceContext | None = None) -> bytes:
    """Return one message as a JSON object on one line; ``context`` replaces the trace context of the message.

    A body whose content type is JSON is in it as it was sent, but for line ends between its tokens, which are spaces;
    any other, also one that only says that it is JSON, is in base64.
    """
    body = _json_line(message)
    line = _encode(
        _Entry(
            id=message.id,
            attempt=attempt,
            destination=message.destination,
            content_type=message.content_type,
            biz_id=message.biz_id,
            key=message.key,
            routing_key=message.routing_key,
            source=message.source,
            sent_at=format_time(message.sent_at) if message.sent_at else "",
            received_at=format_time(message.received_at) if message.received_at else "",
            headers=message.headers,
            traceparent=context.traceparent if context is not None else message.traceparent,
            tracestate=_state(message, context),
            replay=message.replay,
            body=msgspec.UNSET if body is None else msgspec.Raw(body),
            body_base64=message.body if body is None else msgspec.UNSET,
        )
    )
    if not line.isascii():
        for plain, escaped in _ESCAPED:
            line = line.replace(plain, escaped)
    return line


def _state(message: Message, context: TraceContext | None) -> str:
    if context is not None:
        return context.state
    return message.tracestate if message.traceparent else ""


def batch_body(entries: Sequence[bytes], written: BatchFormat) -> bytes:
    """Return the body of a POST."""
    if written is BatchFormat.JSON:
        return b"[" + b",\n".join(entries) + b"]"
    return b"\n".join(entries) + b"\n"


def batch_headers(
    mark: BatchMark, written: BatchFormat, now: int, signature: str, context: TraceContext | None = None
) -> list[tuple[str, str]]:
    """Return the headers of a POST beside the constant ones.

    Parameters
    ----------
    now
        Milliseconds since the epoch.
    signature
        Empty for none.
    context
        That of the POST's span, where it has one.
    """
    headers = [
        ("content-type", _CONTENT_TYPES[written]),
        ("webhook-id", mark.id),
        ("webhook-timestamp", str(now // 1000)),
        (COUNT, str(mark.size)),
    ]
    if signature:
        headers.append((SIGNATURE, signature))
    return headers if context is None else headers + trace_headers(context)


class BatchAnswer(NamedTuple):
    """Results of the messages of a batch in a 2xx answer.

    Attributes
    ----------
    failed
        The ids that it lists as failed.
    unclear
        Why it cannot be known which it lists; then all have failed.
    """

    failed: Collection[str] = ()
    unclear: str = ""

    def error_of(self, message_id: str) -> str:
        """Return why a message is to be tried again; empty when it was delivered."""
        return self.unclear or (LISTED if message_id in self.failed else "")


def read_batch_answer(body: bytes, *, is_whole: bool) -> BatchAnswer:
    """Read the body of a 2xx: ``{"failed": [id, ...]}`` names what failed, and any other text nothing.

    A message counts as delivered only when it is known that it was not listed: nothing is delivered of a batch whose
    answer was cut off or is longer than what is read, is compressed, begins as an object and cannot be read, or has
    something else than a list of ids.

    Parameters
    ----------
    body
        The first bytes of it, as many as are kept.
    is_whole
        Whether the subscriber sent its body to the end, and these are all.
    """
    if not is_whole:
        return BatchAnswer(unclear=_CUT_OFF)
    try:
        answer = read_json(body)
    except ValueError:
        is_object = body.lstrip().removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"{")
        return BatchAnswer(unclear=_UNREADABLE if is_object or _ENCODED.search(body) else "")
    if not isinstance(answer, dict) or "failed" not in answer:
        return BatchAnswer()
    failed = answer["failed"]
    if not isinstance(failed, list) or not all(isinstance(one, str) for one in failed):
        return BatchAnswer(unclear=_NO_LIST)
    return BatchAnswer(frozenset(failed))


def _json_line(message: Message) -> bytes | None:
    """Return a body that is JSON by its content type and in fact, on one line; None for any other."""
    if not is_json(message.content_type):
        return None
    try:
        _parse(message.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return message.body.translate(_SPACED)
