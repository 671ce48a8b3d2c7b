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
    """State of a broker group for one destination.

    Attributes
    ----------
    is_whole
        Every copy is up and in sync: when any one of them fails, two of a RabbitMQ group's three, or one of a Kafka
        group's two, still have all data.
    is_empty
        No subscription has waiting or unacked messages. False for a group that is not whole: a copy that is down may
        come back with messages.
    """

    is_whole: bool
    is_empty: bool


AWAY = GroupStatus(is_whole=False, is_empty=False)


class GroupWriter(Protocol):
    """Writes to a destination on a group, one message after another."""

    async def write(self, messages: Sequence[Message]) -> int:
        """Write messages in order; return how many, from the first, two copies at least hold for sure.

        Of the others the state of the first is unknown, since the group may hold it, and those behind it were not
        written. After that the writer takes nothing more (returns 0), and the caller needs another writer. Never raises
        for the network, and has a deadline.
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

        The answer is the group's, not from the memory of this process: copies that could still have messages were
        asked, so a group that lacks them is not drained. To be called while nothing is written any more, and nothing
        that was received is unacked. Has a deadline, and costs a round trip or more.
        """
        ...


class BrokerGroup(Protocol):
    """Several brokers that keep a copy each. ``run`` must be running for anything else to work."""

    @property
    def name(self) -> str:
        """Name of the group in chains."""
        ...

    def check(self, destination: Destination) -> None:
        """Raise ``InvalidDestination`` when this group cannot name or carry the destination; costs no network."""
        ...

    async def run(self) -> None:
        """Keep connections and figures up until cancelled; never returns or raises for the network."""
        ...

    async def ensure(self, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        """Create the objects that a destination needs, and a queue for each subscription from the next message on.

        Idempotent.

        Raises
        ------
        TransportUnavailable
            The group does not answer, or a copy that it needs for this is down; call again.
        TransportRefused
            Wrong credentials, or something with other settings has the name, or keeps fewer copies than it must.
        """
        ...

    async def remove(self, destination: str, subscription: str) -> None:
        """Delete a subscription's queue with its messages; idempotent; raises as ``ensure`` does."""
        ...

    async def standing(self, destination: str, subscriptions: Sequence[str]) -> GroupStatus:
        """Return the state of the group, not whole without an answer. Never raises for the network; has a deadline."""
        ...

    async def mark(self, destination: str, known: str = "") -> str:
        """Return a mark of the data of a destination, which is lost if its disks are; durable when it returns.

        The destination must have been ensured. Given a mark that was found there before, return one of the same data,
        which also covers all messages confirmed since, where the broker supports it; never one of data that replaced
        it. Empty when the group does not answer; has a deadline.
        """
        ...

    async def has_mark(self, destination: str, mark: str) -> bool | None:
        """Whether the data of a destination still has a mark; None when the group cannot say so now.

        False only when every copy is there, so that none that has it may come back. Has a deadline.
        """
        ...

    async def writer(self, destination: str) -> GroupWriter:
        """Return a writer; earlier writers of all processes are fenced permanently, where the broker supports it.

        Raises
        ------
        TransportUnavailable
            The group cannot take writes now.
        TransportRefused
            It refuses for a reason that does not pass by itself.
        """
        ...

    async def reader(self, destination: str, subscription: str) -> GroupReader:
        """Return a reader at once; it connects, and reconnects without end, by itself."""
        ...

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        """Return the backlog of each (destination, subscription) that was ensured here, as of some seconds ago.

        None while it does not answer.
        """
        ...

    def condition(self) -> AnyText:
        """Return the error of the group; empty for none."""
        ...

    async def close(self) -> None:
        """Leave; called after ``run`` was cancelled."""
        ...
