"""Spans of the operations on a message, in the terms of OpenTelemetry's semantic conventions (docs/tracing.md).

A message's trace has one span in which it was received; what the bus does with it later is below that one. Its id is a
part of the message's id, so that nothing has to travel for it.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from bus.domain.delivery.delivery import Attempt, Delivery
from bus.domain.delivery.verdict import Answer
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.domain.tracing.context import TraceContext, span_of

SYSTEM: Final = "pier"
MESSAGE_ID: Final = "messaging.message.id"
SIZE: Final = "messaging.message.body.size"
Value = str | int
Pairs = tuple[tuple[str, Value], ...]
_SHAPES: Final = 4096
_PORTS: Final = {"http": 80, "https": 443}
_LONGEST: Final = 200
_UNCONFIRMED: Final = (("error.type", "unconfirmed"),)


class SpanKind(enum.IntEnum):
    """Kind of a span; the numbers are those of OTLP."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


@dataclass(frozen=True, eq=False)
class Shape:
    """Common part of all spans of one place in the bus; the same object each time, as long as it is in use."""

    name: str
    kind: SpanKind
    attributes: Pairs


class Span(msgspec.Struct, frozen=True, gc=False):
    """An operation of the bus, with its time.

    Attributes
    ----------
    trace_id, span_id, parent_id
        In hexadecimal; no parent for the root of a trace, and no id of its own where no other span refers to it.
    state, flags
        As W3C has them.
    started_at, duration
        Milliseconds since the epoch, and milliseconds.
    message_id, size
        Of the message and of its body; empty for several, and -1 where it is not recorded.
    own
        Attributes beside those of the shape.
    error
        Why it failed; empty when it did not.
    links
        Related spans of other traces.
    """

    shape: Shape
    trace_id: str
    span_id: str
    parent_id: str
    state: str
    flags: int
    started_at: int
    duration: float
    message_id: str
    size: int = -1
    own: Pairs = ()
    error: str = ""
    links: Sequence[TraceContext] = ()


class StartedSpan(NamedTuple):
    """The span of a POST that is to be made.

    Attributes
    ----------
    context
        The context of the span itself, which is sent to the subscriber.
    parent_id
        The span above; empty for a batch, which is a trace of its own.
    messages
        Of a batch, for each message the span in which it was received; None where that is not recorded.
    """

    context: TraceContext
    parent_id: str = ""
    messages: Sequence[TraceContext | None] = ()


class PostSummary(NamedTuple):
    """Result of a POST.

    Attributes
    ----------
    attempts
        For each message its attempt.
    statuses
        For each message the status of its delivery since; empty for a probe without an answer.
    answer
        To the POST as a whole.
    failure
        Why there is no answer, in a word.
    """

    attempts: Sequence[Attempt]
    statuses: Sequence[str]
    answer: Answer
    failure: str = ""


def received(message: Message, parent: TraceContext, now: int) -> Span:
    """Return the span in which a message became durable at a receiver, by now (ms)."""
    return Span(
        _receiving(message.destination, message.source),
        parent.trace_id,
        span_of(message.id),
        parent.span_id,
        parent.state,
        parent.flags,
        message.received_at,
        now - message.received_at,
        message.id,
        len(message.body),
    )


def published(
    message: Message, parent: TraceContext, transport: str, started: int, now: int, *, confirmed: bool
) -> Span:
    """Return the span in which a transport took a message, or refused it (ms)."""
    return Span(
        _publishing(message.destination, transport),
        parent.trace_id,
        "",
        span_of(message.id),
        parent.state,
        parent.flags,
        started,
        now - started,
        message.id,
        len(message.body),
        () if confirmed else _UNCONFIRMED,
        "" if confirmed else f"{transport} did not confirm it",
    )


def handed(delivery: Delivery, parent: TraceContext, started: int, now: int) -> Span:
    """Return the span in which a compensator passed on a delivery, or a message at its due time (ms)."""
    return Span(
        _compensating(delivery.message.destination, delivery.subscription),
        parent.trace_id,
        "",
        span_of(delivery.message.id),
        parent.state,
        parent.flags,
        started,
        now - started,
        delivery.message.id,
        -1,
        (("pier.attempts", delivery.attempts), ("pier.origin", str(delivery.by))),
    )


def begun(message: Message, parent: TraceContext, span_id: str) -> StartedSpan:
    """Return the span of a message's POST, below the one in which it was received."""
    return StartedSpan(TraceContext(parent.trace_id, span_id, parent.flags, parent.state), span_of(message.id))


def posted(one: StartedSpan, subscription: Subscription, what: PostSummary, message_id: str) -> Span:
    """Return the span of a message's POST, with its result."""
    attempt = what.attempts[0]
    own = (*_answered(what), ("pier.attempt", attempt.n), ("pier.origin", str(attempt.by)))
    if attempt.n > 1:
        own = (*own, ("http.request.resend_count", attempt.n - 1))
    return _posted(one, subscription, what, message_id, (*own, ("pier.outcome", what.statuses[0])), _error(what))


def posted_batch(one: StartedSpan, subscription: Subscription, what: PostSummary) -> Span:
    """Return the span of a POST of several messages; it is linked with each of theirs."""
    mark, size = what.attempts[0].batch, len(what.attempts)
    failed = sum(status != "delivered" for status in what.statuses)
    own = (*_answered(what), ("messaging.batch.message_count", size), ("pier.failed", failed))
    if mark is not None:
        own = (*own, ("pier.batch", mark.id))
    error = _error(what) or (f"{failed} of {size} were not taken" if failed else "")
    span = _posted(one, subscription, what, "", own, error)
    return msgspec.structs.replace(span, links=[link for link in one.messages if link])


def _posted(
    one: StartedSpan, subscription: Subscription, what: PostSummary, message_id: str, own: Pairs, error: str
) -> Span:
    context, attempt = one.context, what.attempts[0]
    return Span(
        _delivering(subscription.destination, subscription.name, subscription.url),
        context.trace_id,
        context.span_id,
        one.parent_id,
        context.state,
        context.flags,
        attempt.started_at,
        attempt.duration,
        message_id,
        -1,
        own,
        error,
    )


def _answered(what: PostSummary) -> Pairs:
    status = what.answer.status
    if status is None:
        return (("error.type", what.failure or "_OTHER"),)
    if what.answer.succeeded:
        return (("http.response.status_code", status),)
    return ("http.response.status_code", status), ("error.type", str(status))


def _error(what: PostSummary) -> str:
    return "" if what.answer.succeeded else what.answer.reason[:_LONGEST]


@lru_cache(_SHAPES)
def _receiving(destination: str, source: str) -> Shape:
    own = (("pier.source", source),) if source else ()
    return _shape("receive", "receive", SpanKind.CONSUMER, destination, destination, own)


@lru_cache(_SHAPES)
def _publishing(destination: str, transport: str) -> Shape:
    return _shape("publish", "send", SpanKind.PRODUCER, destination, destination, (("pier.transport", transport),))


@lru_cache(_SHAPES)
def _compensating(destination: str, subscription: str) -> Shape:
    own = (("messaging.destination.subscription.name", subscription),) if subscription else ()
    name = f"{destination}/{subscription}" if subscription else destination
    return _shape("compensate", "", SpanKind.INTERNAL, name, destination, own)


@lru_cache(_SHAPES)
def _delivering(destination: str, subscription: str, url: str) -> Shape:
    own = (("messaging.destination.subscription.name", subscription), ("http.request.method", "POST"), *_where(url))
    return _shape("deliver", "process", SpanKind.CLIENT, f"{destination}/{subscription}", destination, own)


def _shape(operation: str, kind_of: str, kind: SpanKind, whom: str, destination: str, own: Pairs) -> Shape:
    common = (
        ("messaging.system", SYSTEM),
        ("messaging.operation.name", operation),
        *((("messaging.operation.type", kind_of),) if kind_of else ()),
        ("messaging.destination.name", destination),
    )
    return Shape(f"{operation} {whom}", kind, common + own)


def _where(url: str) -> Pairs:
    """Return the attributes of a URL and its server, without the query, which may contain a secret."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return ()
    query = "?REDACTED" if parts.query else ""
    full = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{query}"
    return ("url.full", full), ("server.address", parts.hostname or ""), ("server.port", port)
