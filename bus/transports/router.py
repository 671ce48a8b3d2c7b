"""The transports of this process, which one a destination takes, and their queues as the configuration wants them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from bus.domain.catalog import Catalog
from bus.domain.destination import Destination, Ordering, TransportName
from bus.domain.health.progress import Progress, worst
from bus.domain.subscription import Subscription
from bus.errors import InvalidDestination, InvalidMessage, TransportError, TransportRefused
from bus.localized_text import AnyText, LocalizedText, localized
from bus.ports.clock import Clock
from bus.ports.transport import (
    AcceptingTransport,
    Consumer,
    CountingTransport,
    HeldMessages,
    Lag,
    ProgressTransport,
    Publisher,
    Transport,
)
from bus.transports.merged import MergedConsumer
from bus.transports.preference import ClusterPreference

_log = logging.getLogger(__name__)
_RETRY: Final = 1.0
_AT_ONCE: Final = 100
Lags = Mapping[tuple[str, str], Lag]


class _Place(NamedTuple):
    """A destination on a transport."""

    code: str
    transport: str


class _Removal(NamedTuple):
    """A queue to delete."""

    code: str
    subscription: str
    transport: str


class _Queues(NamedTuple):
    """The queues of a destination on a transport: what they depend on, and the routing pattern of each."""

    max_bytes: int
    ordering: Ordering
    traced: bool
    patterns: dict[str, str]

    def missing_in(self, made: _Queues | None, subscriptions: Sequence[Subscription]) -> list[Subscription]:
        """Return the subscriptions whose queues were not made yet, or not with these properties."""
        is_same = made is not None and made[:-1] == self[:-1]
        known = made.patterns if made is not None and is_same else {}
        return [found for found in subscriptions if known.get(found.name) != found.routing_pattern]

    def without(self, subscriptions: Sequence[Subscription]) -> _Queues:
        """Return these queues but for those of some subscriptions."""
        names = {found.name for found in subscriptions}
        return self._replace(patterns={name: made for name, made in self.patterns.items() if name not in names})


class TransportRouter:
    """Keeps each destination's queues in step with the configuration, on every transport that it may use.

    A transport that does not answer delays no other: the queues that it lacks are made as soon as it answers.

    Attributes
    ----------
    preference
        Which of a transport's clusters a person wants published to.
    """

    def __init__(self, transports: Iterable[Transport], clock: Clock, handover: Publisher | None = None) -> None:
        self._transports = {transport.name: transport for transport in transports}
        self._publishers: dict[str, Publisher] = {**self._transports}
        self._accepting = {
            name: found for name, found in self._transports.items() if isinstance(found, AcceptingTransport)
        }
        self._handover = handover
        if handover is not None:
            self._publishers[handover.name] = handover
        self._clock = clock
        self._catalog = Catalog()
        self._present: dict[str, set[str]] | None = None
        self._ensured: dict[_Place, _Queues] = {}
        # Destinations whose queues may not be as they are wanted.
        self._behind: set[str] = set()
        self._removals: set[_Removal] = set()
        self._troubles: dict[_Place, TransportError] = {}
        self._ill: set[str] = set()
        self._applying = asyncio.Lock()
        self.preference = ClusterPreference(self._transports.values())

    @property
    def publishers(self) -> Mapping[str, Publisher]:
        """The publishers, by transport."""
        return self._publishers

    def of(self, destination: Destination) -> Publisher:
        """Return the publisher of a destination's messages; without its broker's servers, the fallback."""
        return self._publishers.get(destination.carrier) or self.fallback

    def accepting(self, destination: Destination) -> AcceptingTransport | None:
        """Return the destination's transport when its queue is in this process."""
        return self._accepting.get(destination.carrier)

    @property
    def fallback(self) -> Publisher:
        """The publisher direct to a dispatcher, for messages that no broker accepts."""
        return self._publishers[TransportName.DIRECT]

    def check(self, destination: Destination) -> None:
        """Raise ``InvalidMessage`` with the field when the destination's transport is not set up or cannot carry it."""
        publisher = self._publishers.get(destination.carrier)
        if publisher is None:
            raise InvalidMessage(
                localized(
                    "transport {transport} is not set up here; there are: {transports}",
                    transport=destination.carrier,
                    transports=", ".join(self._publishers),
                ),
                hint=localized("name its servers in the configuration: docs/configuration.md"),
                field="transport",
            )
        try:
            publisher.check(destination)
        except InvalidDestination as error:
            raise InvalidMessage(error.said, hint=error.hint_said, field=error.field or "code") from error

    def trouble(self, code: str) -> TransportError | None:
        """Return what stops a destination's queues from being made on the transport that it takes."""
        destination = self._catalog.destinations.get(code)
        return self._troubles.get(_Place(code, destination.carrier)) if destination is not None else None

    def lag(self, destination: Destination, subscription: str, name: str) -> Lag | None:
        """Return a transport's backlog of a subscription; None while it cannot be asked."""
        lags = self._lags_on(name)
        return None if lags is None else lags.get((destination.code, subscription), Lag(0, None))

    def lags(self) -> dict[str, Lags | None]:
        """Return by transport the backlog of each subscription; None for one that cannot be asked.

        Messages handed over to dispatchers are not held here: the dispatchers report them.
        """
        return {name: self._lags_on(name) for name in self._publishers}

    def progress(self) -> Mapping[tuple[str, str], Progress]:
        """Return how each subscription's messages are worked off, as its worst transport."""
        return worst(found.progress() for found in self._transports.values() if isinstance(found, ProgressTransport))

    def held(self) -> dict[tuple[str, str, str], HeldMessages]:
        """Return by destination, subscription and transport the messages that brokers hold and count by state."""
        return {
            (*key, name): found
            for name, transport in self._transports.items()
            if isinstance(transport, CountingTransport)
            for key, found in transport.held().items()
        }

    def conditions(self) -> dict[str, AnyText]:
        """Return what is wrong with each cluster and each destination's queues, by name; empty text for none."""
        found: dict[str, AnyText] = {
            cluster: text for publisher in self._publishers.values() for cluster, text in publisher.conditions().items()
        }
        for place, error in self._troubles.items():
            found[f"{place.transport} queues of {place.code}"] = error.said
        return found | {
            f"queue {code}/{name}": _is_foreign(lag.records) for (code, name), lag in self.foreign().items()
        }

    def foreign(self) -> dict[tuple[str, str], Lag]:
        """Return the lag on the fallback of subscriptions that the configuration lacks though they were not removed."""
        catalog = self._catalog
        lags = self._direct_lags() if self._present is not None else {}
        return {
            key: lag
            for key, lag in lags.items()
            if lag.records and key not in catalog.subscriptions and not catalog.is_gone(*key)
        }

    async def meet(
        self, merged: MergedConsumer, destination: Destination, subscription: str, transports: Iterable[str]
    ) -> bool:
        """Have a subscription's consumer read from just these transports of its destination; whether one was added."""
        wanted = [name for name in transports if name in self._transports]
        for gone in merged.transports - set(wanted):
            await merged.drop(gone)
        added = [name for name in wanted if name not in merged.transports]
        for name in added:
            merged.add(name, await self._transports[name].consume(destination.code, subscription))
        return bool(added)

    async def own(self, destination: str, subscription: str) -> Consumer:
        """Return another consumer of a subscription's messages in this process's direct queue."""
        return await self._transports[TransportName.DIRECT].consume(destination, subscription)

    async def run(self) -> None:
        """Keep the transports up, and retry queues that could not be made, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for publisher in self._publishers.values():
                group.create_task(publisher.run())
            while True:
                await self._clock.sleep(_RETRY)
                self._distrust_returned()
                if self._behind or self._removals:
                    await self.apply(self._catalog)

    async def close(self) -> None:
        """Leave all transports; called after ``run`` was cancelled."""
        for publisher in self._publishers.values():
            await publisher.close()

    async def apply(self, catalog: Catalog) -> None:
        """Make queues for new subscriptions and delete those of removed ones, as far as the transports answer.

        Durable, on each transport that answered, when it returns; ``trouble`` names what is missing.
        """
        async with self._applying:
            self._behind |= catalog.since(self._catalog).destinations
            self._catalog = catalog
            self._note_leftovers(catalog)
            codes = sorted(self._behind)
            async with asyncio.TaskGroup() as group:
                for start in range(0, len(codes), _AT_ONCE):
                    self._catch_up(group, codes[start : start + _AT_ONCE])
                    await asyncio.sleep(0)  # of thousands, some in each turn of the loop
            self._behind -= set(codes) - {place.code for place in self._troubles}
            async with asyncio.TaskGroup() as group:
                for count, removal in enumerate(list(self._removals), 1):
                    group.create_task(self._remove(removal))
                    if count % _AT_ONCE == 0:
                        await asyncio.sleep(0)

    def _catch_up(self, group: asyncio.TaskGroup, codes: Sequence[str]) -> None:
        """Have the queues of destinations made, and those that are not wanted any more noted."""
        wanted = {
            _Place(code, name): destination
            for code in codes
            if (destination := self._catalog.destinations.get(code)) is not None
            for name in destination.transports
            if name in self._transports
        }
        self._forget_unwanted(codes, wanted)
        for place, destination in wanted.items():
            group.create_task(self._ensure(place, destination, self._catalog.of(place.code)))

    async def _ensure(self, place: _Place, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        # A queue that is wanted again must not be deleted by a removal that waits for its transport.
        if self._removals:
            self._removals -= {_Removal(place.code, found.name, place.transport) for found in subscriptions}
        patterns = {found.name: found.routing_pattern for found in subscriptions}
        queues = _Queues(destination.max_bytes, destination.ordering, destination.traced, patterns)
        missing = queues.missing_in(self._ensured.get(place), subscriptions)
        try:
            if missing:
                await self._transports[place.transport].ensure(destination, missing)
        except TransportError as error:
            if place not in self._troubles:
                _log.warning("queues of %s on %s are not made yet: %s", place.code, place.transport, error)
            self._troubles[place] = error
            # Queues that were removed meanwhile do not count as made either.
            self._ensured[place] = queues.without(missing)
            return
        self._troubles.pop(place, None)
        self._ensured[place] = queues
        if self._present is not None and missing:
            self._present.setdefault(place.code, set()).update(found.name for found in missing)

    def _direct_lags(self) -> Lags:
        """Return the backlog in the direct queues of this process."""
        return self._lags_on(TransportName.DIRECT) or {}

    def _lags_on(self, name: str) -> Lags | None:
        if self._handover is not None and name == self._handover.name:
            return {}
        transport = self._transports.get(name)
        return transport.lags() if transport is not None else None

    def _distrust_returned(self) -> None:
        """Have all queues of a transport that has come back made again: its broker may have been wiped meanwhile."""
        for name, transport in self._transports.items():
            ill = any(transport.conditions().values())
            if name in self._ill and not ill:
                self._behind |= {place.code for place in self._ensured if place.transport == name}
                self._ensured = {place: made for place, made in self._ensured.items() if place.transport != name}
            (self._ill.add if ill else self._ill.discard)(name)

    def _note_leftovers(self, catalog: Catalog) -> None:
        """At the first call, note the queues that the fallback has from before a restart, also those to delete."""
        if self._present is None:
            self._present = {}
            for (code, name), lag in self._direct_lags().items():
                self._present.setdefault(code, set()).add(name)
                if name in catalog.names(code) or catalog.is_gone(code, name):
                    continue
                if lag.records:
                    # Its messages were accepted: they wait for a subscription of that name, or for a person's decision.
                    _log.error("%d messages wait for %s/%s, which the configuration lacks", lag.records, code, name)
                else:
                    self._removals.add(_Removal(code, name, self.fallback.name))

    def _forget_unwanted(self, codes: Sequence[str], wanted: Collection[_Place]) -> None:
        """Note queues of these destinations to delete: of removed subscriptions, and on transports that were left."""
        present = self._present or {}
        for place in (_Place(code, transport) for code in codes for transport in self._transports):
            if place in wanted:
                continue
            self._troubles.pop(place, None)
            if self._ensured.pop(place, None) is not None and (
                place.code in self._catalog.destinations or place.code in self._catalog.removed
            ):
                self._removals |= {_Removal(place.code, name, place.transport) for name in present.get(place.code, ())}
        for code in codes:
            for name in sorted(found for found in present.get(code, ()) if self._catalog.is_gone(code, found)):
                self._removals |= {_Removal(code, name, transport) for transport in self._transports}
                present[code].discard(name)

    async def _remove(self, removal: _Removal) -> None:
        try:
            await self._transports[removal.transport].remove(removal.code, removal.subscription)
        except TransportRefused as error:
            _log.warning("queue %s/%s on %s stays: %s", removal.code, removal.subscription, removal.transport, error)
        except TransportError:
            return  # again later
        self._removals.discard(removal)


def _is_foreign(records: int) -> LocalizedText:
    return localized(
        "{count} messages wait for a subscription that the configuration lacks; "
        "make it again to have them delivered, or drop them with bus doctor --accept-empty-store",
        count=records,
    )
