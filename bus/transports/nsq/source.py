"""The source of a consumer: nodes, topic and mode."""

from __future__ import annotations

from typing import NamedTuple

from bus.transports.nsq.config import Address
from bus.transports.nsq.protocol import commands
from bus.transports.nsq.protocol.commands import SubscribeMode
from bus.transports.nsq.protocol.frames import Form
from bus.transports.nsq.topology import Lane

Place = tuple[Address | None, int | None]
"""An nsqd, a partition, or a partition that is bound to an nsqd."""


class Source(NamedTuple):
    """An nsqd, or a partition at its present leader.

    Attributes
    ----------
    partition
        None to read what the nsqd has of the topic, whole.
    way
        How it is subscribed to.
    is_extended
        Messages may have headers.
    is_fixed
        The partition is one of another cluster than that whose partitions are looked up, and known by its nsqd alone.
    """

    address: Address
    partition: int | None = None
    way: SubscribeMode = SubscribeMode.PLAIN
    is_extended: bool = False
    is_fixed: bool = False

    @property
    def place(self) -> Place:
        """The part that stays the same when another nsqd leads the partition."""
        return (None if self.partition is not None and not self.is_fixed else self.address), self.partition

    @property
    def is_ordered(self) -> bool:
        """Whether one message comes at a time, the next one once that is finished."""
        return self.way is SubscribeMode.ORDERED

    @property
    def form(self) -> Form:
        """How its messages are written."""
        return Form(self.is_extended, self.way is not SubscribeMode.PLAIN)

    def subscribe(self, lane: Lane) -> bytes:
        """Return the command that subscribes."""
        return commands.sub(lane.topic, lane.channel, self.partition, self.way)

    def __str__(self) -> str:
        """Name it for people."""
        return str(self.address) if self.partition is None else f"{self.address} partition {self.partition}"


def way_of(*, is_ordered: bool, is_traced: bool) -> SubscribeMode:
    """Return how a partition is subscribed to: in order before all, and with each message's place when it is traced."""
    if is_ordered:
        return SubscribeMode.ORDERED
    return SubscribeMode.DETAILED if is_traced else SubscribeMode.PLAIN
