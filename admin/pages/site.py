"""The pages as one application, loaded when somebody first looks: who has none open pays nothing for them."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from admin.deps import Office
from admin.pages.assets import Assets
from admin.pages.guard import Guard
from bus.domain.problem import problem
from bus.http_protocol import Refusal

ROOT: Final = "/admin"
_OPENED_WITHIN: Final = 30.0
_log = logging.getLogger(__name__)


class Site:
    """What answers below ``/admin``.

    Parameters
    ----------
    api
        The application of the admin API, which pages call in this process.
    load
        Imports the pages and returns their application; runs in a thread, since it takes most of a second.
    """

    def __init__(self, office: Office, api: ASGIApp, load: Callable[[], Any] | None = None) -> None:
        self._load = load or _load
        self._guard = Guard(office, api, self._page)
        self._assets = Assets(office)
        self._wanted = asyncio.Event()
        self._opened = asyncio.Event()
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hold one socket."""
        if self._assets.has(scope):
            await self._assets(scope, receive, send)
        else:
            await self._guard(scope, receive, send)

    async def run(self, stopping: asyncio.Event) -> None:
        """Open the pages when somebody wants them, and close them at ``stopping``."""
        if not await _first(self._wanted, stopping):
            return
        app = await asyncio.to_thread(self._load)
        async with app.router.lifespan_context(app):
            self._app = app
            self._opened.set()
            await stopping.wait()
            self._app = None

    async def _page(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._wanted.set()
        try:
            await asyncio.wait_for(self._opened.wait(), _OPENED_WITHIN)
        except TimeoutError:
            _log.warning("the pages were not there within %g s", _OPENED_WITHIN)
        if self._app is None:
            if scope["type"] == "http":
                answer = problem(503, "the pages are not there yet, or no longer", hint="reload in a moment")
                await Refusal(answer)(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1012})
            return
        await self._app(scope, receive, send)


def _load() -> Any:
    return importlib.import_module("admin.pages.build").make_pages()


async def _first(wanted: asyncio.Event, stopping: asyncio.Event) -> bool:
    """Wait for either; whether it was the first."""
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(event.wait()) for event in (wanted, stopping)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
    return wanted.is_set() and not stopping.is_set()
