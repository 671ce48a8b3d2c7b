"""The route by which people log in."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from admin.access.cookies import device_token
from admin.access.identity import require_ours
from admin.deps import ServicesDep, address_of
from admin.models.access import LoginBody
from admin.models.responses.access import SessionView
from admin.requests.audited import add_entry
from admin.requests.documented import FOR_ALL
from admin.routes.sessions import begin_session
from bus.http.openapi import refusals
from bus.security.sessions import principal_of

# Not an audited route: there is no principal before the login, and failed logins must not fill the log.
router = APIRouter(prefix="/session", tags=["session"])


@router.post("", status_code=201, responses=refusals(401, 429), openapi_extra=FOR_ALL)
async def log_in(body: LoginBody, request: Request, response: Response, services: ServicesDep) -> SessionView:
    """Begin a session: set its cookie, and return the token that its changes must have as ``X-CSRF-Token``.

    After repeated failures the next login must wait, longer each time (429), up to a limit.
    """
    require_ours(request, always=False)
    device = device_token(request)
    user = await services.login.check(body.name, body.password, address=address_of(request), device=device)
    begun = await begin_session(request, response, services, user)
    await add_entry(request, principal_of(user), status=201)
    return begun
