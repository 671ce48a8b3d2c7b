"""Messages that another process accepts, since it keeps the order of their destination, or owns their key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from bus.cluster.leaders import Leaders, Task
from bus.cluster.peer_app import PeerApp
from bus.cluster.peers import PREFIX, PeerKey, Peers
from bus.errors import BusError, PeerUnavailable, RefusedElsewhere
from bus.http.draft import Draft
from bus.http.messages import Accepted
from bus.http.problem import Problem, problem_of
from bus.ports.clock import Clock
from bus.security.principals import Principal
from bus.sentences import sentence
from bus.transports.chains.chains import Chains
from receiver.duplicates import scope_of
from receiver.ingest import Ingest
from receiver.key_owners import KeyOwners
from receiver.routing import HERE, Route

ACCEPT: Final = f"{PREFIX}/accept"
KEYED: Final = f"{PREFIX}/accept-keyed"
_FULL: Final = 507
_PATIENCE: Final = 3.0
"""Seconds for the owner of a key, which may wait for its disk, and 2 s for the store."""
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


class _KeyedAnswer(NamedTuple):
    answer: _Answer
    unchecked: bool


_requests: Final = msgspec.msgpack.Decoder(_Request)
_answers: Final = msgspec.msgpack.Decoder(list[_Answer] | None)
_keyed_answers: Final = msgspec.msgpack.Decoder(list[_KeyedAnswer] | None)


class Forwarding:
    """The way to the process that accepts a message: that of its destination's order, or the owner of its key."""

    def __init__(self, leaders: Leaders, chains: Chains, owners: KeyOwners, peers: Peers, clock: Clock) -> None:
        self._leaders = leaders
        self._chains = chains
        self._owners = owners
        self._peers = peers
        self._clock = clock
        # Until when (monotonic seconds) the owners that did not answer are not asked.
        self._silent: dict[str, float] = {}

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
        has_order = self._chains.is_strict(destination) or self._leaders.is_ordered(destination)
        return HERE if has_order or not scope else Route(key_owner=self._owners.owner(scope))

    async def forward(
        self, route: Route, drafts: Sequence[Draft], principal: Principal
    ) -> Sequence[Accepted | BusError] | None:
        """Have messages accepted by another process; what was accepted is durable there.

        None if the process that owns their keys does not answer: it may have accepted them, now or before. Those of a
        strictly ordered destination are not forwarded: their producer is told where to send them.
        """
        if route.key_owner:
            return await self._forward_keyed(route.key_owner, drafts, principal)
        return await self._forward_ordered(route.destination, drafts, principal)

    async def _forward_ordered(
        self, destination: str, drafts: Sequence[Draft], principal: Principal
    ) -> Sequence[Accepted | BusError]:
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
        return [_read(answer) for answer in found]

    async def _forward_keyed(
        self, owner: str, drafts: Sequence[Draft], principal: Principal
    ) -> Sequence[Accepted | BusError] | None:
        member, now = self._owners.member(owner), self._clock.monotonic()
        if member is None or self._silent.get(owner, now) > now:
            return None
        if owner in self._silent:
            self._silent[owner] = now + _PATIENCE
        request = _Request(principal, list(drafts))
        try:
            found = _keyed_answers.decode(await self._peers.call(member, KEYED, request, within=_PATIENCE))
        except (PeerUnavailable, msgspec.DecodeError):
            self._silent[owner] = self._clock.monotonic() + _PAUSE
            return None
        self._silent.pop(owner, None)
        if found is None or len(found) != len(drafts):
            return None  # it takes another process for the owner
        answers = [_read(answer, unchecked=unchecked) for answer, unchecked in found]
        # One whose disk is full must not stop a message that this process can accept.
        is_full = all(isinstance(one, RefusedElsewhere) and one.status == _FULL for one in answers)
        return None if is_full else answers


class ForwardedApp(PeerApp):
    """What a receiver accepts for the other processes."""

    def __init__(self, ingest: Ingest, leaders: Leaders, owners: KeyOwners, key: PeerKey) -> None:
        self._ingest = ingest
        self._leaders = leaders
        self._owners = owners
        super().__init__(key, {ACCEPT: self._accept, KEYED: self._accept_keyed})

    async def _accept(self, body: bytes) -> list[_Answer] | None:
        """Accept messages of one destination; None when their order is not kept here."""
        request = _requests.decode(body)
        if not all(self._leaders.leads(Task.ACCEPTING, draft.destination) for draft in request.drafts):
            return None
        try:
            return [_answer(one) for one in await self._ingest.accept(request.drafts, request.principal)]
        except BusError as error:
            return [_answer(error)] * len(request.drafts)

    async def _accept_keyed(self, body: bytes) -> list[_KeyedAnswer] | None:
        """Accept messages whose keys this process owns; None if it does not own one of them."""
        principal, drafts = _requests.decode(body)
        scopes = (scope_of(draft.destination, principal.id, draft.repeats) for draft in drafts)
        if any(self._owners.owner(scope) for scope in scopes):
            return None
        try:
            await self._ingest.until_current()
            found: Sequence[Accepted | BusError] = await self._ingest.accept_here(drafts, principal)
        except BusError as error:
            found = [error] * len(drafts)
        return [_KeyedAnswer(_answer(one), isinstance(one, Accepted) and one.unchecked) for one in found]


def _answer(found: Accepted | BusError) -> _Answer:
    if isinstance(found, Accepted):
        return _Answer(found.id, found.duplicate, None)
    return _Answer("", False, problem_of(found))


def _read(answer: _Answer, *, unchecked: bool = False) -> Accepted | BusError:
    refusal = answer.refusal
    if refusal is None:
        return Accepted(answer.id, answer.duplicate, unchecked)
    return RefusedElsewhere(
        refusal.detail, hint=refusal.hint, status=refusal.status, field=refusal.field, wait=refusal.retry_after
    )


def _nobody(destination: str) -> PeerUnavailable:
    return PeerUnavailable(
        sentence(
            "the process that keeps the order of {code} does not answer; this message is not accepted",
            code=repr(destination),
        ),
        hint=sentence("send it again: it is accepted as soon as that process is back"),
    )


def _of_another_version(url: str, error: Exception) -> PeerUnavailable:
    return PeerUnavailable(
        sentence("{url} is of another version: {error}", url=url, error=str(error)), indeterminate=True
    )
