"""The lookup proxies of the bus, of which any one answers for all of them."""

from __future__ import annotations

from typing import Final

import msgspec

from bus.bootstrap import Context
from bus.cluster.lookup_calls import LOOKUP, ROLE, LookupAnswer, LookupCall
from bus.cluster.member import Member
from bus.errors import BusError, NotFound, PeerUnavailable, RefusedElsewhere
from bus.http.problem import Problem
from bus.localized_text import localized
from bus.security.principals import Principal

_FIRST_REFUSAL: Final = 400


class LookupProxies:
    """Forwards requests to a lookup proxy, and returns its answer."""

    def __init__(self, context: Context) -> None:
        self._members = context.members
        self._peers = context.peers

    @property
    def alive(self) -> list[Member]:
        """Those that are alive."""
        return [member for member in self._members.all if ROLE in member.roles]

    async def ask(self, method: str, path: str, principal: Principal, body: object = None) -> bytes:
        """Return the JSON that one of them answers.

        Raises
        ------
        NotFound
            None of them is alive.
        PeerUnavailable
            None of those that are alive answers.
        RefusedElsewhere
            One refuses, as it says.
        """
        content = b"" if body is None else msgspec.json.encode(body)
        call = LookupCall(method, path, content, principal.name)
        answer = msgspec.msgpack.decode(await self._first(call), type=LookupAnswer)
        if answer.status >= _FIRST_REFUSAL:
            found = msgspec.json.decode(answer.content, type=Problem)
            raise RefusedElsewhere(found.detail, hint=found.hint, status=found.status, field=found.field)
        return answer.content

    async def _first(self, call: LookupCall) -> bytes:
        """Return the answer of the first reachable one; after one that may have acted no other is asked."""
        failed: BusError = NotFound(
            localized("no lookup proxy is alive; nothing was changed"),
            hint=localized("start one on the store of this bus: {command}", command="bus run lookup"),
        )
        for member in self.alive:
            try:
                return await self._peers.call(member, LOOKUP, call)
            except PeerUnavailable as error:
                if error.indeterminate:
                    raise
                failed = error
        raise failed
