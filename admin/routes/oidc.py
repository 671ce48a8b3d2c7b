"""Routes by which people log in at an OpenID Connect provider, and the list of the ways to log in."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from admin.access.cookies import clear_flow, flow_token, set_flow
from admin.access.landing import go_on, told
from admin.access.single_sign_on import CALLBACK, SingleSignOn
from admin.deps import ServicesDep, address_of
from admin.models.responses.access import LoginMethodsView, LoginMethodView
from admin.requests.audited import add_entry
from admin.requests.documented import FOR_ALL
from admin.requests.problems import problem_for
from admin.routes.sessions import begin_session
from admin.services import AdminServices
from bus.errors import AccessDenied, BusError, NotFound
from bus.http.openapi import refusals
from bus.security.sessions import principal_of

# Not audited routes: there is no principal before the login, and failed logins must not fill the log.
router = APIRouter(prefix="/session", tags=["session"])
_LONGEST: Final = 4096
_SHOWN: Final = 200
Text = Annotated[str | None, Query(max_length=_LONGEST)]


@router.get("/methods", openapi_extra=FOR_ALL)
async def list_methods(services: ServicesDep) -> LoginMethodsView:
    """Return the ways to log in; needs no login: ``password``, and ``oidc`` with its label and its first URL.

    ``open`` is true when no login is needed.
    """
    items = [LoginMethodView(kind="password", label="Password", url="/api/v1/session")]
    if services.single_sign_on is not None:
        items.append(LoginMethodView(kind="oidc", label=services.single_sign_on.label, url="/api/v1/session/oidc"))
    return LoginMethodsView(items=items, open=services.context.keyring.is_open)


@router.get("/oidc", status_code=303, response_class=RedirectResponse, responses=refusals(404), openapi_extra=FOR_ALL)
async def begin_oidc(
    request: Request,
    services: ServicesDep,
    place: Annotated[str | None, Query(alias="next", max_length=_LONGEST, description="a path, for afterwards")] = None,
) -> Response:
    """Redirect the browser to the provider; only this browser can return, within ten minutes."""
    url, flow = await _single_sign_on(services).begin(place, _redirect_uri(request, services))
    response = RedirectResponse(url, status_code=303)
    set_flow(request, response, flow.cookie, services.public_url)
    return response


@router.get(
    "/oidc/callback", response_class=HTMLResponse, responses=refusals(401, 404, 409, 429), openapi_extra=FOR_ALL
)
async def end_oidc(
    request: Request,
    services: ServicesDep,
    code: Text = None,
    state: Text = None,
    iss: Text = None,
    error: Text = None,
    error_description: Text = None,
) -> Response:
    """Begin a session for a user who comes back from the provider; a page leads to the page that they asked for.

    The error names the reason when the user has no access (403) or the provider does not answer (503); a browser gets
    it as a page.
    """
    single = _single_sign_on(services)
    try:
        flow = single.flow(flow_token(request, services.public_url), state)
        single.check_issuer(iss)
        if code is None:
            raise _denied(error, error_description)
        user = await single.finish(flow, code, _redirect_uri(request, services), address=address_of(request))
        response = go_on(flow.place)
        await begin_session(request, response, services, user)
        await add_entry(request, principal_of(user), status=200)
    except BusError as problem:
        if "text/html" not in request.headers.get("accept", ""):
            raise
        return told(problem_for(problem))
    clear_flow(response)
    return response


def _single_sign_on(services: AdminServices) -> SingleSignOn:
    if services.single_sign_on is None:
        raise NotFound("this bus has no OpenID Connect provider", hint="set BUS_OIDC_ISSUER, or log in with a password")
    return services.single_sign_on


def _redirect_uri(request: Request, services: AdminServices) -> str:
    base = services.public_url or f"{request.url.scheme}://{request.url.netloc}"
    return f"{base}{CALLBACK}"


def _denied(error: str | None, description: str | None) -> AccessDenied:
    said = ": ".join(part[:_SHOWN] for part in (error, description) if part) or "its response has no code"
    return AccessDenied(f"the provider rejected the login: {said}", hint="log in again, or ask who runs the provider")
