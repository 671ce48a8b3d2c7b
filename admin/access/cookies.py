"""The cookies of people: of a session, of a browser that has logged in before, and of a login at a provider."""

from __future__ import annotations

from typing import Final, Literal

from fastapi import Request, Response

from bus.security.origins import is_secure
from bus.security.sessions import COOKIE, HOST

_DEVICE: Final = "bus_device"
_FLOW: Final = "bus_login"
_DEVICE_AGE: Final = 180 * 86_400
_FLOW_AGE: Final = 600


def session_token(request: Request) -> str | None:
    """Return the token of a request's session."""
    return _cookie(request, COOKIE)


def device_token(request: Request) -> str | None:
    """Return the token of the browser that makes a request."""
    return _cookie(request, _DEVICE)


def set_tokens(
    request: Request, response: Response, *, session: str, device: str, lifetime: int, public_url: str
) -> None:
    """Give a browser both tokens; ``lifetime`` (ms) is the session's."""
    secure = _over_tls(request, public_url)
    _set(response, COOKIE, session, lifetime // 1000, secure=secure)
    _set(response, _DEVICE, device, _DEVICE_AGE, secure=secure)


def flow_token(request: Request, public_url: str) -> str | None:
    """Return the cookie of a login in progress at a provider; over TLS only the one with the ``__Host-`` prefix."""
    return request.cookies.get(HOST + _FLOW if _over_tls(request, public_url) else _FLOW)


def set_flow(request: Request, response: Response, token: str, public_url: str) -> None:
    """Set the cookie of a login in progress; ``SameSite=Lax``, since the browser comes back from another site."""
    _set(response, _FLOW, token, _FLOW_AGE, secure=_over_tls(request, public_url), samesite="lax")


def clear_flow(response: Response) -> None:
    """Delete the cookie of a login in progress: the login has ended."""
    response.delete_cookie(_FLOW, httponly=True, samesite="lax")
    response.delete_cookie(HOST + _FLOW, secure=True, httponly=True, samesite="lax")


def clear_session(response: Response) -> None:
    """Delete the session's cookie."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    response.delete_cookie(HOST + COOKIE, secure=True, httponly=True, samesite="strict")


def _cookie(request: Request, name: str) -> str | None:
    return request.cookies.get(HOST + name) or request.cookies.get(name)


def _over_tls(request: Request, public_url: str) -> bool:
    origin = request.headers.get("origin") or public_url
    return is_secure(request.url.scheme, origin)


def _set(
    response: Response,
    name: str,
    value: str,
    age: int,
    *,
    secure: bool,
    samesite: Literal["strict", "lax"] = "strict",
) -> None:
    response.set_cookie(
        HOST + name if secure else name, value, max_age=age, secure=secure, httponly=True, samesite=samesite
    )
