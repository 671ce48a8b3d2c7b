"""Where a consumer reads from."""

from __future__ import annotations

from typing import NamedTuple

from bus.transports.nsq.config import Address
from bus.transports.nsq.protocol import commands
from bus.transports.nsq.protocol.frames import Form
from bus.transports.nsq.topology import Lane


class Source(NamedTuple):
    """An nsqd, or a partition where it is led now.

    Attributes
    ----------
    partition
        None to read what the nsqd has of the topic, whole.
    is_ordered
        One message at a time, the next one once that is finished.
    is_extended
        Messages may have headers.
    """

    address: Address
    partition: int | None = None
    is_ordered: bool = False
    is_extended: bool = False

    @property
    def place(self) -> Address | int:
        """What stays the same when another nsqd leads the partition."""
        return self.address if self.partition is None else self.partition

    @property
    def form(self) -> Form:
        """How its messages are written."""
        return Form(self.is_extended, self.is_ordered)

    def subscribe(self, lane: Lane) -> bytes:
        """Return the command that subscribes."""
        return commands.sub(lane.topic, lane.channel, self.partition, is_ordered=self.is_ordered)

    def __str__(self) -> str:
        """Name it for people."""
        return str(self.address) if self.partition is None else f"{self.address} partition {self.partition}"
