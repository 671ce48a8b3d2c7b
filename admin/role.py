"""The admin as a role of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp

from admin.housekeeping import keep_house
from admin.on_demand import OnDemand
from admin.pages.site import ROOT, Site
from admin.services import AdminServices
from bus.bootstrap import Context


class AdminService:
    """The admin API, the pages on it, the runner of bulk resends, and what is cleared away."""

    def __init__(self, context: Context) -> None:
        self._services = AdminServices(context)
        self._api = OnDemand(self._make_api)
        self._document = OnDemand(self._make_document)
        self._site = Site(self._services, self._api)

    def routes(self) -> dict[str, Callable[..., Any]]:
        """Return the API, its document and the pages."""
        return {"/api": self._api, "/openapi.json": self._document, ROOT: self._site}

    def _make_api(self) -> ASGIApp:
        from admin.app import make_app  # noqa: PLC0415 - FastAPI and all routes

        return make_app(self._services)

    def _make_document(self) -> ASGIApp:
        from admin.document import Document  # noqa: PLC0415 - FastAPI and all routes

        return Document(self._services)

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Run resends and pages until ``stopping``; unfinished resends go on at the next start."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._site.run(stopping))
            working = [group.create_task(self._services.runner.run()), group.create_task(keep_house(self._services))]
            ready.set()
            await stopping.wait()
            for task in working:
                task.cancel()


ROLE = AdminService
