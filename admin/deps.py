"""Dependencies that the admin's routes share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from fastapi import Depends, Request

from admin.access.identity import identify
from admin.services import AdminServices
from bus.security.clients import client_address
from bus.security.principals import Principal

_SEARCHES: Final = ("/api/v1/messages", "/api/v1/messages/export", "/api/v1/messages/summary")


def services_of(request: Request) -> AdminServices:
    """Return the services of this process."""
    found: AdminServices = request.app.state.services
    return found


ServicesDep = Annotated[AdminServices, Depends(services_of)]


def may(action: str) -> Callable[[Request, ServicesDep], Awaitable[Principal]]:
    """Return a dependency that refuses principals who may not do this action to the request's destination."""

    async def check(request: Request, services: ServicesDep) -> Principal:
        principal = await who(request, services)
        principal.require(action, _destination(request))
        return principal

    return check


def may_somewhere(action: str) -> Callable[[Request, ServicesDep], Awaitable[Principal]]:
    """Return a dependency that requires the action for any destination; the route then checks the actual one."""

    async def check(request: Request, services: ServicesDep) -> Principal:
        principal = await who(request, services)
        principal.require_somewhere(action)
        return principal

    return check


async def who(request: Request, services: ServicesDep) -> Principal:
    """Return the principal of a request, with any rights; raises ``AccessDenied``."""
    return await identify(request, services.context.keyring, services.sessions)


def address_of(request: Request) -> str:
    """Return the client address of a request."""
    peer = request.client.host if request.client is not None else ""
    return client_address(peer, request.scope["headers"], services_of(request).proxies)


def _destination(request: Request) -> str | None:
    """Return the destination that a request names, None when it names none; a search names it in its query."""
    named: str | None = request.path_params.get("code")
    if named is None and request.url.path in _SEARCHES:
        named = request.query_params.get("destination")
    return named


Reader = Annotated[Principal, Depends(may("read"))]
Pauser = Annotated[Principal, Depends(may("pause"))]
Resender = Annotated[Principal, Depends(may("resend"))]
Configurer = Annotated[Principal, Depends(may("configure"))]
ConfigurerOfSome = Annotated[Principal, Depends(may_somewhere("configure"))]
ReaderOfSome = Annotated[Principal, Depends(may_somewhere("read"))]
ResenderOfSome = Annotated[Principal, Depends(may_somewhere("resend"))]
