"""All roads of this process, which of them a destination takes, and their queues in step with the configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from bus.domain.catalog import Catalog
from bus.domain.destination import Destination, TransportName
from bus.domain.subscription import Subscription
from bus.errors import InvalidDestination, InvalidMessage, TransportError, TransportRefused
from bus.ports.clock import Clock
from bus.ports.transport import Lag, Transport
from bus.sentences import sentence
from bus.transports.choice import Choice
from bus.transports.crossing import Crossing

_log = logging.getLogger(__name__)
_RETRY: Final = 1.0


class _Place(NamedTuple):
    """A destination on a road."""

    code: str
    road: str


class _Removal(NamedTuple):
    """A queue to delete."""

    code: str
    subscription: str
    road: str


class Roads:
    """Keeps each destination's queues in step with the configuration, on every road that it may use.

    A road that does not answer holds nobody up: what it lacks is made as soon as it answers.

    Attributes
    ----------
    choice
        Which of a road's clusters a person wants published to.
    """

    def __init__(self, transports: Iterable[Transport], clock: Clock) -> None:
        self._transports = {transport.name: transport for transport in transports}
        self._clock = clock
        self._catalog = Catalog()
        self._present: dict[str, set[str]] | None = None
        self._ensured: dict[_Place, tuple[object, ...]] = {}
        self._removals: set[_Removal] = set()
        self._troubles: dict[_Place, TransportError] = {}
        self._ill: set[str] = set()
        self._applying = asyncio.Lock()
        self.choice = Choice(self._transports.values())

    # --- asking ----------------------------------------------------------------------------------------------

    @property
    def transports(self) -> list[Transport]:
        """All roads."""
        return list(self._transports.values())

    def of(self, destination: Destination) -> Transport:
        """Return the road that a destination's messages take; without its broker's servers, the fallback."""
        return self._transports.get(destination.transport) or self.fallback

    @property
    def fallback(self) -> Transport:
        """The road straight to a dispatcher, for what no broker takes."""
        return self._transports[TransportName.DIRECT]

    def check(self, destination: Destination) -> None:
        """Raise ``InvalidMessage`` with the field when the destination's road is not set up or cannot carry it."""
        transport = self._transports.get(destination.transport)
        if transport is None:
            raise InvalidMessage(
                sentence(
                    "transport {transport} is not set up here; there are: {transports}",
                    transport=destination.transport,
                    transports=", ".join(self._transports),
                ),
                hint=sentence("name its servers in the configuration: docs/configuration.md"),
                field="transport",
            )
        try:
            transport.check(destination)
        except InvalidDestination as error:
            raise InvalidMessage(error.said, hint=error.hint_said, field=error.field or "code") from error

    def trouble(self, code: str) -> TransportError | None:
        """Return what stops a destination's queues from being made on the road that it takes."""
        destination = self._catalog.destinations.get(code)
        return self._troubles.get(_Place(code, destination.transport)) if destination is not None else None

    def lag(self, destination: Destination, subscription: str, road: str) -> Lag | None:
        """Return what a road holds for a subscription; None while it cannot be asked."""
        transport = self._transports.get(road)
        lags = transport.lags() if transport is not None else None
        return None if lags is None else lags.get((destination.code, subscription), Lag(0, None))

    def conditions(self) -> dict[str, str]:
        """Return what is wrong with each cluster and each destination's queues, by name; empty text for none."""
        found = {
            cluster: text for transport in self._transports.values() for cluster, text in transport.conditions().items()
        }
        for place, error in self._troubles.items():
            found[f"{place.road} queues of {place.code}"] = str(error)
        return found | {
            f"queue {code}/{name}": _is_foreign(lag.records) for (code, name), lag in self.foreign().items()
        }

    def foreign(self) -> dict[tuple[str, str], Lag]:
        """Return what the fallback holds for subscriptions that the configuration lacks, though nobody removed them."""
        if self._present is None:
            return {}
        names = [(code, name) for code, found in self._present.items() for name in found]
        missing = [key for key in names if key not in self._catalog.subscriptions and not self._catalog.is_gone(*key)]
        lags = self.fallback.lags() if missing else None
        return {key: lag for key in missing if (lag := (lags or {}).get(key)) is not None and lag.records}

    # --- consuming -------------------------------------------------------------------------------------------

    async def meet(self, crossing: Crossing, destination: Destination, subscription: str, roads: Iterable[str]) -> bool:
        """Bring a subscription's crossing in step with these of its destination's roads; whether one was added."""
        wanted = [name for name in roads if name in self._transports]
        for gone in crossing.roads - set(wanted):
            await crossing.drop(gone)
        added = [name for name in wanted if name not in crossing.roads]
        for name in added:
            crossing.add(name, await self._transports[name].consume(destination.code, subscription))
        return bool(added)

    # --- keeping in step -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the roads up, and make what could not be made yet, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for transport in self._transports.values():
                group.create_task(transport.run())
            while True:
                await self._clock.sleep(_RETRY)
                self._distrust_returned()
                if self._is_behind():
                    await self.apply(self._catalog)

    async def apply(self, catalog: Catalog) -> None:
        """Make queues for new subscriptions and delete those of removed ones, as far as the roads answer.

        Durable, on each road that answered, when it returns; ``trouble`` tells what is missing.
        """
        async with self._applying:
            self._catalog = catalog
            self._note_leftovers(catalog)
            wanted = {
                _Place(destination.code, name): destination
                for destination in catalog.destinations.values()
                for name in destination.roads
                if name in self._transports
            }
            self._troubles = {place: error for place, error in self._troubles.items() if place in wanted}
            async with asyncio.TaskGroup() as group:
                for place, destination in wanted.items():
                    state = _state(destination, catalog)
                    if self._ensured.get(place, ()) != state:
                        group.create_task(self._ensure(place, destination, catalog.of(place.code), state))
            self._note_removals(catalog, wanted)
            async with asyncio.TaskGroup() as group:
                for removal in self._removals:
                    group.create_task(self._remove(removal))

    async def _ensure(
        self, place: _Place, destination: Destination, subscriptions: Sequence[Subscription], state: tuple[object, ...]
    ) -> None:
        # A queue that is wanted again must not be deleted by a removal that waits for its road.
        self._removals -= {_Removal(place.code, found.name, place.road) for found in subscriptions}
        try:
            if subscriptions:
                await self._transports[place.road].ensure(destination, subscriptions)
        except TransportError as error:
            if place not in self._troubles:
                _log.warning("queues of %s on %s are not made yet: %s", place.code, place.road, error)
            self._troubles[place] = error
            return
        self._troubles.pop(place, None)
        self._ensured[place] = state
        if self._present is not None and subscriptions:
            self._present.setdefault(place.code, set()).update(found.name for found in subscriptions)

    def _is_behind(self) -> bool:
        """Whether a road lacks queues, or has some that should be gone."""
        if self._troubles or self._removals:
            return True
        return any(
            self._ensured.get(_Place(code, name), ()) != _state(destination, self._catalog)
            for code, destination in self._catalog.destinations.items()
            for name in destination.roads
            if name in self._transports
        )

    def _distrust_returned(self) -> None:
        """Look after the queues of a road that has come back: its broker may have been wiped meanwhile."""
        for name, transport in self._transports.items():
            ill = any(transport.conditions().values())
            if name in self._ill and not ill:
                self._ensured = {place: state for place, state in self._ensured.items() if place.road != name}
            (self._ill.add if ill else self._ill.discard)(name)

    def _note_leftovers(self, catalog: Catalog) -> None:
        """At first, find what the fallback still has from an earlier life, which may be too much."""
        if self._present is None:
            self._present = {}
            for (code, name), lag in (self.fallback.lags() or {}).items():
                self._present.setdefault(code, set()).add(name)
                if name in catalog.names(code) or catalog.is_gone(code, name):
                    continue
                if lag.records:
                    # Its messages were accepted: they wait for a subscription of that name, or for a person's word.
                    _log.error("%d messages wait for %s/%s, which the configuration lacks", lag.records, code, name)
                else:
                    self._removals.add(_Removal(code, name, self.fallback.name))

    def _note_removals(self, catalog: Catalog, wanted: dict[_Place, Destination]) -> None:
        """Find queues of subscriptions that are gone, and of roads that a destination has left for good."""
        present = self._present or {}
        for place in [place for place in self._ensured if place not in wanted]:
            del self._ensured[place]
            if place.code in catalog.destinations or place.code in catalog.removed:
                self._removals |= {_Removal(place.code, name, place.road) for name in present.get(place.code, ())}
        for code, names in present.items():
            for name in sorted(found for found in names if catalog.is_gone(code, found)):
                self._removals |= {_Removal(code, name, road) for road in self._transports}
                names.discard(name)

    async def _remove(self, removal: _Removal) -> None:
        try:
            await self._transports[removal.road].remove(removal.code, removal.subscription)
        except TransportRefused as error:
            _log.warning("queue %s/%s on %s stays: %s", removal.code, removal.subscription, removal.road, error)
        except TransportError:
            return  # again later
        self._removals.discard(removal)


def _is_foreign(records: int) -> str:
    return (
        f"{records} messages wait for a subscription that the configuration lacks; "
        f"make it again to have them delivered, or drop them with bus doctor --accept-empty-store"
    )


def _state(destination: Destination, catalog: Catalog) -> tuple[object, ...]:
    """Return what a destination's queues depend on; empty while nobody subscribes."""
    subscriptions = catalog.of(destination.code)
    if not subscriptions:
        return ()
    return (destination.max_bytes, *((found.name, found.routing_pattern) for found in subscriptions))
