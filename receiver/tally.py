"""Counts accepted messages by destination and source."""

from __future__ import annotations

from typing import Any, Final

from bus.domain.message import Message
from bus.telemetry import metrics

_SOURCES: Final = 2000
_OTHER: Final = "(other)"


class Tally:
    """Keeps the counters at hand; producers name their source themselves, so how many names are kept is bounded."""

    def __init__(self) -> None:
        self._counters: dict[tuple[str, str], Any] = {}

    def accepted(self, message: Message) -> None:
        """Count one message."""
        counter = self._counters.get((message.destination, message.source))
        if counter is None:
            counter = self._counter(message.destination, message.source)
        counter.inc()

    def _counter(self, destination: str, source: str) -> Any:
        name = source if len(self._counters) < _SOURCES else _OTHER
        counter = metrics.ACCEPTED.labels(destination, name)
        if name == source:
            self._counters[destination, source] = counter
        return counter
