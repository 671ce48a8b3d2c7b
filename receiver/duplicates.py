"""Which messages were accepted before, by id and by Idempotency-Key."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

import msgspec

from bus.domain.identity import id_time
from bus.domain.times import DAY, day_of
from bus.ports.store import DocumentStore, TraceStore

IDEMPOTENCY: Final = "idempotency"
_RECENT: Final = 100_000


class Recent:
    """Ids accepted lately; one that is being stored right now makes its twin wait for how that ends."""

    def __init__(self, store: TraceStore, started_at: int) -> None:
        self._store = store
        self._ids: dict[str, asyncio.Future[bool] | None] = {}
        self._horizon = started_at

    def begin(self, message_id: str, stored: asyncio.Future[bool]) -> None:
        """Note an id whose record is on its way to the disk; ``stored`` tells whether it got there."""
        self._ids[message_id] = stored
        if len(self._ids) > _RECENT:
            oldest = next(iter(self._ids))
            del self._ids[oldest]
            self._horizon = max(self._horizon, id_time(oldest))

    def finish(self, message_id: str) -> None:
        """Note that the record is durable."""
        self._ids[message_id] = None

    def forget(self, message_id: str) -> None:
        """Take back an id whose record could not be stored."""
        self._ids.pop(message_id, None)

    async def knows(self, message_id: str, own: asyncio.Future[bool]) -> bool:
        """Whether the id was accepted, in this life or, as far as the store can say, in an earlier one.

        ``own`` is what the asking call began its ids with: an id that it began itself stands twice in its batch.

        Raises
        ------
        StoreUnavailable
            The store has to be asked and does not answer; the caller accepts, since repeating loses nothing.
        """
        if message_id in self._ids:
            stored = self._ids[message_id]
            return stored is None or stored is own or await asyncio.shield(stored)
        return id_time(message_id) < self._horizon and await self._store.trace(message_id) is not None


class Claim(msgspec.Struct, frozen=True):
    """What an Idempotency-Key stands for: the first id, that request's body, and when."""

    message_id: str
    body: str
    at: int


class IdempotencyKeys:
    """Maps an Idempotency-Key to the first id for 24 h, per destination and API key; kept in the store."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self._lately: dict[str, Claim] = {}

    async def find(self, scope: str, now: int) -> Claim | None:
        """Return who used the key first, within 24 h."""
        claim = self._lately.get(scope) or await self._stored(scope, now)
        return claim if claim is not None and claim.at > now - DAY else None

    def claim(self, scope: str, claim: Claim) -> None:
        """Note the first use in memory, before its record is durable."""
        self._lately[scope] = claim
        if len(self._lately) > _RECENT:
            del self._lately[next(iter(self._lately))]

    def unclaim(self, scope: str) -> None:
        """Take the note back: the record could not be stored."""
        self._lately.pop(scope, None)

    async def keep(self, scope: str, claim: Claim) -> None:
        """Write the first use, after its record is durable."""
        await self._documents.put(IDEMPOTENCY, f"{day_of(claim.at)}/{scope}", msgspec.json.encode(claim))

    async def _stored(self, scope: str, now: int) -> Claim | None:
        for day in (day_of(now), day_of(now - DAY)):
            found = await self._documents.get(IDEMPOTENCY, f"{day}/{scope}")
            if found is not None:
                return msgspec.json.decode(found.value, type=Claim)
        return None


def scope_of(destination: str, principal: str, key: str) -> str:
    """Return the name under which a key is kept."""
    return hashlib.sha256(f"{destination}\n{principal}\n{key}".encode()).hexdigest()


def digest(body: bytes) -> str:
    """Return what tells one body from another."""
    return hashlib.sha256(body).hexdigest()
