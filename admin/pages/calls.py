"""How a page asks the admin API: as its viewer, in this process, through the same checks as from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx
import msgspec
from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from admin.access.cookies import session_token
from admin.access.identity import BY_ITSELF, CSRF_HEADER
from bus.security.sessions import csrf_of

_PASSED_ON: Final = ("authorization", "cookie", "host", "user-agent", "x-forwarded-for")


class Refused(Exception):
    """The API did not do what a page asked for.

    Attributes
    ----------
    status
        The HTTP status.
    detail, hint
        What happened, and what to do.
    field
        The field of the request that is at fault, empty for none.
    told
        ``detail`` and ``hint`` as the API tells them, for another language.
    """

    def __init__(
        self, status: int, detail: str, hint: str = "", field: str = "", texts: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.field = field
        self.told = {**(texts or {}), "detail": detail, "hint": hint}


class Api:
    """Calls of one viewer; every method raises `Refused`. ``csrf`` is what the viewer's own script must show."""

    def __init__(self, app: ASGIApp, request: Request) -> None:
        client = request.client
        transport = httpx.ASGITransport(
            _by_itself(app), client=(client.host, client.port) if client else ("", 0), raise_app_exceptions=False
        )
        # Every line of a name: the last one of x-forwarded-for is the proxy's, the first one anybody's.
        headers = [(name, line) for name in _PASSED_ON for line in request.headers.getlist(name)]
        token = session_token(request)
        self.csrf = csrf_of(token) if token is not None else ""
        if self.csrf:
            headers.append((CSRF_HEADER, self.csrf))
        headers.append(("sec-fetch-site", "same-origin"))
        self._http = httpx.AsyncClient(transport=transport, base_url="http://bus/api/v1", headers=headers)

    async def get(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Read something; what is None or empty in ``query`` is left out."""
        params = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        return await self._call("GET", path, params=params)

    async def content(self, path: str) -> httpx.Response:
        """Read something that is not JSON."""
        return await self._answer("GET", path)

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Have something done."""
        return await self._call("POST", path, json=dict(body or {}))

    async def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make or replace something."""
        return await self._call("PUT", path, json=dict(body))

    async def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change fields of something."""
        return await self._call("PATCH", path, json=dict(body))

    async def delete(self, path: str) -> dict[str, Any]:
        """Remove something."""
        return await self._call("DELETE", path)

    async def _call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        answer = await self._answer(method, path, **options)
        return dict(answer.json()) if answer.content else {}

    async def _answer(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = await self._http.request(method, path, **options)
        if answer.is_error:
            raise _refused(answer)
        return answer


def _by_itself(app: ASGIApp) -> ASGIApp:
    """Have an idle session end while its page asks on and on; the guard sees what the person does."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, BY_ITSELF: True}, receive, send)

    return call


def _refused(answer: httpx.Response) -> Refused:
    try:
        found = msgspec.json.decode(answer.content, type=dict[str, Any])
    except msgspec.DecodeError:
        found = {}
    return Refused(
        answer.status_code,
        found.get("detail", answer.reason_phrase),
        found.get("hint", ""),
        found.get("field", ""),
        {name: found[name] for name in ("detail_text", "hint_text") if name in found},
    )
