"""The cookies of people: one for a session, and one by which a browser is known to have logged in before."""

from __future__ import annotations

from typing import Final

from fastapi import Request, Response

from bus.security.origins import is_secure

_SESSION: Final = "bus_session"
_DEVICE: Final = "bus_device"
# A browser takes a cookie of this name only over TLS, from this very host.
_HOST: Final = "__Host-"
_DEVICE_AGE: Final = 180 * 86_400


def session_token(request: Request) -> str | None:
    """Return the token of a request's session."""
    return _cookie(request, _SESSION)


def device_token(request: Request) -> str | None:
    """Return the token of the browser that makes a request."""
    return _cookie(request, _DEVICE)


def set_tokens(request: Request, response: Response, *, session: str, device: str, lifetime: int) -> None:
    """Give a browser both tokens; ``lifetime`` (ms) is the session's."""
    _set(request, response, _SESSION, session, lifetime // 1000)
    _set(request, response, _DEVICE, device, _DEVICE_AGE)


def clear_session(response: Response) -> None:
    """Take the session's token from a browser."""
    response.delete_cookie(_SESSION, httponly=True, samesite="strict")
    response.delete_cookie(_HOST + _SESSION, secure=True, httponly=True, samesite="strict")


def _cookie(request: Request, name: str) -> str | None:
    return request.cookies.get(_HOST + name) or request.cookies.get(name)


def _set(request: Request, response: Response, name: str, value: str, age: int) -> None:
    secure = is_secure(request.url.scheme, request.headers.get("origin"))
    response.set_cookie(
        _HOST + name if secure else name, value, max_age=age, secure=secure, httponly=True, samesite="strict"
    )
