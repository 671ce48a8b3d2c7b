"""Calls of a page to the admin API: as its viewer, in this process, with the same checks as from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import httpx
import msgspec
from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from admin.access.cookies import session_token
from admin.access.identity import BY_ITSELF, CSRF_HEADER
from admin.pages.api_error import ApiError
from admin.pages.shared_answers import SharedAnswers
from bus.errors import BusError
from bus.http.problem import problem_of
from bus.localized_text import LocalizedText, localized
from bus.security.sessions import csrf_of

_PASSED_ON: Final = ("authorization", "cookie", "host", "user-agent", "x-forwarded-for")
View = TypeVar("View")
_CHANGED: Final = 403
Rights = Callable[[], Awaitable[tuple[tuple[str, ...], tuple[str, ...]]]]


class _Problem(msgspec.Struct):
    """The fields of a problem document that a page needs."""

    detail: str = ""
    hint: str = ""
    field: str = ""
    detail_text: LocalizedText | None = None
    hint_text: LocalizedText | None = None


class ChangeResponse:
    """The answer to a change."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, kind: type[View]) -> View:
        """Return the answer's body as a struct."""
        return msgspec.json.decode(self._content, type=kind)


class Api:
    """The API as one viewer; every method raises `ApiError`. ``csrf`` is the token for calls by the page's script.

    ``rights`` returns the roles and the destinations that the viewer has now, and raises ``BusError``.
    """

    def __init__(self, app: ASGIApp, request: Request, shared: SharedAnswers, rights: Rights) -> None:
        self._shared = shared
        self._rights = rights
        client = request.client
        transport = httpx.ASGITransport(
            _by_itself(app), client=(client.host, client.port) if client else ("", 0), raise_app_exceptions=False
        )
        # All lines of a header: the last x-forwarded-for is the proxy's, earlier ones may be forged by the client.
        headers = [(name, line) for name in _PASSED_ON for line in request.headers.getlist(name)]
        token = session_token(request)
        self.csrf = csrf_of(token) if token is not None else ""
        if self.csrf:
            headers.append((CSRF_HEADER, self.csrf))
        headers.append(("sec-fetch-site", "same-origin"))
        self._http = httpx.AsyncClient(transport=transport, base_url="http://bus/api/v1", headers=headers)

    async def get(self, path: str, kind: type[View], query: Mapping[str, object] | None = None) -> View:
        """Read a path's answer as a struct; None and empty values of ``query`` are left out."""
        params = {name: str(value) for name, value in (query or {}).items() if value not in (None, "")}
        return msgspec.json.decode((await self._answer("GET", path, params=params)).content, type=kind)

    async def watch(self, path: str, kind: type[View], query: Mapping[str, object] | None = None) -> View:
        """Read a path's answer as ``get`` does, for a page that follows it.

        The answer may be a second old, and is shared with all who have the same rights, so that it must not be changed.
        Only for what depends on nothing but rights.
        """
        rights = await self._known_rights()
        question = (rights, path, kind, tuple((query or {}).items()))
        found = await self._shared.get(question, lambda: self._same_rights(rights, path, kind, query))
        # The shared answer is valid only while the viewer has these rights.
        return found if await self._known_rights() == rights else await self.get(path, kind, query)

    async def _same_rights(
        self, rights: object, path: str, kind: type[View], query: Mapping[str, object] | None
    ) -> View:
        """Ask on behalf of all viewers with these rights; refuse when the rights changed during the call."""
        found = await self.get(path, kind, query)
        if await self._known_rights() != rights:
            raise ApiError(_CHANGED, localized("your rights were changed just now"), localized("reload the page"))
        return found

    async def _known_rights(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        try:
            return await self._rights()
        except BusError as error:
            raise ApiError(problem_of(error).status, error.said, error.hint_said) from error

    async def content(self, path: str) -> httpx.Response:
        """Read something that is not JSON."""
        return await self._answer("GET", path)

    async def post(self, path: str, body: Mapping[str, object] | None = None) -> ChangeResponse:
        """Have something done."""
        return await self._change("POST", path, body or {})

    async def put(self, path: str, body: Mapping[str, object]) -> ChangeResponse:
        """Make or replace something."""
        return await self._change("PUT", path, body)

    async def patch(self, path: str, body: Mapping[str, object]) -> ChangeResponse:
        """Change fields of something."""
        return await self._change("PATCH", path, body)

    async def delete(self, path: str) -> None:
        """Remove something."""
        await self._answer("DELETE", path)

    async def _change(self, method: str, path: str, body: Mapping[str, object]) -> ChangeResponse:
        return ChangeResponse((await self._answer(method, path, body=body)).content)

    async def _answer(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> httpx.Response:
        answer = await self._http.request(method, path, params=params, json=body)
        if answer.is_error:
            raise _refused(answer)
        return answer


def _by_itself(app: ASGIApp) -> ASGIApp:
    """Mark calls as the page's own, so that its polls do not keep an idle session; the guard counts what people do."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, BY_ITSELF: True}, receive, send)

    return call


def _refused(answer: httpx.Response) -> ApiError:
    try:
        found = msgspec.json.decode(answer.content, type=_Problem)
    except msgspec.DecodeError:
        found = _Problem()
    detail = found.detail_text or found.detail or answer.reason_phrase
    return ApiError(answer.status_code, detail, found.hint_text or found.hint, found.field)
