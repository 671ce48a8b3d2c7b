"""The exporter of spans, for traces that begin before the bus and end behind it. It never delays a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from bus.domain.delivery.delivery import Delivery
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.domain.tracing.spans import PostSummary, StartedSpan


class Spans(Protocol):
    """Records spans of the messages that a process handled; every call returns at once and never raises.

    Spans beyond the capacity are dropped and counted. Times are in milliseconds since the epoch.
    """

    @property
    def is_on(self) -> bool:
        """Whether spans are recorded."""
        ...

    def accepted(self, message: Message) -> None:
        """Record that a message is durable at a receiver."""
        ...

    def published(self, message: Message, transport: str, *, confirmed: bool, started: int) -> None:
        """Record that a broker took a message, or did not."""
        ...

    def handed(self, delivery: Delivery, started: int) -> None:
        """Record that a compensator handed a delivery to a dispatcher, or published a message (no subscription)."""
        ...

    def begin(self, message: Message) -> StartedSpan | None:
        """Return the span of a POST of one message; None when it is not recorded."""
        ...

    def begin_batch(self, messages: Sequence[Message]) -> StartedSpan | None:
        """Return the span of a POST of several messages; None when none of them is recorded."""
        ...

    def posted(self, begun: StartedSpan, subscription: Subscription, what: PostSummary, message_id: str = "") -> None:
        """Record the result of a POST, of one message by its id, else of a batch."""
        ...


class NoSpans:
    """Discards all spans: for a process without a collector."""

    is_on = False

    def accepted(self, message: Message) -> None:
        """Forget it."""

    def published(self, message: Message, transport: str, *, confirmed: bool, started: int) -> None:
        """Forget it."""

    def handed(self, delivery: Delivery, started: int) -> None:
        """Forget it."""

    def begin(self, message: Message) -> StartedSpan | None:  # noqa: ARG002 - the port has it
        """Return none."""
        return None

    def begin_batch(self, messages: Sequence[Message]) -> StartedSpan | None:  # noqa: ARG002 - the port has it
        """Return none."""
        return None

    def posted(self, begun: StartedSpan, subscription: Subscription, what: PostSummary, message_id: str = "") -> None:
        """Forget it."""


NO_SPANS: Final = NoSpans()
