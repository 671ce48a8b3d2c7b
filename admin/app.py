"""The admin API as a FastAPI application."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from admin.requests.bodies import limited
from admin.requests.documented import document_of
from admin.requests.headers import guarded
from admin.requests.problems import HANDLED, answer
from admin.routes import (
    actions,
    activity,
    alarms,
    attempts,
    audit,
    conditions,
    configuration,
    destinations,
    discards,
    edits,
    exports,
    failures,
    findings,
    history,
    keys,
    login,
    lookup,
    messages,
    oidc,
    operations,
    ordering,
    overview,
    partitions,
    people,
    pipeline,
    processes,
    producers,
    resends,
    samples,
    saved,
    secrets,
    sessions,
    stats,
    strict_ordering,
    subscriptions,
    summaries,
    transports,
)
from admin.services import AdminServices
from bus.bootstrap import VERSION

_MODULES: Final = (
    configuration,
    destinations,
    discards,
    subscriptions,
    ordering,
    strict_ordering,
    samples,
    transports,
    lookup,
    actions,
    activity,
    exports,  # these before messages, whose ids may be any text
    summaries,
    messages,
    edits,
    attempts,
    resends,
    stats,
    failures,
    overview,
    conditions,
    alarms,
    findings,
    pipeline,
    processes,
    producers,
    operations,
    partitions,
    keys,
    people,
    login,
    oidc,
    sessions,
    saved,
    secrets,
    audit,
    history,
)


_PREFIX: Final = "/api/v1"


class _Admin(FastAPI):
    """The application: it limits request bodies, and adds the headers to every answer, even to a 500 of its own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await super().__call__(scope, limited(scope, receive), guarded(send))


def make_app(services: AdminServices) -> FastAPI:
    """Return the application of one process."""
    app = _Admin(title="Pier", version=VERSION, openapi_url=None, routes=_routes())
    app.state.services = services
    app.state.methods_at = _methods_at
    for kind in HANDLED:
        app.add_exception_handler(kind, answer)
    app.openapi = lambda: _document(app, services)  # type: ignore[method-assign]
    return app


@cache
def _routes() -> list[BaseRoute]:
    """Return all routes, which the applications of a process share: FastAPI analyses their parameters once."""
    api = APIRouter(prefix=_PREFIX)
    for module in _MODULES:
        api.include_router(module.router)
    return api.routes


def _methods_at(path: str) -> list[str]:
    """Return the methods of a path, if any; an exact path takes precedence over one with parameters."""
    place = path.removeprefix(_PREFIX)
    known = [route for module in _MODULES for route in module.router.routes if isinstance(route, Route)]
    fitting = [route for route in known if route.path == place] or [
        route for route in known if route.path_regex.match(place)
    ]
    return sorted({method for route in fitting for method in route.methods or ()})


def _document(app: FastAPI, services: AdminServices) -> dict[str, Any]:
    """Return the OpenAPI document, with the hot routes that are served outside of FastAPI."""
    if app.openapi_schema is None:
        known = [route for module in _MODULES for route in module.router.routes if isinstance(route, APIRoute)]
        routes = [(_PREFIX + route.path, route) for route in known]
        app.openapi_schema = document_of(app, routes, services.introspection.offers.documented)
    return app.openapi_schema
