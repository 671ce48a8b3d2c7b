"""Access to pages and their sockets, and the security headers of responses."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import quote

from fastapi import Request
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from admin.access.identity import BY_ITSELF, HOLDER, READING, identify, require_ours
from admin.pages.calls import Api
from admin.pages.shared_answers import SharedAnswers
from admin.pages.socket_session import hold
from admin.pages.viewer import Viewer
from admin.services import AdminServices
from bus.errors import AccessDenied, BusError
from bus.http.asgi import Refusal
from bus.http.problem import problem_of
from bus.security.principals import Principal
from bus.serving.sockets import PAGES as SOCKET

# Static files, the same for all users: scripts, styles and fonts, which reveal nothing about this bus.
_PUBLIC: Final = re.compile(r"/admin/_nicegui/[^/]+/(static|libraries|components|esm|resources)/")
_LOGIN: Final = "/admin/login"
_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


class Guard:
    """Lets only identified users reach the pages; static files need no login.

    A page and a socket need a session, or a bus without keys; a request that may change something, and every socket,
    must be same-origin. A socket is closed within seconds after its session ended. ``pages`` finds the viewer in its
    ASGI scope, as ``viewer``.
    """

    def __init__(self, services: AdminServices, api: ASGIApp, pages: ASGIApp) -> None:
        self._services = services
        self._api = api
        self._pages = pages
        self._files = GZipMiddleware(pages)
        self._shared = SharedAnswers(services.context.clock.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hold one socket."""
        path = scope["path"]
        if scope["type"] == "http" and _PUBLIC.match(path):
            await self._files(scope, receive, guarded(send, ""))
            return
        request = Request({**scope, "type": "http", "method": scope.get("method", "GET"), "state": {}})
        try:
            if scope["type"] == "websocket" or path.startswith(SOCKET) or request.method not in READING:
                require_ours(request)
            principal = await self._who(request, used=request.method != "GET" or not path.startswith(SOCKET))
        except BusError as error:
            await self._refuse(error, scope, receive, send)
            return
        if path == "/admin":
            await _redirect(send, "/admin/")
            return
        if path.startswith(SOCKET):
            scope[HOLDER] = principal
        else:
            scope["viewer"] = Viewer(request, principal, self._api_as(request), self._services.context.clock.now)
        if scope["type"] == "websocket":
            await self._hold(request, scope, receive, send)
            return
        await self._pages(scope, receive, guarded(send, secrets.token_urlsafe(16)))

    def _api_as(self, request: Request) -> Api:
        async def rights() -> tuple[tuple[str, ...], tuple[str, ...]]:
            principal = await self._who(request, used=False)
            return principal.roles, principal.destinations

        return Api(self._api, request, self._shared, rights)

    async def _who(self, request: Request, *, used: bool) -> Principal:
        # Identified as a GET, without a CSRF token: the origin was checked, and changes go through the API.
        scope = {**request.scope, "method": "GET", "state": {}, BY_ITSELF: not used}
        return await identify(Request(scope), self._services.context.keyring, self._services.sessions)

    async def _hold(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        async def still(used: bool) -> bool:
            try:
                await self._who(request, used=used)
            except AccessDenied:
                return False
            except BusError:
                return True  # the store is unavailable: the API refuses requests that need it
            return True

        await hold(self._pages, scope, receive, send, still=still, clock=self._services.context.clock)

    async def _refuse(self, error: BusError, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif isinstance(error, AccessDenied) and error.status == 401 and not scope["path"].startswith(SOCKET):  # noqa: PLR2004 - no user is logged in
            await _redirect(send, f"{_LOGIN}?next={quote(_place(scope), safe='')}")
        else:
            await Refusal(problem_of(error))(scope, receive, guarded(send, ""))


def guarded(send: Send, nonce: str) -> Send:
    """Return a ``send`` that adds the headers, and the policy's nonce to the ``<script>`` tags of a page.

    Texts from messages are in a page with ``<`` escaped, so that only the page's own tags get the nonce.
    """
    page = bytearray()
    held: list[Message] = []

    async def add(event: Message) -> None:
        if event["type"] == "http.response.start":
            headers = [*event.get("headers", ()), *_HEADERS]
            if _is_page(headers) and nonce:
                policy = _POLICY.format(nonce=nonce)
                headers = [header for header in headers if header[0] != b"content-length"]
                held.append({**event, "headers": [*headers, (b"content-security-policy", policy.encode())]})
                return
            event["headers"] = [*headers, (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")]
        elif held and event["type"] == "http.response.body":
            page.extend(event.get("body", b""))
            if event.get("more_body"):
                return
            content = bytes(page).replace(b"<script", f'<script nonce="{nonce}"'.encode())
            start = held.pop()
            start["headers"].append((b"content-length", str(len(content)).encode()))
            await send(start)
            event = {"type": "http.response.body", "body": content}
        await send(event)

    return add


def _is_page(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/html") for name, value in headers)


def _place(scope: Scope) -> str:
    path: str = scope["path"]
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}" if query else path


async def _redirect(send: Callable[[Message], Awaitable[object]], place: str) -> None:
    headers = [(b"location", place.encode()), (b"cache-control", b"no-store"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
