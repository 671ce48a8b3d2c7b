"""Messages that another process accepts, since it keeps the order of their destination."""

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
from bus.security.principals import Principal
from bus.sentences import sentence
from bus.transports.chains.chains import Chains
from receiver.ingest import Ingest

ACCEPT: Final = f"{PREFIX}/accept"


class _Request(NamedTuple):
    principal: Principal
    drafts: list[Draft]


class _Answer(NamedTuple):
    """Of one message; ``refusal`` is there when it was not accepted."""

    id: str
    duplicate: bool
    refusal: Problem | None


_requests: Final = msgspec.msgpack.Decoder(_Request)
_answers: Final = msgspec.msgpack.Decoder(list[_Answer] | None)


class Forwarding:
    """The way to the process that accepts the messages of a destination that keeps an order."""

    def __init__(self, leaders: Leaders, chains: Chains, peers: Peers) -> None:
        self._leaders = leaders
        self._chains = chains
        self._peers = peers

    def is_here(self, destination: str) -> bool:
        """Whether this process accepts a destination's messages itself."""
        if self._chains.is_strict(destination):
            return self._chains.sends(destination)
        return not self._leaders.is_ordered(destination) or self._leaders.leads(Task.ACCEPTING, destination)

    async def forward(
        self, destination: str, drafts: Sequence[Draft], principal: Principal
    ) -> Sequence[Accepted | BusError]:
        """Have messages of one destination accepted where its order is kept; what was accepted is durable there.

        Those of a strictly ordered one are not forwarded: their producer is told where to send them.
        """
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


class ForwardedApp(PeerApp):
    """What a receiver accepts for the other processes."""

    def __init__(self, ingest: Ingest, leaders: Leaders, key: PeerKey) -> None:
        self._ingest = ingest
        self._leaders = leaders
        super().__init__(key, {ACCEPT: self._accept})

    async def _accept(self, body: bytes) -> list[_Answer] | None:
        """Accept messages of one destination; None when their order is not kept here."""
        request = _requests.decode(body)
        if not all(self._leaders.leads(Task.ACCEPTING, draft.destination) for draft in request.drafts):
            return None
        try:
            return [_answer(one) for one in await self._ingest.accept(request.drafts, request.principal)]
        except BusError as error:
            return [_answer(error)] * len(request.drafts)


def _answer(found: Accepted | BusError) -> _Answer:
    return _Answer(*found, None) if isinstance(found, Accepted) else _Answer("", False, problem_of(found))


def _read(answer: _Answer) -> Accepted | BusError:
    refusal = answer.refusal
    if refusal is None:
        return Accepted(answer.id, answer.duplicate)
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
