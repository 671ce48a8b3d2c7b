"""An application that is loaded when somebody first asks for it: who asks for none pays nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send


class OnDemand:
    """Makes an application at the first request, and hands it that and all that follow.

    Parameters
    ----------
    make
        Imports what the application is made of and returns it; runs in a thread, for it takes a good part of a second
        in which messages flow on. When it raises, so does the request, and the next one tries again.
    """

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        self._make = make
        self._making: asyncio.Task[ASGIApp] | None = None
        self._made: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hold one socket; those that come while it is made wait for it."""
        app = self._made or await self._wait()
        await app(scope, receive, send)

    async def _wait(self) -> ASGIApp:
        making = self._making = self._making or asyncio.create_task(asyncio.to_thread(self._make))
        try:
            # Who gives up must not end what the others wait for: the thread goes on in any case.
            self._made = await asyncio.shield(making)
        finally:
            if making.done() and self._making is making:
                self._making = None
        return self._made
