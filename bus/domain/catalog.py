"""The configuration of destinations and subscriptions as one immutable snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

from bus.domain.destination import Destination
from bus.domain.routing_pattern import EVERY_KEY, matches
from bus.domain.subscription import Subscription

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Difference(NamedTuple):
    """Differences of two states of the configuration.

    Attributes
    ----------
    destinations
        Codes of those that differ in themselves, in a subscription, or in what a user has removed.
    subscriptions
        Keys of those that differ, and of all whose destination itself differs.
    """

    destinations: set[str]
    subscriptions: set[tuple[str, str]]


class Catalog:
    """Look-ups over one consistent state of the configuration; a change makes a new catalog.

    Parameters
    ----------
    removed
        Destinations (``code``) and subscriptions (``code/name``) that a user has removed. One that is missing and not
        among them was lost, as with a store that was wiped: messages that wait for it are kept.
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
        # Names this state, and for one that ``changed`` made the state before and what may differ from that.
        self._state = object()
        self._before: object = None
        self._codes: Collection[str] = ()
        self._keys: Collection[tuple[str, str]] = ()

    def changed(
        self,
        *,
        destinations: Iterable[Destination] = (),
        subscriptions: Iterable[Subscription] = (),
        without: Collection[str] = (),
        unsubscribed: Collection[tuple[str, str]] = (),
        removed: Iterable[str] | None = None,
    ) -> Catalog:
        """Return a catalog with these added or replaced, then without some; it shares all other objects with this one.

        Parameters
        ----------
        without
            Codes of destinations.
        unsubscribed
            Keys of subscriptions.
        removed
            All that users have removed, as of now; None for no change.
        """
        made = {subscription.key: subscription for subscription in subscriptions}
        replaced = {one.code: one for one in destinations}
        found = Catalog()
        found._before, found._codes, found._keys = self._state, (*replaced, *without), (*made, *unsubscribed)
        found.destinations = self.destinations | replaced
        found.subscriptions = self.subscriptions | made
        found.removed = self.removed if removed is None else frozenset(removed)
        for code in without:
            found.destinations.pop(code, None)
        for key in unsubscribed:
            found.subscriptions.pop(key, None)
        found._copy_indexes(self, found._keys)
        return found

    def _copy_indexes(self, other: Catalog, touched: Iterable[tuple[str, str]]) -> None:
        """Copy the indexes of another catalog, and update them for the subscriptions that were touched."""
        self._by_destination, self._names = dict(other._by_destination), dict(other._names)
        self._routed = set(other._routed)
        by_name: dict[str, dict[str, Subscription]] = {}
        for code, name in touched:
            if code not in by_name:
                by_name[code] = {one.name: one for one in other.of(code)}
            if (code, name) in self.subscriptions:
                by_name[code][name] = self.subscriptions[code, name]
            else:
                by_name[code].pop(name, None)
        for code, named in by_name.items():
            self._index(code, tuple(named.values()))

    def since(self, earlier: Catalog) -> Difference:
        """Return the differences of this state from an earlier one.

        From the state that ``changed`` made it of it costs time for what was changed, from any other for all there is.
        """
        if earlier is self:
            return Difference(set(), set())
        is_next = self._before is earlier._state
        subscribed = _unequal(
            self._by_destination, earlier._by_destination, {code for code, _ in self._keys} if is_next else None
        )
        itself = _unequal(self.destinations, earlier.destinations, self._codes if is_next else None)
        keys = {
            (code, name)
            for code in subscribed
            for name in _unequal(
                {one.name: one for one in self.of(code)}, {one.name: one for one in earlier.of(code)}, None
            )
        }
        keys |= {found.key for code in itself for found in self.of(code)}
        said = {key.partition("/")[0] for key in self.removed ^ earlier.removed}
        return Difference(subscribed | itself | said, keys)

    def of(self, destination: str) -> tuple[Subscription, ...]:
        """Return the subscriptions of a destination."""
        return self._by_destination.get(destination, ())

    def names(self, destination: str) -> tuple[str, ...]:
        """Return the names of the subscriptions of a destination."""
        return self._names.get(destination, ())

    def is_gone(self, destination: str, subscription: str) -> bool:
        """Whether a user removed a subscription, so that nothing needs to wait for it."""
        is_there = (destination, subscription) in self.subscriptions
        return not is_there and f"{destination}/{subscription}" in self.removed

    def has_left(self, destination: str) -> bool:
        """Whether a user removed a destination, so that nothing needs to be published to it."""
        return destination not in self.destinations and destination in self.removed

    def expected(self, destination: str, routing_key: str) -> tuple[str, ...]:
        """Return the names of the subscriptions that a message accepted now expects: whose pattern takes its key."""
        if destination not in self._routed:
            return self.names(destination)
        return tuple(found.name for found in self.of(destination) if matches(found.routing_pattern, routing_key))

    def _index(self, code: str, subscriptions: tuple[Subscription, ...]) -> None:
        """Enter a destination's subscriptions into the indexes."""
        self._routed.discard(code)
        if not subscriptions:
            self._by_destination.pop(code, None)
            self._names.pop(code, None)
            return
        self._by_destination[code] = subscriptions
        self._names[code] = tuple(one.name for one in subscriptions)
        if any(one.routing_pattern != EVERY_KEY for one in subscriptions):
            self._routed.add(code)


def _unequal(now: Mapping[_Key, _Value], before: Mapping[_Key, _Value], among: Collection[_Key] | None) -> set[_Key]:
    """Return the keys, among these or all, whose values differ, or that only one of the two has."""
    if among is not None:
        return {key for key in among if now.get(key) != before.get(key)}
    found = {key for key, one in now.items() if (other := before.get(key)) is not one and other != one}
    return found | (before.keys() - now.keys())
