"""``/docs``: the API reference to read and try, by Swagger UI from an installed package."""

from __future__ import annotations

import gzip
from importlib import resources
from string import Template
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from admin.pages.assets import HEADERS, text_of, url_of
from bus.http.asgi import Refusal
from bus.http.problem import problem

PATH: Final = "/docs"
_PACKAGE: Final = "fastapi_offline"
_SCRIPT, _STYLE = "swagger-ui-bundle.js", "swagger-ui.css"
_TYPES: Final = {_SCRIPT: "text/javascript", _STYLE: "text/css"}
# Swagger UI sets styles of elements, and has its signs as data.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_KEPT: Final = {"cache-control": "public, max-age=86400"}


class Reference:
    """Serves the page of the API reference and its assets; like the document that it shows, it needs no login."""

    def __init__(self) -> None:
        folder = resources.files(_PACKAGE) / "static"
        self._files = {f"{PATH}/{name}": (folder / name).read_bytes() for name in _TYPES}
        self._packed = {path: gzip.compress(content, mtime=0) for path, content in self._files.items()}
        page = Template(text_of("docs.html")).substitute(
            style=f"docs/{_STYLE}", script=f"docs/{_SCRIPT}", start=url_of("docs.js").removeprefix("/")
        )
        self._page = page.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._answer_to(scope)(scope, receive, send)

    def _answer_to(self, scope: Scope) -> Response | Refusal:
        path: str = scope["path"]
        if path != PATH and path not in self._files:
            return Refusal(problem(404, "there is nothing at this path", hint="see /docs"))
        if scope["method"] not in ("GET", "HEAD"):
            return Refusal(problem(405, f"{path} takes GET"), (b"allow", b"GET, HEAD"))
        headers = {**HEADERS, "content-security-policy": _POLICY}
        if path == PATH:
            return Response(self._page, media_type="text/html", headers={**headers, "cache-control": "no-store"})
        kind = _TYPES[path.rpartition("/")[2]]
        headers |= {**_KEPT, "vary": "accept-encoding"}
        if "gzip" in Headers(scope=scope).get("accept-encoding", ""):
            headers |= {"content-encoding": "gzip"}
            return Response(self._packed[path], media_type=kind, headers=headers)
        return Response(self._files[path], media_type=kind, headers=headers)
