"""The identity of a request: a key, a session, or an anonymous principal while no key exists."""

from __future__ import annotations

import hmac
from typing import Final

from fastapi import Request

from admin.access.cookies import session_token
from bus.errors import AccessDenied
from bus.localized_text import localized
from bus.security.keyring import Keyring
from bus.security.origins import is_ours, refuse_foreign_page
from bus.security.principals import Principal
from bus.security.sessions import Session, Sessions

CSRF_HEADER: Final = "x-csrf-token"
BY_ITSELF: Final = "admin.by_itself"
"""Key in a request's ASGI scope: a page polls by itself, so the request does not prolong an idle session."""
HOLDER: Final = "admin.holder"
"""Key in a socket's ASGI scope: the principal who opened it."""
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


async def identify(request: Request, keyring: Keyring, sessions: Sessions) -> Principal:
    """Return the principal of a request; a key takes precedence over a cookie.

    Raises
    ------
    AccessDenied
        401: no valid key or session. 403: no key was made yet and the Host header names another host; or a change
        by a session comes from another site or lacks the CSRF token.
    """
    known: Principal | None = getattr(request.state, "principal", None)
    if known is None:
        known = request.state.principal = await _identify(request, keyring, sessions)
    return known


def session_of(request: Request) -> Session | None:
    """Return the session of a request that `identify` let in; None when it has a key."""
    return getattr(request.state, "session", None)


def require_ours(request: Request, *, always: bool = True) -> None:
    """Refuse a cross-site request, by its ``Sec-Fetch-Site`` and ``Origin`` headers.

    Parameters
    ----------
    always
        Refuse also a request that has neither header.

    Raises
    ------
    AccessDenied
        403.
    """
    head = request.headers
    fetch_site, origin = head.get("sec-fetch-site"), head.get("origin")
    said = fetch_site is not None or origin is not None
    if (always or said) and not is_ours(fetch_site, origin, head.get("host")):
        raise AccessDenied(localized("this request does not come from a page of this bus; nothing was changed"))


async def _identify(request: Request, keyring: Keyring, sessions: Sessions) -> Principal:
    authorization, host = request.headers.get("authorization"), request.headers.get("host")
    token = session_token(request)
    if authorization is None and token is not None and not keyring.is_open:
        return await _by_session(request, token, sessions)
    principal = keyring.authenticate(
        authorization.encode() if authorization is not None else None, host.encode() if host is not None else None
    )
    if request.method not in READING:  # people follow links to pages from elsewhere
        refuse_foreign_page(principal, dict(request.scope["headers"]))
    return principal


async def _by_session(request: Request, token: str, sessions: Sessions) -> Principal:
    session = await sessions.find(token, used=not request.scope.get(BY_ITSELF))
    if session is None:
        raise AccessDenied(
            localized("the session has ended"), hint=localized("log in again: POST /api/v1/session"), status=401
        )
    if request.method not in READING:
        require_ours(request)
        shown = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(shown.encode(), session.csrf.encode()):
            raise AccessDenied(
                localized("the X-CSRF-Token header is missing or wrong; nothing was changed"),
                hint=localized("GET /api/v1/session has it"),
            )
    request.state.session = session
    return session.principal
