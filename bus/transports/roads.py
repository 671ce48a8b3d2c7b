"""All roads of this process, and which of them a destination takes."""

from __future__ import annotations

from collections.abc import Iterable

from bus.domain.catalog import Catalog
from bus.domain.destination import Destination
from bus.ports.transport import Transport


class Roads:
    """Keeps each destination's queues on its road in step with the configuration."""

    def __init__(self, transports: Iterable[Transport]) -> None:
        self._transports = {transport.name: transport for transport in transports}
        self._present: dict[str, set[str]] = {}

    def of(self, destination: Destination) -> Transport:
        """Return the road that a destination takes."""
        return self._transports[destination.transport]

    @property
    def transports(self) -> list[Transport]:
        """All roads."""
        return list(self._transports.values())

    async def apply(self, catalog: Catalog) -> None:
        """Make queues for new subscriptions and delete those of removed ones; durable when it returns."""
        for destination in catalog.destinations.values():
            names = set(catalog.expected(destination.code))
            present = self._present.setdefault(destination.code, set())
            if names - present:
                await self.of(destination).ensure(destination, sorted(names - present))
                present |= names
        for code, present in self._present.items():
            for name in sorted(present - set(catalog.expected(code))):
                for transport in self._transports.values():
                    await transport.remove(code, name)
                present.discard(name)
