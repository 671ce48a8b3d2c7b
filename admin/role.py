"""The admin as a role of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from admin.app import make_app
from admin.deps import Office
from admin.housekeeping import keep_house
from bus.bootstrap import Context


class AdminService:
    """The admin API, the runner of bulk resends, and what is cleared away."""

    def __init__(self, context: Context) -> None:
        self._office = Office(context)

    def routes(self) -> dict[str, Callable[..., Any]]:
        """Return the API and its document."""
        app = make_app(self._office)
        return {"/api": app, "/openapi.json": app}

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Run resends until ``stopping``; unfinished ones go on at the next start."""
        async with asyncio.TaskGroup() as group:
            working = [group.create_task(self._office.runner.run()), group.create_task(keep_house(self._office))]
            ready.set()
            await stopping.wait()
            for task in working:
                task.cancel()


ROLE = AdminService
