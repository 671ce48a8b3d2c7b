"""Since when alarms last: what began before a process was started is known by the incidents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bus.cluster.alarm_documents import AlarmDocuments
from bus.observing.reading import CachedCall
from bus.ports.clock import Clock

_KNOWN_FOR: Final = 5.0


class Onsets:
    """Reads the open incidents, every few seconds regardless of the number of callers."""

    def __init__(self, documents: AlarmDocuments, clock: Clock) -> None:
        self._documents = documents
        self._reading = CachedCall(self._read, clock, least=_KNOWN_FOR)

    async def known(self) -> Mapping[str, int]:
        """Return since when (ms) each alarm lasts, by its key; none while the store is unavailable."""
        return await self._reading.value() or {}

    async def _read(self) -> Mapping[str, int]:
        return {
            key: min(filter(None, (raised.since, raised.found_at)))
            for incident in await self._documents.incidents()
            if not incident.closed_at
            for key, raised in incident.alarms.items()
            if not raised.over_at
        }
