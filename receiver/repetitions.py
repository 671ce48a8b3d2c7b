"""Waits until it is known of each draft whether it repeats a message, here or at a receiver of the same port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from bus.domain.claim import Claim, claim_of
from bus.domain.message import Message, decode_message
from bus.errors import BusError, PeerUnavailable
from bus.http.draft import Draft
from bus.localized_text import localized
from bus.ports.claims import Claims
from bus.ports.clock import Clock
from bus.ports.spool import Spool, decoded
from receiver.duplicates import IdempotencyKeys, RecentIds, Stored, content_of, name_of

_LOOK_AGAIN: Final = 0.005
_PATIENCE: Final = 2.0
"""Seconds that a call waits for the result of another process that is storing the same message."""
_GONE_AFTER: Final = 30.0
"""Seconds after which that process is not expected to come back, and the store is asked."""
_MOST_RECOVERED: Final = 20_000
_MOST_BYTES: Final = 256 << 20
_PAGE: Final = 64


class KnownNames(NamedTuple):
    """The result of ``Repetitions.known``: names that its caller owns and settles, and keys that others may have.

    ``unchecked`` keys are those of which the store did not say whether they were used.
    """

    claimed: frozenset[bytes]
    unchecked: frozenset[str]


class Repetitions:
    """Messages that were accepted before, in this process and, by ``claims``, in the others that share its port.

    Parameters
    ----------
    claims
        None for a process that shares its port with no other.
    is_strict
        Whether a destination keeps a strict order.
    """

    def __init__(
        self,
        recent: RecentIds,
        keys: IdempotencyKeys,
        claims: Claims | None,
        is_strict: Callable[[str], bool],
        clock: Clock,
    ) -> None:
        self._recent = recent
        self._is_strict = is_strict
        self._keys = keys
        self._claims = claims
        self._clock = clock
        # Since when (monotonic seconds) the result of each name is unknown.
        self._unsettled: dict[bytes, float] = {}

    async def recover(self, messages: AsyncIterable[Message]) -> None:
        """Note what an earlier life accepted and the store may lack, the newest first; before any other call."""
        ids: dict[str, bytes] = {}
        claims: dict[str, Claim] = {}
        async for message in messages:
            ids[message.id] = content_of(message.destination, message.body)
            if message.claim:
                claims[message.claim] = claim_of(message)
        for message_id, content in ids.items():
            self._recent.note(message_id, content)
        for scope, claim in reversed(claims.items()):  # those that are noted first are forgotten first
            self._keys.note(scope, claim, self._clock.now())
        if self._claims is not None:
            names = {name_of(message_id): content for message_id, content in ids.items()}
            names |= {bytes.fromhex(scope): msgspec.json.encode(claim) for scope, claim in claims.items()}
            self._claims.recover(names)

    async def known(self, drafts: Sequence[Draft | BusError], scopes: Sequence[str]) -> KnownNames:
        """Recall what memory lacks of the drafts, and wait until no other call or process is storing one of them.

        Until the caller awaits something, ``RecentIds`` and ``IdempotencyKeys`` have all of them that were accepted,
        but for those that are ``unchecked``.

        Raises
        ------
        PeerUnavailable
            A process that was storing one of them has ended; only its disk says whether it is accepted.
        """
        ids = {draft.id: draft.destination for draft in drafts if isinstance(draft, Draft) and draft.id}
        keys = {scope for scope in scopes if scope}
        recalled, unchecked = set[str](), frozenset[str]()
        asked: set[bytes] = set()
        until = self._clock.monotonic() + _PATIENCE
        while True:
            while others := self._in_flight(ids, keys):
                await asyncio.wait(others)
            if new := {known for known in self._forgotten(ids, keys) if known not in recalled}:
                recalled |= new
                unchecked |= await self._recall(ids, keys, new)
                continue
            names = self._unknown(ids, keys)
            if self._claims is None or not names:
                return KnownNames(frozenset(), unchecked)
            claimed = self._claims.claim(names, asked)
            self._note({names[name]: said for name, said in claimed.known.items()}, ids)
            is_late = self._clock.monotonic() > until
            if is_late and not claimed.is_locked:
                self._await_return(claimed.storing)
            doubtful = ({*claimed.doubtful, *claimed.storing} if is_late else set(claimed.doubtful)) - asked
            if doubtful:
                unchecked |= await self._recall(ids, keys, {names[name] for name in doubtful})
                asked |= doubtful
            elif not claimed.storing:
                return KnownNames(frozenset(names.keys() - claimed.known.keys()), unchecked)
            elif is_late:  # the claims cannot be read, and the store was asked
                return KnownNames(frozenset(), unchecked)
            else:
                await self._clock.sleep(_LOOK_AGAIN)

    def _await_return(self, names: Collection[bytes]) -> None:
        """Refuse what a process was storing that has ended, for as long as that may come back."""
        now = self._clock.monotonic()
        for name in names:
            self._unsettled.setdefault(name, now)
        self._unsettled = {name: at for name, at in self._unsettled.items() if now - at < 2 * _GONE_AFTER}
        if any(now - self._unsettled[name] < _GONE_AFTER for name in names):
            raise PeerUnavailable(
                localized("a process ended while it was storing this message; whether it is accepted is not known yet"),
                hint=localized("send it again under the same id or key: that process is being started"),
            )

    def settle(self, claimed: Collection[bytes], accepted: Mapping[bytes, bytes]) -> None:
        """Record the results of all names that `known` returned; ``accepted`` are durable."""
        if self._claims is not None and claimed:
            self._claims.settle(accepted, [name for name in claimed if name not in accepted])

    def _forgotten(self, ids: Collection[str], keys: Collection[str]) -> set[str]:
        """Return the names that only the store may have."""
        found = {known for known in ids if self._recent.is_doubtful(known)}
        return found | {scope for scope in keys if self._keys.find(scope) is None}

    async def _recall(self, ids: Mapping[str, str], keys: Collection[str], asked: Collection[str]) -> frozenset[str]:
        """Ask the store about some of the ids, by their destinations, and keys; return the keys that stay unknown."""
        some_keys = [scope for scope in keys if scope in asked]
        by_id = self._recent.recall({known: self._is_strict(code) for known, code in ids.items() if known in asked})
        if not some_keys:
            await by_id
            return frozenset()
        _, is_answered = await asyncio.gather(by_id, self._keys.recall(some_keys, self._clock.now()))
        return frozenset() if is_answered else frozenset(some_keys)

    def _in_flight(self, ids: Collection[str], keys: Collection[str]) -> set[Stored]:
        found = {self._recent.in_flight(known) for known in ids} | {self._keys.in_flight(scope) for scope in keys}
        # One that has ended would be awaited without end without a turn of the loop.
        return {stored for stored in found if stored is not None and not stored.done()}

    def _unknown(self, ids: Collection[str], keys: Collection[str]) -> dict[bytes, str]:
        """Return the names that memory does not have, by their names among all processes."""
        if self._claims is None:
            return {}
        unknown = {name_of(known): known for known in ids if not self._recent.knows(known)}
        return unknown | {bytes.fromhex(scope): scope for scope in keys if self._keys.find(scope) is None}

    def _note(self, accepted: Mapping[str, bytes], ids: Collection[str]) -> None:
        """Remember what other processes accepted: of an id its content, of a key its first use."""
        for known, said in accepted.items():
            if known in ids:
                self._recent.note(known, said)
            else:
                self._keys.note(known, msgspec.json.decode(said, type=Claim), self._clock.now())


async def newest_unstored(sources: Sequence[tuple[Spool, str]]) -> AsyncIterator[Message]:
    """Yield messages of spools that their consumers have not brought to the store, the newest of each stream first.

    They are ``_MOST_RECOVERED`` at most, and about ``_MOST_BYTES``; what a stream leaves of its share, others have.
    """
    waiting = [
        (found.records, spool, consumer, found.lane)
        for spool, consumer in sources
        for found in spool.stats().consumers
        if found.consumer == consumer and found.records
    ]
    records, size = _MOST_RECOVERED, _MOST_BYTES
    for number, (_, spool, consumer, lane) in enumerate(sorted(waiting, key=itemgetter(0))):
        left, left_bytes = records // (len(waiting) - number), size // (len(waiting) - number)
        before: int | None = None
        while left > 0 and left_bytes > 0:
            page = await spool.newest(consumer, min(left, _PAGE), lane, before)
            if not page:
                break
            before, read = page[-1].position, sum(len(record.payload) for record in page)
            left, left_bytes = left - len(page), left_bytes - read
            records, size = records - len(page), size - read
            for record in page:
                if (message := decoded(record, decode_message)) is not None:
                    yield message
