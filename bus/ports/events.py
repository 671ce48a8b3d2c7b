"""The sink of trace events. They never hold up a message: what cannot be passed on is lost, and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from bus.domain.tracing.events import TraceEvent


class SealedBlock(NamedTuple):
    """An encoded block.

    Attributes
    ----------
    emitter
        Whose it is; the blocks of one emitter stay in order.
    line
        One line of JSON without its end.
    stages
        How many events of each stage are in it.
    """

    emitter: str
    line: bytes
    stages: Mapping[str, int]


class Events(Protocol):
    """A process's way to tell of messages."""

    @property
    def is_on(self) -> bool:
        """Whether what is told goes anywhere."""
        ...

    def emit(self, event: TraceEvent) -> None:
        """Take an event; returns at once and never raises. What there is no room for is counted as lost."""
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
    """Where closed blocks rest."""

    async def write(self, blocks: Sequence[SealedBlock]) -> None:
        """Take blocks, in order; readers find each whole or not at all. One call at a time; may be repeated.

        May take for ever: who calls waits beside it. Cancelled, or failed, it leaves open whether blocks were taken.

        Raises
        ------
        EventsUnavailable
            They are not taken now: the disk is full or failed, a broker is away.
        """
        ...

    async def tend(self) -> None:
        """Do what is due by the clock, every second or so; never raises for the disk or the network."""
        ...

    async def close(self) -> None:
        """Let go of everything, within a deadline; what was taken is readable afterwards."""
        ...
