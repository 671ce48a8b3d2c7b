"""HTTP application for the other processes of the bus: msgpack in, msgpack out, only with the key of this bus."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from bus.cluster.peers import CONTENT_TYPE, PeerKey
from bus.errors import StoreError
from bus.http.asgi import Receive, Refusal, Scope, Send, answer
from bus.http.problem import problem

_log = logging.getLogger(__name__)
_LONGEST: Final = 32 * 2**20

Call = Callable[[bytes], Awaitable[object]]


class PeerApp:
    """Answers calls by path; a call raises ``ValueError`` for a body that it cannot read: another version's (400)."""

    def __init__(self, key: PeerKey, calls: Mapping[str, Call]) -> None:
        self._key = key
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        call = self._calls.get(scope["path"])
        if call is None:
            await Refusal(problem(404, f"there is nothing at {scope['path'][:200]}"))(scope, receive, send)
        elif not await self._is_peer(scope):
            await Refusal(problem(401, "this is for processes of the same bus"))(scope, receive, send)
        else:
            try:
                result = await call(await _body(receive))
            except (msgspec.DecodeError, ValueError) as error:
                await Refusal(problem(400, f"the request is from another version of the bus: {error}"))(
                    scope, receive, send
                )
            else:
                await answer(send, 200, msgspec.msgpack.encode(result), CONTENT_TYPE)

    async def _is_peer(self, scope: Scope) -> bool:
        shown = next((value for name, value in scope["headers"] if name == b"authorization"), None)
        try:
            return await self._key.is_current(shown)
        except StoreError as error:
            _log.warning("another process shows a key that this one does not know, and the store is away: %s", error)
            return False


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] != "http.request":
            raise ValueError("the connection was closed before the body was whole")
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        if size > _LONGEST:
            raise ValueError(f"more than {_LONGEST} bytes at once")
        if not event.get("more_body"):
            return b"".join(parts)
