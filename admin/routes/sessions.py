"""Routes of the caller's session."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from admin.access.cookies import clear_session, device_token, set_tokens
from admin.access.identity import session_of
from admin.deps import ServicesDep, address_of, who
from admin.models.access import PasswordBody
from admin.models.base import optional_time
from admin.models.responses.access import SessionView
from admin.requests.audited import AuditedRoute
from admin.services import AdminServices
from bus.errors import AccessDenied, Conflict, InvalidMessage
from bus.http.openapi import refusals
from bus.localized_text import localized, text_of_error
from bus.security.keyring import StoredUser
from bus.security.keys import Action
from bus.security.login import new_device
from bus.security.passwords import check_password
from bus.security.principals import Principal
from bus.security.sessions import Session

router = APIRouter(prefix="/session", tags=["session"], route_class=AuditedRoute)
Somebody = Annotated[Principal, Depends(who)]


@router.get("")
async def get_session(request: Request, services: ServicesDep, principal: Somebody) -> SessionView:
    """Return who I am and what I may do.

    Of a session also how the user logged in, when it ends, and the token that its changes must have as
    ``X-CSRF-Token``; with a key these are null.
    """
    return _view(services, principal, session_of(request))


@router.delete("", status_code=204)
async def log_out(request: Request, services: ServicesDep, _: Somebody) -> Response:
    """End the session, in every process at once."""
    session = session_of(request)
    if session is not None:
        await services.sessions.close(session.id)
    response = Response(status_code=204)
    clear_session(response)
    return response


@router.put("/password", responses=refusals(429))
async def change_password(
    body: PasswordBody, request: Request, response: Response, services: ServicesDep, _: Somebody
) -> SessionView:
    """Change the caller's password; all their sessions end, and a new one begins."""
    session = session_of(request)
    if session is None:
        raise AccessDenied(localized("only a user who has logged in can change a password"))
    name = session.user.name
    if session.user.subject:
        raise Conflict(
            localized("you log in at the OpenID Connect provider"), hint=localized("change the password there")
        )
    try:
        wanted = check_password(body.password, name)
    except ValueError as error:
        raise InvalidMessage(text_of_error(error), field="password") from error
    try:
        await services.login.check(
            name, body.current_password, address=address_of(request), device=device_token(request)
        )
    except AccessDenied as error:
        if error.status == 401:  # noqa: PLR2004 - that would mean that the session ended
            raise InvalidMessage(localized("this is not the present password"), field="current_password") from error
        raise
    changed, _given = await services.context.keyring.set_password(name, wanted)
    return await begin_session(request, response, services, changed)


async def begin_session(request: Request, response: Response, services: AdminServices, user: StoredUser) -> SessionView:
    """Begin a session of a user who showed who they are, and give the browser its tokens."""
    sessions = services.sessions
    token = await sessions.open(user)
    set_tokens(
        request,
        response,
        session=token,
        device=new_device(user),
        lifetime=sessions.limits.lifetime,
        public_url=services.public_url,
    )
    session = await sessions.find(token)
    if session is None:
        raise AccessDenied(localized("the user was changed meanwhile"), hint=localized("log in again"), status=401)
    return _view(services, session.principal, session)


def login_of(user: StoredUser) -> str:
    """Return how a user logs in: ``oidc`` or ``password``."""
    return "oidc" if user.subject else "password"


def _view(services: AdminServices, principal: Principal, session: Session | None) -> SessionView:
    return SessionView(
        kind=principal.kind,
        name=principal.name,
        roles=list(principal.roles),
        destinations=list(principal.destinations),
        may=[action.value for action in Action if principal.may_somewhere(action)],
        logs_in_by=login_of(session.user) if session is not None else None,
        csrf=session.csrf if session is not None else None,
        expires_at=optional_time(session.expires_at) if session is not None else None,
        idle_seconds=services.sessions.limits.idle // 1000 if session is not None else None,
    )
