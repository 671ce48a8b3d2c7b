"""The pages as one application, imported at their first request: a process that gets none does not pay for it."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from admin.on_demand import OnDemand
from admin.services import AdminServices
from bus.async_helpers import first_of
from bus.gc_tuning import lasting
from bus.http.asgi import Refusal
from bus.http.problem import problem

ROOT: Final = "/admin"
_OPENED_WITHIN: Final = 30.0
_NOT_THERE: Final = "the pages are not there yet, or no longer"
_log = logging.getLogger(__name__)


class Site:
    """The application below ``/admin``.

    Parameters
    ----------
    api
        The application of the admin API, which pages call in this process.
    load
        Imports the pages and returns their application; runs in a thread, since it takes most of a second.
    """

    def __init__(self, services: AdminServices, api: ASGIApp, load: Callable[[], Any] | None = None) -> None:
        self._load = load or _load
        self._assets_or_pages = OnDemand(lambda: _assets_or_pages(services, api, self._page))
        self._wanted = asyncio.Event()
        self._opened = asyncio.Event()
        self._app: ASGIApp | None = None
        self._trouble = _NOT_THERE

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hold one socket."""
        await self._assets_or_pages(scope, receive, send)

    def expect(self) -> None:
        """Import the pages at once, since they will be requested soon."""
        self._wanted.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Start the pages' application at the first request for a page, or once it is expected; end it at ``stopping``.

        If it cannot be started, the next request tries again; the rest of the process continues to work.
        """
        while await _wanted_first(self._wanted, stopping):
            try:
                await self._open(stopping)
            except Exception:  # noqa: BLE001 - whatever it is, only the pages fail
                _log.exception("the pages cannot be opened; everything else goes on")
                self._trouble = "the pages cannot be opened; the log of this process says why"
                self._release(asyncio.Event())
            self._wanted.clear()
        self._release(self._opened)

    async def _open(self, stopping: asyncio.Event) -> None:
        self._trouble = _NOT_THERE
        app = await asyncio.to_thread(self._load)
        async with app.router.lifespan_context(app):
            self._app = app
            self._opened.set()
            await stopping.wait()
            self._app = None

    def _release(self, next_time: asyncio.Event) -> None:
        """Release the requests that wait for the pages; later ones wait for ``next_time``."""
        self._opened.set()
        self._opened = next_time

    async def _page(self, scope: Scope, receive: Receive, send: Send) -> None:
        opened = self._opened
        self._wanted.set()
        try:
            async with asyncio.timeout(_OPENED_WITHIN):
                await opened.wait()
        except TimeoutError:
            _log.warning("the pages were not there within %g s", _OPENED_WITHIN)
        if self._app is None:
            if scope["type"] == "http":
                answer = problem(503, self._trouble, hint="reload in a moment")
                await Refusal(answer)(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1012})
            return
        await self._app(scope, receive, send)


def _assets_or_pages(services: AdminServices, api: ASGIApp, page: ASGIApp) -> ASGIApp:
    """Return the application that serves static files without a login, and pages to identified users."""
    from admin.pages.assets import Assets  # noqa: PLC0415 - FastAPI
    from admin.pages.guard import Guard  # noqa: PLC0415

    assets, guard = Assets(services), Guard(services, api, page)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await (assets if assets.has(scope) else guard)(scope, receive, send)

    return serve


def _load() -> Any:
    with lasting():
        return importlib.import_module("admin.pages.build").make_pages()


async def _wanted_first(wanted: asyncio.Event, stopping: asyncio.Event) -> bool:
    """Wait for either event; whether it was ``wanted``."""
    await first_of(wanted.wait(), stopping.wait())
    return wanted.is_set() and not stopping.is_set()
