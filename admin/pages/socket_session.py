"""A socket ends with the session in which it was opened."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bus.ports.clock import Clock

EVERY: Final = 1.0
"""Seconds between two checks of a socket's session."""
# Failed checks before a socket is closed: the answer to what ended the session, such as a password, still arrives.
_CHECKS: Final = 2
# The frames of a person's actions, not those that a page sends by itself: acknowledgements, handshakes.
_USER_ACTION: Final = re.compile(r'42\d*\["event"')
_POLICY_VIOLATED: Final = 1008

Still = Callable[[bool], Awaitable[bool]]


async def hold(pages: ASGIApp, scope: Scope, receive: Receive, send: Send, *, still: Still, clock: Clock) -> None:
    """Serve a socket for as long as ``still`` returns true; then close it, and send nothing more.

    Parameters
    ----------
    still
        Returns whether the socket's session still holds; gets whether a person did something since the last call.
    """
    held = _CachedSession(receive, send)
    watch = asyncio.create_task(held.watch(still, clock))
    try:
        await pages(scope, held.receive, held.send)
    finally:
        watch.cancel()
        await asyncio.wait([watch])


class _CachedSession:
    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._used = False
        self._closed = False

    async def receive(self) -> Message:
        event = await self._receive()
        self._used = self._used or _USER_ACTION.match(event.get("text") or "") is not None
        return event

    async def send(self, event: Message) -> None:
        if self._closed:
            return
        self._closed = event["type"] == "websocket.close"
        await self._send(event)

    async def watch(self, still: Still, clock: Clock) -> None:
        left = _CHECKS
        while left:
            await clock.sleep(EVERY)
            used, self._used = self._used, False
            left = _CHECKS if await still(used) else left - 1
        await self.send({"type": "websocket.close", "code": _POLICY_VIOLATED})
