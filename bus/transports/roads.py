"""All roads of this process, and which of them a destination takes."""

from __future__ import annotations

from collections.abc import Iterable

from bus.domain.catalog import Catalog
from bus.domain.destination import Destination
from bus.errors import InvalidDestination, InvalidMessage
from bus.ports.transport import Transport


class Roads:
    """Keeps each destination's queues on its road in step with the configuration."""

    def __init__(self, transports: Iterable[Transport]) -> None:
        self._transports = {transport.name: transport for transport in transports}
        self._present: dict[str, set[str]] | None = None
        self._ensured: dict[str, set[str]] = {}

    def check(self, destination: Destination) -> None:
        """Raise ``InvalidMessage`` with the field when the destination's road is not set up or cannot carry it."""
        transport = self._transports.get(destination.transport)
        if transport is None:
            raise InvalidMessage(
                f"transport {destination.transport} is not set up here; there are: {', '.join(self._transports)}",
                hint="name its servers in the configuration: docs/configuration.md",
                field="transport",
            )
        try:
            transport.check(destination)
        except InvalidDestination as error:
            raise InvalidMessage(str(error), hint=error.hint, field=error.field or "code") from error

    def of(self, destination: Destination) -> Transport:
        """Return the road that a destination takes."""
        return self._transports[destination.transport]

    @property
    def transports(self) -> list[Transport]:
        """All roads."""
        return list(self._transports.values())

    async def apply(self, catalog: Catalog) -> None:
        """Make queues for new subscriptions and delete those of removed ones; durable when it returns."""
        queues = self._queues()
        for destination in catalog.destinations.values():
            names = set(catalog.expected(destination.code))
            present = queues.setdefault(destination.code, set())
            if names - self._ensured.get(destination.code, set()):
                await self.of(destination).ensure(destination, catalog.of(destination.code))
                self._ensured[destination.code] = names
                present |= names
        for code, present in queues.items():
            for name in sorted(present - set(catalog.expected(code))):
                for transport in self._transports.values():
                    await transport.remove(code, name)
                present.discard(name)
                self._ensured.get(code, set()).discard(name)

    def _queues(self) -> dict[str, set[str]]:
        """Return what is there: at first what the roads still have from an earlier life, which may be too much."""
        if self._present is None:
            self._present = {}
            for transport in self._transports.values():
                for code, name in transport.lags() or {}:
                    self._present.setdefault(code, set()).add(name)
        return self._present
