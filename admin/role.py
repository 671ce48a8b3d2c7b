"""The admin as a role of a process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from starlette.types import ASGIApp

from admin.housekeeping import keep_house
from admin.on_demand import OnDemand
from admin.pages.site import ROOT, Site
from admin.services import AdminServices
from bus.bootstrap import Context, Introspection, RoleServices
from bus.http.asgi import Field


class AdminService:
    """The admin API, the pages on it, the runner of bulk resends, and housekeeping."""

    def __init__(self, context: Context, offered: RoleServices) -> None:
        self._services = AdminServices(context, Introspection(context, offered))
        api = OnDemand(self._make_api)
        self._site = Site(self._services, api)
        self.offers = RoleServices(
            routes={
                "/api": api,
                "/openapi.json": OnDemand(self._make_document),
                "/docs": OnDemand(_make_reference),
                ROOT: self._site,
            },
            credentials=(self._has_session,),
        )

    def _has_session(self, headers: Sequence[Field]) -> bool:
        sessions = self._services.sessions
        return any(name == b"cookie" and sessions.knows(value) for name, value in headers)

    def _make_api(self) -> ASGIApp:
        from admin.app import make_app  # noqa: PLC0415 - FastAPI and all routes

        return make_app(self._services)

    def _make_document(self) -> ASGIApp:
        from admin.document import Document  # noqa: PLC0415 - FastAPI and all routes

        return Document(self._services)

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Run resends and pages until ``stopping``; unfinished resends continue at the next start."""
        if sys.stdout.isatty():  # a person has started it, and looks at the pages next
            self._site.expect()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._site.run(stopping))
            working = [group.create_task(self._services.runner.run()), group.create_task(keep_house(self._services))]
            ready.set()
            await stopping.wait()
            for task in working:
                task.cancel()


def _make_reference() -> ASGIApp:
    from admin.reference import Reference  # noqa: PLC0415 - a megabyte that few look at

    return Reference()


ROLE = AdminService
