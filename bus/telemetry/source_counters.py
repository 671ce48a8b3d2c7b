"""Counts messages by destination and source."""

from __future__ import annotations

from typing import Any, Final

from prometheus_client import Counter

from bus.telemetry import labels

_SOURCES: Final = 2000


class SourceCounters:
    """Keeps the counters at hand; producers name their source themselves, so how many names are kept is bounded."""

    def __init__(self, metric: Counter) -> None:
        self._metric = metric
        self._counters: dict[tuple[str, str], Any] = {}

    def count(self, destination: str, source: str) -> None:
        """Count one message."""
        counter = self._counters.get((destination, source))
        if counter is None:
            counter = self._counter(destination, source)
        counter.inc()

    def _counter(self, destination: str, source: str) -> Any:
        known = len(self._counters) < _SOURCES
        counter = self._metric.labels(*labels.DESTINATIONS.of(destination), source if known else labels.OTHER)
        if known:
            self._counters[destination, source] = counter
        return counter
