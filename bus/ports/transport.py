"""Transports, which carry messages from the receiver to the dispatcher."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from bus.domain.delivery.receipt import Receipt
from bus.domain.destination import Destination
from bus.domain.health.progress import Progress
from bus.domain.lanes import STORE, destination_of
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.localized_text import AnyText
from bus.ports.spool import ConsumerStats, Spool


class OutgoingMessage(NamedTuple):
    """A message to publish, and its encoded form, so that a transport that needs only bytes does not encode again."""

    message: Message
    payload: bytes


class IncomingMessage(NamedTuple):
    """A message that a transport delivers to one subscription.

    ``token`` is the transport's own; ``suspect`` means that it may have been delivered before a crash or a takeover;
    ``receipt`` is the broker's receipt, for its trace.
    """

    message: Message
    token: object
    suspect: bool
    receipt: Receipt | None = None


class Lag(NamedTuple):
    """Backlog of a transport for one subscription.

    ``records`` waiting or in flight; ``oldest`` the ``received_at`` (ms) below which it holds none for sure, None
    when it holds nothing.
    """

    records: int
    oldest: int | None


def queue_lags(waiting: Iterable[ConsumerStats]) -> dict[tuple[str, str], Lag]:
    """Return the backlog of a direct queue for each (destination, subscription), over all streams of a destination."""
    found: dict[tuple[str, str], Lag] = {}
    for one in waiting:
        if one.consumer != STORE:
            key = destination_of(one.lane), one.consumer
            before = found.get(key, Lag(0, None))
            times = [time for time in (before.oldest, one.oldest) if time is not None]
            found[key] = Lag(before.records + one.records, min(times, default=None))
    return found


class Consumer(Protocol):
    """One subscription's end of a transport."""

    async def receive(self, limit: int) -> list[IncomingMessage]:
        """Wait for messages and return at least one, at most ``limit``; cancelling loses none.

        Waits through any trouble of the network or the broker; never raises for it.
        """
        ...

    def ack(self, incoming: Sequence[IncomingMessage]) -> None:
        """Finish messages, in any order; an ack lost in a crash brings its message again. May be called twice.

        A message whose connection or partition was lost meanwhile belongs to another consumer by now: the only effect
        is that this consumer may finish it when it gets it again.
        """
        ...

    def release(self, incoming: Sequence[IncomingMessage]) -> None:
        """Give messages back undelivered; they come again, to this consumer or another one."""
        ...

    async def close(self) -> None:
        """Make acks durable if the transport answers, release held messages, disconnect; has its own deadline."""
        ...


class Publisher(Protocol):
    """Publisher of messages to a transport.

    Every wait has a deadline. ``run`` must be running for anything else to work.
    """

    @property
    def name(self) -> str:
        """The name that destinations use."""
        ...

    def check(self, destination: Destination) -> None:
        """Raise ``InvalidDestination`` when this transport cannot name or carry the destination; costs no network."""
        ...

    async def run(self) -> None:
        """Keep connections, watches and figures up until cancelled; never returns or raises for the network."""
        ...

    async def publish(self, batch: Sequence[OutgoingMessage]) -> Sequence[bool | None]:
        """Publish messages and return for each, in order, whether the transport confirmed that it holds it durably.

        False means refused or unknown; publishing again is allowed and may repeat. None means not tried: the transport
        has no capacity for it now, and no failure is reported. Never raises for the network; every wait has a deadline,
        and while the transport is known to be unreachable this returns at once.
        A message for which no queue was ensured is confirmed without being held.
        """
        ...

    def conditions(self) -> dict[str, AnyText]:
        """Return the error of each cluster by name, empty text for a healthy one; {} without a broker."""
        ...

    async def close(self) -> None:
        """Leave the transport; called after ``run`` was cancelled."""
        ...


class Transport(Publisher, Protocol):
    """A broker, or none: published messages are held here for each subscription, and consumed."""

    async def ensure(self, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        """Make the destination's topic and a queue for each subscription, from the next message on; idempotent.

        Durable when it returns: what is published afterwards is held for each of them.

        Raises
        ------
        TransportUnavailable
            The broker does not answer; call again.
        TransportRefused
            Wrong credentials, or an object with other settings has the name; the text has it and the next step.
        """
        ...

    async def remove(self, destination: str, subscription: str) -> None:
        """Delete a subscription's queue with its messages; idempotent; raises as ``ensure`` does."""
        ...

    async def consume(self, destination: str, subscription: str) -> Consumer:
        """Return the subscription's consumer at once; it connects, and reconnects without end, by itself."""
        ...

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        """Return the backlog of each (destination, subscription) that was ensured here.

        Costs no network: ``run`` keeps it current within seconds. None while the broker does not answer.
        """
        ...


@runtime_checkable
class AcceptingTransport(Protocol):
    """A transport whose queue is in this process: a receiver may accept messages directly into it."""

    def queue_of(self, destination: Destination, size: int) -> Spool | None:
        """Return where to accept ``size`` bytes for a destination, in `accepted_lane`; None to publish instead."""
        ...

    def accepted(self, message: Message, position: int) -> None:
        """Keep a message in memory that was accepted into the queue."""
        ...


@runtime_checkable
class ProgressTransport(Protocol):
    """A transport that shows the progress of consumers, also those of other processes."""

    def progress(self) -> Mapping[tuple[str, str], Progress]:
        """Return how each subscription that was ensured here gets on, as far as that can be seen from here.

        Costs no network. What is not known is left out.
        """
        ...


class HeldMessages(NamedTuple):
    """Backlog of a broker for one subscription: waiting, sent and not finished, deferred for a while."""

    waiting: int = 0
    in_flight: int = 0
    deferred: int = 0

    def plus(self, other: HeldMessages) -> HeldMessages:
        """Return both together."""
        return HeldMessages(*(mine + its for mine, its in zip(self, other, strict=True)))


@runtime_checkable
class CountingTransport(Protocol):
    """A transport whose brokers count waiting, unfinished and deferred messages separately."""

    def held(self) -> Mapping[tuple[str, str], HeldMessages]:
        """Return the backlog of each subscription on the brokers that answer; costs no network."""
        ...


@runtime_checkable
class ClusteredTransport(Protocol):
    """A transport with several clusters: one of them is published to, all are consumed."""

    @property
    def clusters(self) -> Sequence[str]:
        """Their names as in ``conditions``, the primary first."""
        ...

    @property
    def active(self) -> str:
        """The one that is published to now."""
        ...

    def prefer(self, cluster: str | None) -> None:
        """Publish to a cluster whenever it is healthy, beginning at once; None for the primary, in its own time.

        Raises
        ------
        ValueError
            There is no such cluster.
        """
        ...
