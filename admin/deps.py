"""What the admin's routes share."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from fastapi import Depends, Request

from admin.access.audit_log import AuditLog
from admin.access.identity import identify
from admin.access.saved_views import SavedViews
from admin.access.single_sign_on import single_sign_on
from admin.repair.choosing import Chooser
from admin.repair.editing import Editor
from admin.repair.jobs import JobBook
from admin.repair.resender import Resender
from admin.repair.runner import ResendRunner
from admin.showing.observatory import Observatory
from bus.bootstrap import Context
from bus.security.clients import client_address, networks_of
from bus.security.login import Login
from bus.security.principals import Principal
from bus.security.sessions import Limits, Sessions
from bus.stores.cancellations import Cancellations
from bus.stores.rollups import RollupReader

_SEARCHES: Final = ("/api/v1/messages", "/api/v1/messages/export")
_CONFIRMED_WITHIN: Final = 2.0
_log = logging.getLogger(__name__)


class Office:
    """The services behind the routes of one process."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.resender = Resender(context.store, context.registry, context.clock)
        self.rollups = RollupReader(context.store, context.clock)
        self.observatory = Observatory(context, self.rollups)
        self.book = JobBook(context.store)
        self.audit = AuditLog(context.store, context.clock)
        self.saved = SavedViews(context.store, context.clock)
        settings = context.settings
        limits = Limits(round(settings.session_idle * 1000), round(settings.session_lifetime * 1000))
        self.sessions = Sessions(context.store, context.keyring, context.clock, limits)
        self.proxies = networks_of(settings.trusted_proxies)
        self.login = Login(context.keyring, context.clock)
        self.editor = Editor(context.store, context.registry, context.events, context.clock)
        self.cancellations = Cancellations(context.store, context.rollups, context.events)
        self.chooser = Chooser(context.store, context.registry, context.clock)
        self.runner = ResendRunner(context.store, self.chooser, self.resender, self.book, context.clock)
        self.single_sign_on = single_sign_on(settings, context.keyring, context.clock)
        self.public_url = settings.public_url.rstrip("/")

    async def settle(self) -> None:
        """Wait a moment until every process that is alive has the configuration of now in force."""
        context = self.context
        if not await context.members.confirmed(context.registry.revision, within=_CONFIRMED_WITHIN):
            _log.warning("a change of the configuration is stored; not every process has confirmed it yet")


def office(request: Request) -> Office:
    """Return the services of this process."""
    found: Office = request.app.state.office
    return found


OfficeDep = Annotated[Office, Depends(office)]


def may(action: str) -> Callable[[Request, OfficeDep], Awaitable[Principal]]:
    """Return a dependency that lets only those through who may do this."""

    async def check(request: Request, services: OfficeDep) -> Principal:
        principal = await who(request, services)
        principal.require(action, _destination(request))
        return principal

    return check


def may_somewhere(action: str) -> Callable[[Request, OfficeDep], Awaitable[Principal]]:
    """Return a dependency for what a destination is known of only later: the route asks the principal about that."""

    async def check(request: Request, services: OfficeDep) -> Principal:
        principal = await who(request, services)
        principal.require_somewhere(action)
        return principal

    return check


async def who(request: Request, services: OfficeDep) -> Principal:
    """Return who makes a request, whatever they may do; raises ``AccessDenied``."""
    return await identify(request, services.context.keyring, services.sessions)


def address_of(request: Request) -> str:
    """Return the address that a request comes from."""
    peer = request.client.host if request.client is not None else ""
    return client_address(peer, request.headers.getlist("x-forwarded-for"), office(request).proxies)


def _destination(request: Request) -> str | None:
    """Return the destination that a request concerns, None where it may be any; a search names it in its query."""
    named: str | None = request.path_params.get("code")
    if named is None and request.url.path in _SEARCHES:
        named = request.query_params.get("destination")
    return named


Reader = Annotated[Principal, Depends(may("read"))]
Pauser = Annotated[Principal, Depends(may("pause"))]
Configurer = Annotated[Principal, Depends(may("configure"))]
ReaderOfSome = Annotated[Principal, Depends(may_somewhere("read"))]
ResenderOfSome = Annotated[Principal, Depends(may_somewhere("resend"))]
