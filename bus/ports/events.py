"""The sink of trace events. They never delay a message: events that cannot be passed on are lost, and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from bus.domain.tracing.events import TraceEvent


class SealedBlock(NamedTuple):
    """An encoded block.

    Attributes
    ----------
    emitter
        Process that wrote it; the blocks of one emitter stay in order.
    line
        One line of JSON without its end.
    stages
        How many events of each stage are in it.
    """

    emitter: str
    line: bytes
    stages: Mapping[str, int]


class Events(Protocol):
    """Reports trace events of a process."""

    @property
    def is_on(self) -> bool:
        """Whether events are recorded."""
        ...

    def emit(self, event: TraceEvent) -> None:
        """Take an event; returns at once and never raises. An event beyond the capacity is counted as lost."""
        ...

    async def forward(self, blocks: Sequence[SealedBlock]) -> None:
        """Pass on blocks of other emitters as they are; the sink has them when this returns. May be repeated.

        Raises
        ------
        EventsUnavailable
            The sink does not take them now; whether it has some of them is open.
        """
        ...


class EventSink(Protocol):
    """Storage of closed blocks of events."""

    async def write(self, blocks: Sequence[SealedBlock]) -> None:
        """Take blocks, in order; readers find each whole or not at all. One call at a time; may be repeated.

        Has no deadline: the caller needs its own. After a cancellation or a failure blocks may have been taken or not.

        Raises
        ------
        EventsUnavailable
            The blocks are not taken now: the disk is full or failed, or a broker is unreachable.
        """
        ...

    async def tend(self) -> None:
        """Do the periodic work, every second or so; never raises for the disk or the network."""
        ...

    async def close(self) -> None:
        """Release all resources, within a deadline; events taken before are readable afterwards."""
        ...
