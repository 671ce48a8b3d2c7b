"""Messages that another process accepts, since it keeps the order of their destination, or owns their key."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from bus.cluster.leaders import Leaders, Task
from bus.cluster.member import Member
from bus.cluster.peer_app import PeerApp
from bus.cluster.peers import PREFIX, PeerKey, Peers
from bus.errors import BusError, PeerUnavailable, RefusedElsewhere, SpoolError, StoreError
from bus.http.draft import Draft
from bus.http.messages import AcceptedMessage
from bus.http.problem import Problem, problem_of
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.security.principals import Principal
from bus.transports.chains.chains import Chains
from receiver.duplicates import scope_of
from receiver.ingest import Ingest
from receiver.key_owners import KeyOwners
from receiver.routing import HERE, Route

ACCEPT: Final = f"{PREFIX}/accept"
KEYED: Final = f"{PREFIX}/accept-keyed"
_PATIENCE: Final = 3.0
"""Seconds for the owner of a key, which may wait for its disk, and twice 1 s for the store; and as long for a turn."""
_AT_ONCE: Final = 64
"""Calls to one owner, so that calls of other kinds have turns while it does not answer."""
_PAUSE: Final = 5.0
"""Seconds for which one that did not answer is not asked, but for one call that finds out."""


class _Request(NamedTuple):
    principal: Principal
    drafts: list[Draft]


class _Answer(NamedTuple):
    """Of one message; ``refusal`` is there when it was not accepted."""

    id: str
    duplicate: bool
    refusal: Problem | None
    unchecked: bool = False


_requests: Final = msgspec.msgpack.Decoder(_Request)
_answers: Final = msgspec.msgpack.Decoder(list[_Answer | None] | None)


class OrderForwarder:
    """The way to the process that accepts a message: that of its destination's order, or the owner of its key."""

    def __init__(self, leaders: Leaders, chains: Chains, owners: KeyOwners, peers: Peers, clock: Clock) -> None:
        self._leaders = leaders
        self._chains = chains
        self._owners = owners
        self._peers = peers
        self._clock = clock
        # Until when (monotonic seconds) the owners that did not answer are not asked.
        self._silent: dict[str, float] = {}
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(partial(asyncio.Semaphore, _AT_ONCE))

    def is_here(self, destination: str) -> bool:
        """Whether this process accepts a destination's messages itself, but for those with a key."""
        if self._chains.is_strict(destination):
            return self._chains.sends(destination)
        return not self._leaders.is_ordered(destination) or self._leaders.leads(Task.ACCEPTING, destination)

    def route(self, destination: str, scope: str) -> Route:
        """Return by which process a message is accepted; ``scope`` is the name of its key, empty without one."""
        if not self.is_here(destination):
            return Route(destination)
        # Where an order is kept, its process owns the keys as well.
        if not scope or self._chains.is_strict(destination) or self._leaders.is_ordered(destination):
            return HERE
        return Route(key_owner=self._owners.owner(scope))

    def is_alone(self) -> bool:
        """Whether there is no other receiver that may accept a key."""
        return self._owners.is_alone

    async def forward(
        self, route: Route, drafts: Sequence[Draft], principal: Principal
    ) -> Sequence[AcceptedMessage | BusError | None]:
        """Have messages accepted by another process; what was accepted is durable there.

        None for a message if the process that owns its key does not answer, and may have accepted it, now or before, or
        does not take it. Those of a strictly ordered destination are not forwarded: their producer gets the process to
        which it has to send them.
        """
        if route.key_owner:
            return await self._forward_keyed(route.key_owner, drafts, principal)
        return await self._forward_ordered(route.destination, drafts, principal)

    async def _forward_ordered(
        self, destination: str, drafts: Sequence[Draft], principal: Principal
    ) -> Sequence[AcceptedMessage | BusError]:
        if self._chains.is_strict(destination):
            return [self._chains.elsewhere(destination)] * len(drafts)
        leader = self._leaders.leader(Task.ACCEPTING, destination)
        if leader is None:
            return [_nobody(destination)] * len(drafts)
        try:
            found = _answers.decode(await self._peers.call(leader, ACCEPT, _Request(principal, list(drafts))))
        except PeerUnavailable as error:
            return [error] * len(drafts)
        except msgspec.DecodeError as error:
            return [_of_another_version(leader.url, error)] * len(drafts)
        if found is None or len(found) != len(drafts):
            return [_nobody(destination)] * len(drafts)
        return [_nobody(destination) if answer is None else _read(answer) for answer in found]

    async def _forward_keyed(
        self, owner: str, drafts: Sequence[Draft], principal: Principal
    ) -> Sequence[AcceptedMessage | BusError | None]:
        unanswered: Sequence[None] = [None] * len(drafts)
        member, now = self._owners.member(owner), self._clock.monotonic()
        if member is None:
            self._silent.pop(owner, None)
            self._turns.pop(owner, None)
        if member is None or self._silent.get(owner, now) > now:
            return unanswered
        if owner in self._silent:
            self._silent[owner] = now + 2 * _PATIENCE
        try:
            found = await self._ask_owner(member, _Request(principal, list(drafts)))
        except (PeerUnavailable, TimeoutError, msgspec.DecodeError):
            self._silent[owner] = self._clock.monotonic() + _PAUSE
            return unanswered
        self._silent.pop(owner, None)
        if found is None or len(found) != len(drafts):
            return unanswered
        return [None if answer is None else _read(answer) for answer in found]

    async def _ask_owner(self, owner: Member, request: _Request) -> list[_Answer | None] | None:
        turn = self._turns[owner.owner]
        async with asyncio.timeout(_PATIENCE):
            await turn.acquire()
        try:
            found: list[_Answer | None] | None = _answers.decode(
                await self._peers.call(owner, KEYED, request, within=_PATIENCE)
            )
        finally:
            turn.release()
        return found


class ForwardedApp(PeerApp):
    """The requests that a receiver accepts for the other processes."""

    def __init__(self, ingest: Ingest, leaders: Leaders, owners: KeyOwners, key: PeerKey) -> None:
        self._ingest = ingest
        self._leaders = leaders
        self._owners = owners
        super().__init__(key, {ACCEPT: self._accept, KEYED: self._accept_keyed})

    async def _accept(self, body: bytes) -> list[_Told] | None:
        """Accept messages of one destination; None when their order is not kept here."""
        request = _requests.decode(body)
        if not all(self._leaders.leads(Task.ACCEPTING, draft.destination) for draft in request.drafts):
            return None
        try:
            return [_told(one) for one in await self._ingest.accept(request.drafts, request.principal)]
        except BusError as error:
            return [_told(error)] * len(request.drafts)

    async def _accept_keyed(self, body: bytes) -> list[_Told | None]:
        """Accept messages whose keys this process owns; None for one of another's, or that this disk does not take."""
        principal, drafts = _requests.decode(body)
        scopes = (scope_of(draft.destination, principal.id, draft.repeats) for draft in drafts)
        own = [not self._owners.owner(scope) for scope in scopes]
        try:
            await self._ingest.until_current()
            found = await self._ingest.accept_here(
                [draft for draft, is_own in zip(drafts, own, strict=True) if is_own], principal
            )
        except (SpoolError, StoreError):
            return [None] * len(drafts)
        except BusError as error:
            found = [error] * sum(own)
        answers = iter(found)
        return [_told_or_not(next(answers)) if is_own else None for is_own in own]


_Told = tuple[str, bool, Problem | None] | tuple[str, bool, Problem | None, bool]


def _told(found: AcceptedMessage | BusError) -> _Told:
    """Return the fields of ``_Answer``; an earlier version reads three fields, so the fourth is there only if true."""
    if isinstance(found, BusError):
        return ("", False, problem_of(found))
    told = (found.id, found.duplicate, None)
    return (*told, True) if found.unchecked else told


def _told_or_not(found: AcceptedMessage | BusError) -> _Told | None:
    return None if isinstance(found, SpoolError) else _told(found)


def _read(answer: _Answer) -> AcceptedMessage | BusError:
    refusal = answer.refusal
    if refusal is None:
        return AcceptedMessage(answer.id, answer.duplicate, answer.unchecked)
    return RefusedElsewhere(
        refusal.detail, hint=refusal.hint, status=refusal.status, field=refusal.field, wait=refusal.retry_after
    )


def _nobody(destination: str) -> PeerUnavailable:
    return PeerUnavailable(
        localized(
            "the process that keeps the order of {code} does not answer; this message is not accepted",
            code=repr(destination),
        ),
        hint=localized("send it again: it is accepted as soon as that process is back"),
    )


def _of_another_version(url: str, error: Exception) -> PeerUnavailable:
    return PeerUnavailable(
        localized("{url} is of another version: {error}", url=url, error=str(error)), indeterminate=True
    )
