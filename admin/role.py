"""The admin as a role of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from admin.app import make_app
from admin.deps import Office
from admin.housekeeping import keep_house
from admin.pages.site import ROOT, Site
from bus.bootstrap import Context


class AdminService:
    """The admin API, the pages on it, the runner of bulk resends, and what is cleared away."""

    def __init__(self, context: Context) -> None:
        self._office = Office(context)
        self._api = make_app(self._office)
        self._site = Site(self._office, self._api)

    def routes(self) -> dict[str, Callable[..., Any]]:
        """Return the API, its document and the pages."""
        return {"/api": self._api, "/openapi.json": self._api, ROOT: self._site}

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Run resends and pages until ``stopping``; unfinished resends go on at the next start."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._site.run(stopping))
            working = [group.create_task(self._office.runner.run()), group.create_task(keep_house(self._office))]
            ready.set()
            await stopping.wait()
            for task in working:
                task.cancel()


ROLE = AdminService
