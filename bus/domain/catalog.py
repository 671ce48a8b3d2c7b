"""The configuration of destinations and subscriptions as one immutable snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from bus.domain.destination import Destination
from bus.domain.routing_pattern import EVERY_KEY, matches
from bus.domain.subscription import Subscription


class Catalog:
    """Look-ups over one consistent state of the configuration; a change makes a new catalog.

    Parameters
    ----------
    removed
        Destinations (``code``) and subscriptions (``code/name``) that somebody has removed. What is missing and not
        among them was lost, as with a store that was wiped: what waits for it is kept.
    """

    def __init__(
        self,
        destinations: Iterable[Destination] = (),
        subscriptions: Iterable[Subscription] = (),
        removed: Iterable[str] = (),
    ) -> None:
        self.destinations = {destination.code: destination for destination in destinations}
        self.subscriptions = {subscription.key: subscription for subscription in subscriptions}
        self.removed = frozenset(removed)
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

    def is_gone(self, destination: str, subscription: str) -> bool:
        """Whether somebody removed a subscription, so that nothing needs to wait for it."""
        is_there = (destination, subscription) in self.subscriptions
        return not is_there and f"{destination}/{subscription}" in self.removed

    def has_left(self, destination: str) -> bool:
        """Whether somebody removed a destination, so that nothing needs to be published to it."""
        return destination not in self.destinations and destination in self.removed

    def expected(self, destination: str, routing_key: str) -> tuple[str, ...]:
        """Return the names of the subscriptions that a message accepted now expects: whose pattern takes its key."""
        if destination not in self._routed:
            return self.names(destination)
        return tuple(found.name for found in self.of(destination) if matches(found.routing_pattern, routing_key))
