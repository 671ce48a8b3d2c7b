"""No trace events, for those who do not want any."""

from __future__ import annotations

from collections.abc import Sequence

from bus.domain.tracing.events import TraceEvent
from bus.errors import EventsUnavailable
from bus.ports.events import SealedBlock


class NoEvents:
    """Takes events and forgets them."""

    is_on = False

    def emit(self, event: TraceEvent) -> None:
        """Forget it."""

    async def forward(self, blocks: Sequence[SealedBlock]) -> None:  # noqa: ARG002 - the port has it
        """Refuse, so that whoever has them does not take them for kept."""
        raise EventsUnavailable("this process keeps no trace events", hint="set events to files or kafka", status=404)
