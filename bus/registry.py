"""The configuration in force, kept in the store and held here as one immutable catalog."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from bus.domain.catalog import Catalog
from bus.domain.delivery.quota import DEFAULT_SHARE
from bus.domain.destination import Destination
from bus.domain.subscription import Secret, Subscription
from bus.errors import NotFound
from bus.localized_text import AnyText, localized
from bus.ports.store import Document, DocumentStore
from bus.security.secrets import SecretBox
from bus.stores.changed_documents import ChangedDocuments
from bus.stores.snapshot import NOTE, PutBack, decode_note

DESTINATIONS = "destinations"
SUBSCRIPTIONS = "subscriptions"
SETTINGS = "settings"
RATES = "rates"
PREFERENCE = "preference"
REMOVED = "removed"
COLLECTIONS = frozenset({DESTINATIONS, SUBSCRIPTIONS, SETTINGS, REMOVED})
_REVISION = "revision"
MARK = (SETTINGS, _REVISION)
MOST_REMOVED = 1000
_SLICE = 250
Listener = Callable[[Catalog], Awaitable[None]]
Configured = TypeVar("Configured", Destination, Subscription)


class Rates(msgspec.Struct, frozen=True):
    """Store writes a second of each process, changeable at run time; None for no limit."""

    receiver: float | None = None
    dispatcher: float | None = None


class Preference(msgspec.Struct, frozen=True):
    """The cluster to which a person wants messages published; None leaves the choice to the transport."""

    cluster: str | None = None


class Registry:
    """Reads and changes the configuration; every change is durable, then in force, then told to the listeners.

    ``is_old`` says whether what was read last may have been changed since, the store being away.
    """

    def __init__(self, documents: DocumentStore, box: SecretBox, is_old: Callable[[], bool] = lambda: False) -> None:
        self._documents = documents
        self._is_old = is_old
        self._box = box
        self._listeners: list[Listener] = []
        self._changing = asyncio.Lock()
        self._revision = 0
        self._loaded = 0
        self._noted = 0
        self._is_noted = True
        self._changed = ChangedDocuments(documents)
        self.catalog = Catalog()
        self.rates = Rates()
        self.preference = Preference()
        self.put_back: PutBack | None = None

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with each new catalog, before the change is answered."""
        self._listeners.append(listener)

    @property
    def is_old(self) -> bool:
        """Whether it was read from this process's disk, the store being away: others may have changed it since."""
        return self._is_old()

    @property
    def trouble(self) -> AnyText:
        """What a person has to choose, since the store was found emptied; empty when there is nothing."""
        if self.put_back is None:
            return ""
        return localized(
            "the store had lost the configuration; {count} documents were put back from what was kept on disk: say "
            "bus doctor --keep-configuration, or --accept-empty-store if it was meant to be empty",
            count=len(self.put_back.documents),
        )

    @property
    def revision(self) -> int:
        """Which state of the configuration is in force; grows with every change by any process."""
        return self._loaded

    @property
    def latest(self) -> int:
        """The latest state that is known here, of a change by this process that state; it may not be in force yet."""
        return self._revision

    async def refresh(self) -> None:
        """Load the configuration again if it was changed, also by a change of this process that failed half-way."""
        if not self._is_noted:
            async with self._changing:
                await self._note_change()
                self._is_noted = True
        if await self._stored_revision() != self._loaded:
            await self.load()

    async def load(self) -> None:
        """Read the whole configuration and put it in force."""
        async with self._changing:
            # Read first: a change meanwhile is seen as one at the next look.
            revision = self._revision = await self._stored_revision()
            before = self.catalog
            destinations, codes = await self._changed.read(DESTINATIONS, before.destinations.keys(), _destination)
            in_force = {_key(*key) for key in before.subscriptions}
            subscriptions, names = await self._changed.read(SUBSCRIPTIONS, in_force, self._unseal)
            settings = {found.key: found.value for found in await self._documents.list(SETTINGS)}
            if RATES in settings:
                self.rates = msgspec.json.decode(settings[RATES], type=Rates)
            self.preference = msgspec.json.decode(settings.get(PREFERENCE, b"{}"), type=Preference)
            self.put_back = decode_note(settings[NOTE]) if NOTE in settings else None
            catalog = before.changed(
                destinations=destinations,
                subscriptions=subscriptions,
                without=codes,
                unsubscribed=[(code, name) for code, _, name in (key.partition("/") for key in names)],
                removed=[found.key for found in await self._documents.list(REMOVED)],
            )
            await self._enforce(catalog)
            self._loaded = self._noted = revision
            self._changed.accept()

    def destination(self, code: str) -> Destination:
        """Return a destination; raises ``NotFound``."""
        found = self.catalog.destinations.get(code)
        if found is None:
            raise NotFound(
                localized("there is no destination {code}", code=repr(code)),
                hint=localized("make it with: {command}", command=f"bus destination set {code}"),
            )
        return found

    def subscription(self, destination: str, name: str) -> Subscription:
        """Return a subscription; raises ``NotFound``."""
        found = self.catalog.subscriptions.get((destination, name))
        if found is None:
            raise NotFound(
                localized(
                    "there is no subscription {name} of {destination}", name=repr(name), destination=repr(destination)
                ),
                hint=localized(
                    "make it with: {command}", command=f"bus subscription set {destination} {name} --url URL"
                ),
            )
        return found

    async def put_destination(self, destination: Destination) -> Destination:
        """Store a destination and put it in force; raises ``Conflict`` when its version is not the stored one."""
        async with self._change():
            code = destination.code
            version = await self._documents.put(
                DESTINATIONS, code, msgspec.json.encode(destination), version=destination.version
            )
            await self._note_change()
            stored = msgspec.structs.replace(destination, version=version)
            await self._forget_removal(code, version)
            await self._enforce(self.catalog.changed(destinations=[stored], removed=self._removed_but(code)))
            return stored

    async def put_subscription(self, subscription: Subscription) -> Subscription:
        """Store a subscription and put it in force; raises ``Conflict`` when its version is not the stored one."""
        async with self._change():
            return await self._put_subscription(subscription)

    async def _put_subscription(self, subscription: Subscription) -> Subscription:
        key = _key(*subscription.key)
        version = await self._documents.put(SUBSCRIPTIONS, key, self._seal(subscription), version=subscription.version)
        await self._note_change()
        stored = msgspec.structs.replace(subscription, version=version)
        await self._forget_removal(key, version)
        await self._enforce(self.catalog.changed(subscriptions=[stored], removed=self._removed_but(key)))
        return stored

    async def put_all(
        self, destinations: Sequence[Destination], subscriptions: Sequence[Subscription]
    ) -> tuple[list[Destination], list[Subscription]]:
        """Store many, destinations first, and put them in force as one state.

        Raises
        ------
        Conflict
            A version is not the stored one; nothing, or only a part is stored, which comes into force by itself.
        StoreError
            The store does not answer any more; as before. What was stored may be put again.
        """
        async with self._change():
            made = await self._put_many(
                DESTINATIONS, destinations, lambda one: (one.code, msgspec.json.encode(one), one.version)
            )
            stored = await self._put_many(
                SUBSCRIPTIONS, subscriptions, lambda one: (_key(*one.key), self._seal(one), one.version)
            )
            await self._note_change()
            again = {one.code for one in made} | {_key(*one.key) for one in stored}
            for key in sorted(again & self.catalog.removed):
                await self._documents.delete(REMOVED, key)
            removed = self.catalog.removed - again if again & self.catalog.removed else None
            await self._enforce(self.catalog.changed(destinations=made, subscriptions=stored, removed=removed))
            return made, stored

    async def _put_many(
        self, collection: str, wanted: Sequence[Configured], document: Callable[[Configured], tuple[str, bytes, int]]
    ) -> list[Configured]:
        """Write many at a time, and return them with their versions; all of a slice are tried before it raises."""
        stored: list[Configured] = []
        for start in range(0, len(wanted), _SLICE):
            part = wanted[start : start + _SLICE]
            writes = [
                self._documents.put(collection, key, value, version=version)
                for key, value, version in map(document, part)
            ]
            for one, version in zip(part, await asyncio.gather(*writes, return_exceptions=True), strict=True):
                if isinstance(version, BaseException):
                    raise version
                stored.append(msgspec.structs.replace(one, version=version))
        return stored

    async def remove_all(self, codes: Sequence[str], keys: Sequence[tuple[str, str]]) -> None:
        """Remove subscriptions and then destinations, as one state; open deliveries are the caller's to cancel.

        At most ``MOST_REMOVED`` are remembered as removed, so no more may be removed at once.
        """
        async with self._change():
            removed = await self._record_removal([*(_key(*key) for key in keys), *codes])
            for key in keys:
                await self._documents.delete(SUBSCRIPTIONS, _key(*key))
            for code in codes:
                await self._documents.delete(DESTINATIONS, code)
            await self._note_change()
            await self._withdraw(self.catalog.changed(without=codes, unsubscribed=keys, removed=removed))

    async def pause(self, key: tuple[str, str], reason: str) -> None:
        """Pause a subscription, with the reason; no effect when it is paused or gone."""
        async with self._change():
            found = self.catalog.subscriptions.get(key)
            if found is not None and not found.paused:
                await self._put_subscription(msgspec.structs.replace(found, paused=True, paused_reason=reason))

    async def doubt(self, key: tuple[str, str], until: int) -> None:
        """Have dispatchers ask the store, once, before they post what a subscription received until a time (ms).

        No effect when it is gone. A later call has what is not posted yet asked for again.

        Raises
        ------
        Conflict
            Another process changed the subscription, which is not known here yet.
        """
        async with self._change():
            found = self.catalog.subscriptions.get(key)
            if found is not None:
                doubted = max(until, found.doubted_until + 1)
                await self._put_subscription(msgspec.structs.replace(found, doubted_until=doubted))

    async def remove_destination(self, code: str) -> None:
        """Remove a destination without subscriptions."""
        async with self._change():
            removed = await self._record_removal([code])
            await self._documents.delete(DESTINATIONS, code)
            await self._note_change()
            await self._withdraw(self.catalog.changed(without=[code], removed=removed))

    async def remove_subscription(self, destination: str, name: str) -> None:
        """Remove a subscription; its open deliveries are the caller's to cancel."""
        async with self._change():
            removed = await self._record_removal([_key(destination, name)])
            await self._documents.delete(SUBSCRIPTIONS, _key(destination, name))
            await self._note_change()
            await self._withdraw(self.catalog.changed(unsubscribed=[(destination, name)], removed=removed))

    async def keep_put_back(self) -> None:
        """Accept what was put back into an emptied store as the configuration; nothing else changes."""
        async with self._change():
            await self._documents.delete(SETTINGS, NOTE)
            await self._note_change()
            self.put_back = None
            self._loaded = self._noted

    async def accept_emptied(self, waiting: Iterable[str]) -> None:
        """Accept that the store was emptied on purpose: remove what was put back and was not changed since.

        ``waiting`` names destinations (``code``) and subscriptions (``code/name``) for which messages wait: those that
        the configuration lacks count as removed, so that such messages are dropped and their deliveries canceled. May
        be called again.
        """
        async with self._change():
            put_back = self.put_back.documents if self.put_back is not None else ()
            doomed = [
                (collection, key)
                for collection, key in put_back
                if collection in (SUBSCRIPTIONS, DESTINATIONS) and await self._is_untouched(collection, key)
            ]
            known = {*self.catalog.destinations, *(_key(*key) for key in self.catalog.subscriptions)}
            await self._record_removal([*(key for _, key in doomed), *(key for key in waiting if key not in known)])
            for collection, key in doomed:
                await self._documents.delete(collection, key)
            await self._documents.delete(SETTINGS, NOTE)
            await self._note_change()
        await self.load()

    async def set_rates(self, rates: Rates) -> None:
        """Change the store rates of the processes; in force at once."""
        async with self._change():
            await self._documents.put(SETTINGS, RATES, msgspec.json.encode(rates))
            await self._note_change()
            self.rates = rates
            self._loaded = self._noted

    async def set_preference(self, preference: Preference) -> None:
        """Choose the cluster that every process publishes to; in force at once, and told to the listeners."""
        async with self._change():
            await self._documents.put(SETTINGS, PREFERENCE, msgspec.json.encode(preference))
            await self._note_change()
            self.preference = preference
            await self._enforce(self.catalog)

    async def stale(self) -> int:
        """Return how many subscriptions have secrets that do not rest sealed with the key of now."""
        return sum(self._is_stale(found) for found in await self._documents.list(SUBSCRIPTIONS))

    async def reseal(self) -> int:
        """Seal the secrets of all subscriptions with the key of now, and return how many changed; may be called again.

        Raises
        ------
        Conflict
            A subscription was changed at the same moment; those before it are done.
        ConfigurationError
            One was sealed with a key that is not known here.
        """
        done = 0
        async with self._change():
            for found in await self._documents.list(SUBSCRIPTIONS):
                if self._is_stale(found):
                    sealed = self._seal(self._unseal(found))
                    await self._documents.put(SUBSCRIPTIONS, found.key, sealed, version=found.version)
                    done += 1
            if done:
                await self._note_change()
        await self.load()
        return done

    def store_rate(self, destination: str) -> float | None:
        """Return a destination's own store rate."""
        found = self.catalog.destinations.get(destination)
        return found.store_rate if found is not None else None

    def spool_share(self, destination: str) -> float:
        """Return what part of each local queue a destination may fill."""
        found = self.catalog.destinations.get(destination)
        return found.spool_share if found is not None else DEFAULT_SHARE

    async def _is_untouched(self, collection: str, key: str) -> bool:
        found = await self._documents.get(collection, key)
        return found is not None and found.version == 1

    async def _record_removal(self, keys: Sequence[str]) -> Iterable[str]:
        """Record, before it is done, that somebody removes these; return all keys on record, but for the oldest."""
        kept = {found.key: int(found.value) for found in await self._documents.list(REMOVED)}
        # A number of its own: the revision begins again in an emptied store, while records that were put back are old.
        place = max(kept.values(), default=0) + 1
        for key in keys:
            kept[key] = place
            await self._documents.put(REMOVED, key, str(place).encode())
        for key in sorted(kept, key=lambda one: kept[one])[:-MOST_REMOVED]:
            await self._documents.delete(REMOVED, key)
        return kept.keys()

    async def _forget_removal(self, key: str, version: int) -> None:
        """Delete the record that somebody had removed what was made again just now."""
        if version == 1:
            await self._documents.delete(REMOVED, key)

    def _removed_but(self, key: str) -> Iterable[str] | None:
        """Return the keys on record as removed without one that was made again; None when it is not among them."""
        return self.catalog.removed - {key} if key in self.catalog.removed else None

    @asynccontextmanager
    async def _change(self) -> AsyncIterator[None]:
        """Make one change at a time; one that fails may be stored in part: the next ``refresh`` notes and reads it."""
        async with self._changing:
            try:
                yield
            except BaseException:
                self._is_noted = False
                raise

    async def _note_change(self) -> None:
        """Raise the revision in the store, so that other processes load again; several changes at once add up."""
        self._revision = await self._documents.put(SETTINGS, _REVISION, b"")
        # This becomes ``_loaded`` once the change is in force. When another process has changed something in between,
        # that is still to be loaded here.
        is_next = self._loaded == self._revision - 1 and not self.is_old
        self._noted = self._revision if is_next else self._loaded

    async def _stored_revision(self) -> int:
        found = await self._documents.get(SETTINGS, _REVISION)
        return found.version if found is not None else 0

    async def _enforce(self, catalog: Catalog) -> None:
        # Listeners make the queues of new subscriptions first, so that no message is accepted for one without.
        for listener in self._listeners:
            await asyncio.sleep(0)  # each may take a while with thousands
            await listener(catalog)
        self.catalog = catalog
        self._loaded = self._noted

    async def _withdraw(self, catalog: Catalog) -> None:
        # The other way round: no message is accepted for a subscription whose queue is being deleted.
        self.catalog = catalog
        await self._enforce(catalog)

    def _seal(self, subscription: Subscription) -> bytes:
        """Return a subscription as it rests in the store, its secrets encrypted when there is a key."""
        sealed = tuple(Secret(self._box.seal(secret.value), secret.expires_at) for secret in subscription.secrets)
        return msgspec.json.encode(msgspec.structs.replace(subscription, secrets=sealed))

    def _is_stale(self, found: Document) -> bool:
        stored = msgspec.json.decode(found.value, type=Subscription)
        return not all(self._box.is_current(secret.value) for secret in stored.secrets)

    def _unseal(self, found: Document) -> Subscription:
        stored = msgspec.json.decode(found.value, type=Subscription)
        secrets = tuple(Secret(self._box.open(secret.value), secret.expires_at) for secret in stored.secrets)
        return msgspec.structs.replace(stored, secrets=secrets, version=found.version)


def _destination(found: Document) -> Destination:
    return msgspec.structs.replace(msgspec.json.decode(found.value, type=Destination), version=found.version)


def _key(destination: str, name: str) -> str:
    return f"{destination}/{name}"
