"""Which messages were accepted before, by id and by Idempotency-Key."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from typing import Final, NamedTuple

import msgspec

from bus.domain.identity import id_time
from bus.domain.times import DAY, day_of
from bus.errors import StoreError
from bus.ports.store import DocumentStore, TraceStore

IDEMPOTENCY: Final = "idempotency"
_RECENT: Final = 100_000
Stored = asyncio.Future[None]


class _Known(NamedTuple):
    """What an id stands for, as far as it is known; ``stored`` ends when its record is on the disk, or could not be."""

    content: bytes | None
    stored: Stored | None


class Recent:
    """Ids accepted lately, and those whose record is on its way to the disk right now."""

    def __init__(self, store: TraceStore, started_at: int) -> None:
        self._store = store
        self._ids: OrderedDict[str, _Known] = OrderedDict()
        self._horizon = started_at

    def begin(self, message_id: str, content: bytes | None, stored: Stored) -> None:
        """Note an id whose record is on its way to the disk; ``content`` as of ``content_of``, None for unknown."""
        self._ids[message_id] = _Known(content, stored)
        self._forget_oldest()

    def finish(self, message_id: str) -> None:
        """Note that the record is durable."""
        known = self._ids.get(message_id)
        self._ids[message_id] = _Known(known.content if known is not None else None, None)
        self._forget_oldest()

    def forget(self, message_id: str) -> None:
        """Take back an id whose record could not be stored."""
        self._ids.pop(message_id, None)

    def knows(self, message_id: str) -> bool:
        """Whether the id was accepted, or is being stored."""
        return message_id in self._ids

    def is_other(self, message_id: str, content: bytes) -> bool:
        """Whether a known id was accepted for another destination or body."""
        known = self._ids[message_id].content
        return known is not None and known != content

    def in_flight(self, message_id: str) -> Stored | None:
        """Return what ends when the id's record is stored or could not be; None when it is not on its way."""
        known = self._ids.get(message_id)
        return known.stored if known is not None else None

    def is_doubtful(self, message_id: str) -> bool:
        """Whether only the store can say, since an earlier life may have accepted the id."""
        return message_id not in self._ids and id_time(message_id) < self._horizon

    async def recall(self, message_id: str) -> None:
        """Ask the store about an id; one that does not answer is as one that does not know: repeating loses nothing."""
        try:
            found = await self._store.trace(message_id)
            message = await self._store.message(message_id) if found is not None and found.message else None
        except StoreError:
            return
        if found is not None:
            content = content_of(message.destination, message.body) if message is not None else None
            self._ids.setdefault(message_id, _Known(content, None))
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        if len(self._ids) > _RECENT:
            oldest, _ = self._ids.popitem(last=False)
            self._horizon = max(self._horizon, id_time(oldest) + 1)


class Claim(msgspec.Struct, frozen=True):
    """What an Idempotency-Key stands for: the first id, that request's body, and when."""

    message_id: str
    body: str
    at: int


class IdempotencyKeys:
    """Maps an Idempotency-Key to the first id for 24 h, per destination and API key; kept in the store."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self._lately: OrderedDict[str, tuple[Claim, Stored | None]] = OrderedDict()

    def find(self, scope: str, now: int) -> Claim | None:
        """Return who used the key first, within 24 h, as far as memory knows."""
        known = self._lately.get(scope)
        return known[0] if known is not None and known[0].at > now - DAY else None

    def in_flight(self, scope: str) -> Stored | None:
        """Return what ends when the record of the first use is stored or could not be."""
        known = self._lately.get(scope)
        return known[1] if known is not None else None

    def claim(self, scope: str, claim: Claim, stored: Stored) -> None:
        """Note the first use, whose record is on its way to the disk."""
        self._remember(scope, claim, stored)

    def unclaim(self, scope: str) -> None:
        """Take the note back: the record could not be stored."""
        self._lately.pop(scope, None)

    async def keep(self, scope: str, claim: Claim) -> None:
        """Write the first use, whose record is durable now; best effort: in memory it is known."""
        self._remember(scope, claim, None)
        with contextlib.suppress(StoreError):
            await self._documents.put(IDEMPOTENCY, f"{day_of(claim.at)}/{scope}", msgspec.json.encode(claim))

    async def recall(self, scope: str, now: int) -> None:
        """Ask the store about a key that memory does not know; one that does not answer does not know."""
        for day in (day_of(now), day_of(now - DAY)):
            try:
                found = await self._documents.get(IDEMPOTENCY, f"{day}/{scope}")
            except StoreError:
                return
            if found is not None:
                if scope not in self._lately:
                    self._remember(scope, msgspec.json.decode(found.value, type=Claim), None)
                return

    def _remember(self, scope: str, claim: Claim, stored: Stored | None) -> None:
        self._lately[scope] = (claim, stored)
        if len(self._lately) > _RECENT:
            self._lately.popitem(last=False)


def scope_of(destination: str, principal: str, key: tuple[str, ...]) -> str:
    """Return the name under which a key is kept; keys of one part and of two are never the same."""
    return hashlib.sha256(msgspec.json.encode((destination, principal, *key))).hexdigest()


def digest(body: bytes) -> str:
    """Return what tells one body from another."""
    return hashlib.sha256(body).hexdigest()


def content_of(destination: str, body: bytes) -> bytes:
    """Return what tells one message from another that has its id."""
    return hashlib.sha256(destination.encode() + b"\n" + body).digest()
