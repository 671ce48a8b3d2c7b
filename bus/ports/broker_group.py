"""A group of brokers that keeps copies of what it takes, for destinations with a strict order (docs/ordering.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bus.domain.destination import Destination
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.localized_text import AnyText
from bus.ports.transport import Consumer, Lag


class GroupStatus(NamedTuple):
    """How a group is for a destination.

    Attributes
    ----------
    is_whole
        Every copy is up and in step: when any one of them fails, two of a RabbitMQ group's three, or one of a Kafka
        group's two, still have all.
    is_empty
        No subscription has anything waiting or unacked. Never said of a group that is not whole: what it does not show
        may come back with a copy that is away.
    """

    is_whole: bool
    is_empty: bool


AWAY = GroupStatus(is_whole=False, is_empty=False)


class GroupWriter(Protocol):
    """Writes to a destination on a group, one message after another."""

    async def write(self, messages: Sequence[Message]) -> int:
        """Write messages in order; return how many, from the first, two copies at least hold for sure.

        Of the others the first is unknown, as it may be held, and those behind it were not written. After that the
        writer takes nothing more (0): whoever goes on does so with another one. Never raises for the network, and has
        a deadline.
        """
        ...

    async def close(self) -> None:
        """Leave; has a deadline."""
        ...


class GroupReader(Consumer, Protocol):
    """One subscription's end of a group: messages in the order in which they were written, the unacked ones first.

    Of several readers of a subscription one at most gets messages, also of several processes: the next one gets them
    when the one before was closed, or its broker has missed it for some seconds.
    """

    async def is_drained(self) -> bool:
        """Whether the group has nothing for this subscription that was not received and acked here.

        The group itself says so, not what this process remembers: copies that could still have something were asked, so
        a group that lacks them is not drained. To be asked while nothing is written any more, and nothing that was
        received is unacked. Has a deadline, and costs a round trip or more.
        """
        ...


class BrokerGroup(Protocol):
    """Several brokers that keep a copy each. ``run`` must be running for anything else to work."""

    @property
    def name(self) -> str:
        """The name by which chains know it."""
        ...

    def check(self, destination: Destination) -> None:
        """Raise ``InvalidDestination`` when this group cannot name or carry the destination; costs no network."""
        ...

    async def run(self) -> None:
        """Keep connections and figures up until cancelled; never returns or raises for the network."""
        ...

    async def ensure(self, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        """Make what a destination needs, and a queue for each subscription from the next message on; idempotent.

        Raises
        ------
        TransportUnavailable
            It does not answer, or a copy that it needs for that is away; call again.
        TransportRefused
            Wrong credentials, or something with other settings has the name, or keeps fewer copies than it must.
        """
        ...

    async def remove(self, destination: str, subscription: str) -> None:
        """Delete a subscription's queue with what it holds; idempotent; raises as ``ensure`` does."""
        ...

    async def standing(self, destination: str, subscriptions: Sequence[str]) -> GroupStatus:
        """Ask the group now; what does not answer is not whole. Never raises for the network, and has a deadline."""
        ...

    async def mark(self, destination: str, known: str = "") -> str:
        """Return a mark of the data of a destination, which is gone once its disks are; durable when it returns.

        Of a destination that was ensured. Given a mark that was found there before, return one of the same data, which
        where the broker can tells of all that was confirmed since too; never one of data that came instead. Empty when
        the group does not answer; has a deadline.
        """
        ...

    async def has_mark(self, destination: str, mark: str) -> bool | None:
        """Whether the data of a destination still has a mark; None when the group cannot say so now.

        False only when every copy is there, so that none that has it may come back. Has a deadline.
        """
        ...

    async def writer(self, destination: str) -> GroupWriter:
        """Return a writer; where the broker can, all writers before it are shut out for good, of all processes.

        Raises
        ------
        TransportUnavailable
            The group cannot take writes now.
        TransportRefused
            It refuses for a reason that does not pass by itself.
        """
        ...

    async def reader(self, destination: str, subscription: str) -> GroupReader:
        """Return a reader at once; it connects, and reconnects for ever, by itself."""
        ...

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        """Return what it holds for each (destination, subscription) that was ensured here, as of some seconds ago.

        None while it does not answer.
        """
        ...

    def condition(self) -> AnyText:
        """Return what is wrong with it; empty for nothing."""
        ...

    async def close(self) -> None:
        """Leave; called after ``run`` was cancelled."""
        ...
