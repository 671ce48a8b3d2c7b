"""Spans that wait in memory: recording one costs a message a microsecond or two, and a queue that is full drops it."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from typing import Final

from bus.domain.delivery.delivery import Delivery
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.domain.tracing import spans as spans_of
from bus.domain.tracing.context import Sampler, TraceContext, span_of
from bus.domain.tracing.spans import PostSummary, Span, StartedSpan
from bus.localized_text import AnyText
from bus.ports.clock import Clock
from bus.telemetry import metrics

MOST_SPANS: Final = 20_000
BATCH_SPANS: Final = 1000
"""So many go in one request."""


class SpanRecorder:
    """Records the spans of a process, as a ``bus.ports.spans.Spans``; its exporter takes them.

    Parameters
    ----------
    most
        Spans that wait at most; what comes beyond is dropped. One takes about half a kilobyte.

    Attributes
    ----------
    full
        Set when there are enough for a request.
    trouble
        Why spans are not taken now, as their exporter says; empty when they are.
    """

    is_on = True

    def __init__(self, sampler: Sampler, clock: Clock, *, most: int = MOST_SPANS) -> None:
        self._sampler = sampler
        self._clock = clock
        self._most = most
        self._waiting: deque[Span] = deque()
        self.full = asyncio.Event()
        self.trouble: AnyText = ""
        self._dropped = metrics.SPANS_DROPPED.labels("full")

    def __len__(self) -> int:
        return len(self._waiting)

    def accepted(self, message: Message) -> None:
        """Record it, unless its trace is not sampled."""
        parent = self._sampler.parent_of(message)
        if parent is not None:
            self._add(spans_of.received(message, parent, self._clock.now()))

    def published(self, message: Message, transport: str, *, confirmed: bool, started: int) -> None:
        """Record it, unless its trace is not sampled."""
        parent, now = self._sampler.parent_of(message), self._clock.now()
        if parent is not None:
            self._add(spans_of.published(message, parent, transport, started, now, confirmed=confirmed))

    def handed(self, delivery: Delivery, started: int) -> None:
        """Record it, unless its trace is not sampled."""
        parent = self._sampler.parent_of(delivery.message)
        if parent is not None:
            self._add(spans_of.handed(delivery, parent, started, self._clock.now()))

    def begin(self, message: Message) -> StartedSpan | None:
        """Return the span of a message's POST, if its trace is sampled."""
        parent = self._sampler.parent_of(message)
        return spans_of.begun(message, parent, new_span_id()) if parent is not None else None

    def begin_batch(self, messages: Sequence[Message]) -> StartedSpan | None:
        """Return the span of a POST, in a trace of its own, if the trace of any message is sampled."""
        places = [self._place(message) for message in messages]
        if not any(places):
            return None
        return StartedSpan(TraceContext(f"{random.getrandbits(128):032x}", new_span_id()), "", places)

    def posted(self, begun: StartedSpan, subscription: Subscription, what: PostSummary, message_id: str = "") -> None:
        """Record a POST that was begun here."""
        if message_id:
            self._add(spans_of.posted(begun, subscription, what, message_id))
        else:
            self._add(spans_of.posted_batch(begun, subscription, what))

    def take(self, most: int) -> list[Span]:
        """Return the first of what waits, which is the caller's then."""
        waiting = self._waiting
        return [waiting.popleft() for _ in range(min(most, len(waiting)))]

    def put_back(self, spans: Sequence[Span]) -> None:
        """Have spans wait again that were taken and not sent."""
        self._waiting.extendleft(reversed(spans))

    def drop(self) -> int:
        """Give up what waits; return how many there were."""
        count = len(self._waiting)
        self._waiting.clear()
        return count

    def _place(self, message: Message) -> TraceContext | None:
        """Return the span in which a message was received."""
        parent = self._sampler.parent_of(message)
        if parent is None:
            return None
        return TraceContext(parent.trace_id, span_of(message.id), parent.flags, parent.state)

    def _add(self, span: Span) -> None:
        waiting = len(self._waiting)
        if waiting >= self._most:
            self._dropped.inc()
            return
        self._waiting.append(span)
        if waiting + 1 == BATCH_SPANS:
            self.full.set()


def new_span_id() -> str:
    """Return the id of a span that nobody can know beforehand; it is no secret."""
    return f"{random.getrandbits(64) or 1:016x}"
