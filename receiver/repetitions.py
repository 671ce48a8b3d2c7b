"""Waits until it is known of each draft whether it repeats a message, here or at a receiver of the same port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from bus.errors import BusError
from bus.http.draft import Draft
from bus.ports.claims import Claims
from bus.ports.clock import Clock
from receiver.duplicates import Claim, IdempotencyKeys, Recent, Stored, name_of

_LOOK_AGAIN: Final = 0.005
_PATIENCE: Final = 2.0
"""Seconds after which a process that was storing a message is taken for dead, and the store is asked."""


class Repetitions:
    """What was accepted before, in this process and, by ``claims``, in the others that share its port.

    Parameters
    ----------
    claims
        None for a process that shares its port with no other.
    is_strict
        Whether a destination keeps a strict order.
    """

    def __init__(
        self,
        recent: Recent,
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

    async def known(self, drafts: Sequence[Draft | BusError], scopes: Sequence[str]) -> frozenset[bytes]:
        """Recall what memory lacks of the drafts, and wait until nobody else is storing one of them.

        Until the caller awaits something, ``Recent`` and ``IdempotencyKeys`` know all of them that were accepted. The
        names that it returns are the caller's, who settles them.
        """
        ids = {draft.id: draft.destination for draft in drafts if isinstance(draft, Draft) and draft.id}
        keys = {scope for scope in scopes if scope}
        await self._recall(
            {known: destination for known, destination in ids.items() if self._recent.is_doubtful(known)},
            [scope for scope in keys if self._keys.find(scope) is None],
        )
        asked: set[bytes] = set()
        until = self._clock.monotonic() + _PATIENCE
        while True:
            while others := self._in_flight(ids, keys):
                await asyncio.wait(others)
            names = self._unknown(ids, keys)
            if self._claims is None or not names:
                return frozenset()
            claimed = self._claims.claim(names, asked)
            self._note({names[name]: said for name, said in claimed.known.items()}, ids)
            is_late = self._clock.monotonic() > until
            doubtful = ({*claimed.doubtful, *claimed.storing} if is_late else set(claimed.doubtful)) - asked
            if doubtful:
                told = [names[name] for name in doubtful]
                await self._recall({one: ids[one] for one in told if one in ids}, [one for one in told if one in keys])
                asked |= doubtful
            elif not claimed.storing:
                return frozenset(names.keys() - claimed.known.keys())
            elif is_late:  # nobody gets at the claims, and the store was asked
                return frozenset()
            else:
                await self._clock.sleep(_LOOK_AGAIN)

    def settle(self, claimed: Collection[bytes], accepted: Mapping[bytes, bytes]) -> None:
        """Say of all names that `known` returned what became of them; ``accepted`` are durable."""
        if self._claims is not None and claimed:
            self._claims.settle(accepted, [name for name in claimed if name not in accepted])

    async def _recall(self, ids: Mapping[str, str], keys: Collection[str]) -> None:
        now = self._clock.now()
        recalls = [self._recent.recall(known, is_strict=self._is_strict(code)) for known, code in ids.items()]
        recalls += [self._keys.recall(scope, now) for scope in keys]
        if recalls:
            await asyncio.gather(*recalls)

    def _in_flight(self, ids: Collection[str], keys: Collection[str]) -> set[Stored]:
        found = {self._recent.in_flight(known) for known in ids} | {self._keys.in_flight(scope) for scope in keys}
        # One that has ended would be awaited for ever without a turn of the loop.
        return {stored for stored in found if stored is not None and not stored.done()}

    def _unknown(self, ids: Collection[str], keys: Collection[str]) -> dict[bytes, str]:
        """Return what memory does not know, by its name among all processes."""
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
