"""The configuration of destinations and subscriptions as one immutable snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from bus.domain.destination import Destination
from bus.domain.routing_pattern import EVERY_KEY, matches
from bus.domain.subscription import Subscription


class Catalog:
    """Look-ups over one consistent state of the configuration; a change makes a new catalog."""

    def __init__(self, destinations: Iterable[Destination] = (), subscriptions: Iterable[Subscription] = ()) -> None:
        self.destinations = {destination.code: destination for destination in destinations}
        self.subscriptions = {subscription.key: subscription for subscription in subscriptions}
        by_destination: dict[str, list[Subscription]] = {}
        for subscription in self.subscriptions.values():
            by_destination.setdefault(subscription.destination, []).append(subscription)
        self._by_destination = {code: tuple(found) for code, found in by_destination.items()}
        self._names = {code: tuple(s.name for s in found) for code, found in self._by_destination.items()}
        self._routed = {s.destination for s in self.subscriptions.values() if s.routing_pattern != EVERY_KEY}

    def of(self, destination: str) -> tuple[Subscription, ...]:
        """Return the subscriptions of a destination."""
        return self._by_destination.get(destination, ())

    def names(self, destination: str) -> tuple[str, ...]:
        """Return the names of the subscriptions of a destination."""
        return self._names.get(destination, ())

    def expected(self, destination: str, routing_key: str) -> tuple[str, ...]:
        """Return the names of the subscriptions that a message accepted now expects: whose pattern takes its key."""
        if destination not in self._routed:
            return self.names(destination)
        return tuple(found.name for found in self.of(destination) if matches(found.routing_pattern, routing_key))
