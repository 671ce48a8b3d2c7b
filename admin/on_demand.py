"""An application that is imported at its first request, so that a process that gets none does not pay for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from bus.gc_tuning import lasting


class OnDemand:
    """Makes an application at the first request, and passes all requests to it.

    Parameters
    ----------
    make
        Imports and returns the application. It runs in a thread: the import takes a good part of a second and must not
        block the event loop. When it raises, so does the request, and the next one tries again.
    """

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        self._make = make
        self._making: asyncio.Task[ASGIApp] | None = None
        self._made: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hold one socket; requests during the import of the application wait for it."""
        app = self._made or await self._wait()
        await app(scope, receive, send)

    async def _wait(self) -> ASGIApp:
        making = self._making = self._making or asyncio.create_task(asyncio.to_thread(self._make_to_last))
        try:
            # A cancelled request must not cancel the task that others await; the thread could not be stopped anyway.
            self._made = await asyncio.shield(making)
        finally:
            if making.done() and self._making is making:
                self._making = None
        return self._made

    def _make_to_last(self) -> ASGIApp:
        with lasting():
            return self._make()
