"""Messages that were accepted before, by id and by Idempotency-Key."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from bus.domain.claim import IDEMPOTENCY, Claim, document_key
from bus.domain.identity import id_time
from bus.domain.message import Message
from bus.domain.times import DAY, HOUR
from bus.domain.tracing.trace import Trace
from bus.errors import Conflict, StoreError
from bus.ports.clock import Clock
from bus.ports.store import DocumentStore, TraceStore
from bus.stores.brief_questions import BriefQuestions

MOST_AHEAD: Final = 600_000
"""By how many milliseconds the time of a new id may be ahead."""
# At 50 messages a second full after ten minutes, from when on memory grows no more; the store is asked for older ids.
_RECENT: Final = 30_000
_RECENT_KEYS: Final = 20_000  # the store is asked for the others
_UNKNOWN: Final = b"?"
_TIME_BYTES: Final = 6  # of an id, milliseconds
_CONTENT_BYTES: Final = 16
Stored = asyncio.Future[None]


class RecentIds:
    """Recently accepted ids, and those whose record is on its way to the disk right now.

    There are tens of thousands, so they are kept as bytes, in two generations: the older one is forgotten as soon as
    the younger one is full. The store is asked about every id that is not later than the latest forgotten one, so ids
    that are ahead of the clock are not forgotten yet, unless they are more than half of the generation.
    """

    def __init__(self, store: TraceStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._questions = BriefQuestions(clock)
        self._younger: dict[bytes, bytes] = {}
        self._older: dict[bytes, bytes] = {}
        self._storing: dict[bytes, Stored] = {}
        self._set_horizon(clock.now())

    def begin(self, message_id: str, content: bytes | None, stored: Stored) -> None:
        """Note an id whose record is on its way to the disk; ``content`` as of ``content_of``, None for unknown."""
        key = name_of(message_id)
        self._storing[key] = stored
        self._remember(key, content)

    def finish(self, message_id: str) -> None:
        """Note that the record is durable."""
        key = name_of(message_id)
        self._storing.pop(key, None)
        if self._content(key) is None:  # forgotten meanwhile
            self._remember(key, None)

    def note(self, message_id: str, content: bytes) -> None:
        """Note an id that another process accepted."""
        if not self.knows(message_id):
            self._remember(name_of(message_id), content)

    def forget(self, message_id: str) -> None:
        """Take back an id whose record could not be stored."""
        key = name_of(message_id)
        for ids in (self._storing, self._younger, self._older):
            ids.pop(key, None)

    def knows(self, message_id: str) -> bool:
        """Whether the id was accepted, or is being stored."""
        return self._content(name_of(message_id)) is not None

    def is_other(self, message_id: str, content: bytes) -> bool:
        """Whether a known id was accepted for another destination or body."""
        return self._content(name_of(message_id)) not in (None, _UNKNOWN, content)

    def in_flight(self, message_id: str) -> Stored | None:
        """Return a future that ends when the id's record is stored or could not be; None when none is on its way."""
        return self._storing.get(name_of(message_id))

    def is_doubtful(self, message_id: str) -> bool:
        """Whether only the store can say if the id was accepted: before a restart, or so long ago that it is forgotten.

        An id that is too far ahead to be new may have been accepted before the clock was put back.
        """
        made, now = id_time(message_id), self._clock.now()
        return (made < self._horizon() or made > now + MOST_AHEAD) and not self.knows(message_id)

    async def recall(self, ids: Mapping[str, bool]) -> None:
        """Ask the store about ids; without an answer they count as new, since accepting one twice loses nothing.

        A message of a strictly ordered destination (True) may be delivered before it is accepted, so its outcomes alone
        do not say that it was.
        """
        if not (ids and self._questions.may_ask):
            return
        try:
            found = await self._questions.answer([self._read(message_id) for message_id in ids])
        except StoreError:
            return
        for (message_id, is_strict), (trace, message) in zip(ids.items(), found, strict=True):
            if trace is not None and (message is not None or not is_strict) and not self.knows(message_id):
                self._remember(name_of(message_id), content_of(message.destination, message.body) if message else None)

    async def _read(self, message_id: str) -> tuple[Trace | None, Message | None]:
        found = await self._store.trace(message_id)
        return found, await self._store.message(message_id) if found is not None and found.message else None

    def _content(self, key: bytes) -> bytes | None:
        return self._younger.get(key) or self._older.get(key)

    def _remember(self, key: bytes, content: bytes | None) -> None:
        self._younger[key] = content or _UNKNOWN
        if len(self._younger) >= _RECENT // 2:
            self._older, self._younger = self._younger, self._forget_older()

    def _forget_older(self) -> dict[bytes, bytes]:
        """Move the horizon behind the older generation; return what is not forgotten of it."""
        after_now = (self._clock.now() + 1).to_bytes(_TIME_BYTES)
        ahead = {key: content for key, content in self._older.items() if key >= after_now}
        if len(ahead) > len(self._older) // 2:
            ahead = {}  # so many would stay that there is no bound
        if forgotten := self._older.keys() - ahead.keys():
            self._set_horizon(max(self._horizon(), int.from_bytes(max(forgotten)[:_TIME_BYTES]) + 1))
        return ahead

    def _set_horizon(self, time: int) -> None:
        self._forgotten, self._forgotten_at = time, self._clock.monotonic()

    def _horizon(self) -> int:
        """Return the time from which on no id was forgotten, but for those of a clock that was ahead and was put back.

        The latest forgotten one counts as no further ahead of its time than ``MOST_AHEAD``, by the clock of now.
        """
        then = self._clock.now() - round((self._clock.monotonic() - self._forgotten_at) * 1000)
        return min(self._forgotten, then + MOST_AHEAD)


def name_of(message_id: str) -> bytes:
    """Return the bytes of an id, of which the first six are its time."""
    return bytes.fromhex(message_id.replace("-", ""))


class _Use(NamedTuple):
    """The first use of a key; ``until`` (monotonic seconds) is when it is used as new again."""

    claim: Claim
    stored: Stored | None
    until: float


class IdempotencyKeys:
    """Maps an Idempotency-Key to the first id for 24 h, per destination and API key; kept in the store.

    In memory keys age by monotonic time, whatever is done to the wall clock.
    """

    def __init__(self, documents: DocumentStore, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self._questions, self._writes = BriefQuestions(clock), BriefQuestions(clock)
        self._lately: OrderedDict[str, _Use] = OrderedDict()

    def find(self, scope: str) -> Claim | None:
        """Return the first use of the key within 24 h, if memory has it."""
        known = self._lately.get(scope)
        return known.claim if known is not None and known.until > self._clock.monotonic() else None

    def in_flight(self, scope: str) -> Stored | None:
        """Return a future that ends when the record of the first use is stored or could not be; None without one."""
        known = self._lately.get(scope)
        return known.stored if known is not None else None

    def claim(self, scope: str, claim: Claim, stored: Stored) -> None:
        """Note the first use, whose record is on its way to the disk."""
        self._remember(scope, claim, stored)

    def unclaim(self, scope: str) -> None:
        """Take the note back: the record could not be stored."""
        self._lately.pop(scope, None)

    def note(self, scope: str, claim: Claim, now: int) -> None:
        """Note the first use that another process accepted."""
        if self.find(scope) is None:
            self._remember(scope, claim, None, age=now - claim.at)

    async def keep(self, claims: Sequence[tuple[str, Claim]], *, within: float) -> set[str]:
        """Write first uses, whose records are durable, and return the ids of the messages that the store confirms.

        The feed writes the others, with their messages. Of those for which the store has another message, two receivers
        accepted one at the same time: the store's is what the key stands for.

        Parameters
        ----------
        within
            Seconds for which the store is awaited.
        """
        for scope, claim in claims:
            self._remember(scope, claim, None)
        if not (self._writes.may_ask and self._questions.may_ask):
            return set()
        try:
            kept = await self._writes.answer([self._put(scope, claim) for scope, claim in claims], within)
        except StoreError:
            return set()
        return {claim.message_id for claim in kept}

    async def _put(self, scope: str, claim: Claim) -> Claim:
        """Write a first use, and return the one that the store has."""
        key = document_key(scope, claim.at)
        with contextlib.suppress(Conflict):
            await self._documents.put(IDEMPOTENCY, key, msgspec.json.encode(claim), version=0)
            return claim
        found = await self._documents.get(IDEMPOTENCY, key)
        kept = msgspec.json.decode(found.value, type=Claim) if found is not None else claim
        self._remember(scope, kept, None)
        return kept

    async def recall(self, scopes: Collection[str], now: int) -> bool:
        """Ask the store about keys that memory does not have; return whether it answered."""
        if not self._questions.may_ask:
            return False
        try:
            found = await self._questions.answer([self._read(scope, now) for scope in scopes])
        except StoreError:
            return False
        for scope, claim in zip(scopes, found, strict=True):
            if claim is not None:
                self.note(scope, claim, now)
        return True

    async def _read(self, scope: str, now: int) -> Claim | None:
        # One of an hour ahead is by a clock that was.
        days = dict.fromkeys(document_key(scope, at) for at in (now, now - DAY, now + HOUR))
        for key in days:
            found = await self._documents.get(IDEMPOTENCY, key)
            if found is not None:
                return msgspec.json.decode(found.value, type=Claim)
        return None

    def _remember(self, scope: str, claim: Claim, stored: Stored | None, *, age: int = 0) -> None:
        self._lately[scope] = _Use(claim, stored, self._clock.monotonic() + (DAY - max(0, age)) / 1000)
        if len(self._lately) > _RECENT_KEYS:
            self._lately.popitem(last=False)


def scope_of(destination: str, principal: str, key: tuple[str, ...]) -> str:
    """Return the name under which a key is kept; keys of one part and of two are never the same."""
    return hashlib.sha256(msgspec.json.encode((destination, principal, *key))).hexdigest()


def content_of(destination: str, body: bytes) -> bytes:
    """Return the hash by which messages with the same id are compared."""
    return hashlib.sha256(destination.encode() + b"\n" + body).digest()[:_CONTENT_BYTES]
