"""``/openapi.json``: built once, in the thread that loads it, and the same bytes for all callers."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from admin.app import make_app
from admin.requests.headers import guarded
from admin.services import AdminServices
from bus.http.asgi import Refusal
from bus.http.problem import problem

PATH: Final = "/openapi.json"


class Document:
    """Serves the document without a login; building it takes most of a second."""

    def __init__(self, services: AdminServices) -> None:
        self._answer = Response(msgspec.json.encode(make_app(services).openapi()), media_type="application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._answer_to(scope)(scope, receive, guarded(send))

    def _answer_to(self, scope: Scope) -> Response | Refusal:
        if scope["path"] != PATH:
            return Refusal(problem(404, "there is nothing at this path", hint="see /openapi.json"))
        if scope["method"] not in ("GET", "HEAD"):
            return Refusal(problem(405, f"{PATH} takes GET"), (b"allow", b"GET, HEAD"))
        return self._answer
