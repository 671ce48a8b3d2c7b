"""Trace events in memory."""

from __future__ import annotations

from collections.abc import Sequence

from bus.domain.tracing.events import Stage, TraceEvent
from bus.errors import EventsUnavailable
from bus.ports.events import SealedBlock


class MemoryEvents:
    """Keeps what stages tell, as an ``Events``."""

    is_on = True

    def __init__(self) -> None:
        self.told: list[TraceEvent] = []
        self.forwarded: list[SealedBlock] = []
        self.refusal: EventsUnavailable | None = None

    def emit(self, event: TraceEvent) -> None:
        """Keep an event."""
        self.told.append(event)

    async def forward(self, blocks: Sequence[SealedBlock]) -> None:
        """Keep blocks, or raise ``refusal``."""
        if self.refusal is not None:
            raise self.refusal
        self.forwarded += blocks

    def of(self, stage: Stage) -> list[TraceEvent]:
        """Return what a stage told, in order."""
        return [event for event in self.told if event.stage is stage]


class MemorySink:
    """Keeps blocks, as an ``EventSink``."""

    def __init__(self) -> None:
        self.blocks: list[SealedBlock] = []

    async def write(self, blocks: Sequence[SealedBlock]) -> None:
        """Keep blocks."""
        self.blocks += blocks

    async def tend(self) -> None:
        """Nothing is due."""

    async def close(self) -> None:
        """Nothing is held."""
