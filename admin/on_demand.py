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
        self._making = asyncio.Lock()
        self._made: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hold one socket; those that come while it is made wait for it."""
        app = self._made or await self._wait()
        await app(scope, receive, send)

    async def _wait(self) -> ASGIApp:
        async with self._making:
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
            return self._made
