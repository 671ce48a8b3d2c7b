"""A road between the receiver and the dispatcher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bus.domain.destination import Destination
from bus.domain.message import Message


class Outgoing(NamedTuple):
    """A message to publish, and its encoded form, so that a road that needs only bytes does not encode again."""

    message: Message
    payload: bytes


class Incoming(NamedTuple):
    """A message that a road delivers to one subscription.

    ``token`` is the road's own; ``suspect`` means that it may have been delivered before a crash or a takeover.
    """

    message: Message
    token: object
    suspect: bool


class Lag(NamedTuple):
    """What a road still holds for a subscription: how many, and since when (``received_at`` of the oldest, ms)."""

    records: int
    oldest: int | None


class Consumer(Protocol):
    """One subscription's end of a road."""

    async def receive(self, limit: int) -> list[Incoming]:
        """Wait for messages and return at least one, at most ``limit``; cancelling loses none."""
        ...

    def ack(self, incoming: Sequence[Incoming]) -> None:
        """Finish messages, in any order; an ack lost in a crash brings its message again. May be called twice."""
        ...

    def release(self, incoming: Sequence[Incoming]) -> None:
        """Give messages back undelivered; they come again."""
        ...

    async def close(self) -> None:
        """Make acks durable as far as the road answers, release what is held, and leave."""
        ...


class Transport(Protocol):
    """A broker, or none."""

    @property
    def name(self) -> str:
        """The name that destinations use."""
        ...

    async def ensure(self, destination: Destination, subscriptions: Sequence[str]) -> None:
        """Make the destination's topic and a queue for each subscription, from the next message on; idempotent."""
        ...

    async def remove(self, destination: str, subscription: str) -> None:
        """Delete a subscription's queue with what it holds; idempotent."""
        ...

    async def publish(self, batch: Sequence[Outgoing]) -> list[bool]:
        """Publish messages and say for each, in order, whether the road confirmed that it holds it durably.

        False is either refused or unknown; publishing again is allowed and may repeat. Never raises for the
        network; every wait has a deadline.
        """
        ...

    async def consume(self, destination: str, subscription: str) -> Consumer:
        """Return the subscription's consumer; reconnects for ever by itself."""
        ...

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        """Return what the road holds for each (destination, subscription); None while it cannot be asked."""
        ...

    async def close(self) -> None:
        """Leave the road."""
        ...
