"""Routing of requests to applications; health, metrics and reports for other processes are answered here."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Final

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST

from bus.bootstrap import Asgi, Context, Introspection
from bus.cluster.peer_app import PeerApp
from bus.cluster.peers import Alive
from bus.cluster.report import REPORT, Report
from bus.http.asgi import JSON, Receive, Refusal, Scope, Send, answer, guarded
from bus.http.hosts import is_loopback
from bus.http.problem import Problem, problem
from bus.serving.exposition import Exposition
from bus.serving.sockets import PAGES

_SERVED_BY: Final = {
    "/v1/messages": "receiver",
    "/v1/events": "receiver",
    "/api/v1/lookup": "lookup",
    "/api/v1": "admin",
    "/admin": "admin",
    "/docs": "admin",
}
_POLICY_VIOLATION: Final = 1008
_PAGES: Final = "/admin"
_PLAIN: Final = "text/plain; charset=utf-8"


class Gateway:
    """Sends each request to the application of its path; health, metrics and reports are answered here.

    ``siblings`` are the URLs of processes whose metrics are told with those of this one.
    """

    def __init__(self, context: Context, introspection: Introspection, siblings: Sequence[str] = ()) -> None:
        self._context = context
        self._introspection = introspection
        routes: dict[str, Asgi] = {
            REPORT: PeerApp(context.peer_key, {REPORT: self._report}),
            **introspection.offers.routes,
        }
        # The longest first: what other processes ask is answered by several applications below the same path.
        self._routes = {prefix: routes[prefix] for prefix in sorted(routes, key=len, reverse=True)}
        self._public = [self._routes[prefix] for prefix in introspection.offers.public]
        self._exposition = Exposition(context, introspection, siblings)
        self._alive = msgspec.json.encode(Alive("ok", context.owner))
        self._own = {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics}
        if _PAGES in self._routes:
            self._own["/"] = self._lead_to_pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hold one socket."""
        if scope["type"] == "websocket":
            await self._hold(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        await guarded(self._application(scope), scope, receive, send)

    async def _hold(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket of the pages; close any other."""
        app = self._route(scope["path"]) if scope["path"].startswith(PAGES) else None
        if app is None or not self._is_for_us(scope):
            await receive()
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        await app(scope, receive, send)

    def _route(self, path: str) -> Asgi | None:
        found = (app for prefix, app in self._routes.items() if path == prefix or path.startswith(f"{prefix}/"))
        return next(found, None)

    def _application(self, scope: Scope) -> Asgi:
        """Return what answers a request."""
        path: str = scope["path"]
        own = self._own.get(path)
        app = self._route(path) if own is None else None
        if path != "/healthz" and app not in self._public and not self._is_for_us(scope):
            return Refusal(problem(403, "without keys the bus answers on loopback names only", hint="bus key create"))
        if own is None:
            return app or Refusal(_nothing_at(path))
        if scope["method"] not in ("GET", "HEAD"):
            return Refusal(problem(405, f"{path} takes GET"), (b"allow", b"GET, HEAD"))
        return own

    def _is_for_us(self, scope: Scope) -> bool:
        """Whether the Host header is allowed: without keys only loopback names are, because of DNS rebinding."""
        return not self._context.keyring.is_open or is_loopback(dict(scope["headers"]).get(b"host"))

    def _may_scrape(self, scope: Scope) -> bool:
        wanted = self._context.settings.metrics_key
        shown = dict(scope["headers"]).get(b"authorization", b"")
        return not wanted or hmac.compare_digest(shown, f"Bearer {wanted}".encode())

    async def _report(self, _: bytes) -> Report:
        return await self._introspection.report()

    async def _healthz(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await answer(send, 200, self._alive, JSON)

    async def _readyz(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await answer(send, 200, msgspec.json.encode(self._introspection.health()), JSON)

    async def _lead_to_pages(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        # Relative: a proxy may have put the bus below a path of its own.
        await answer(send, 307, b"", _PLAIN, (b"location", _PAGES[1:].encode()))

    async def _metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._may_scrape(scope):
            refused = problem(401, "the metrics of this bus need its metrics_key", hint="Authorization: Bearer KEY")
            await Refusal(refused)(scope, receive, send)
            return
        await answer(send, 200, await self._exposition.text(), CONTENT_TYPE_LATEST)


def _nothing_at(path: str) -> Problem:
    for prefix, role in _SERVED_BY.items():
        if path == prefix or path.startswith(f"{prefix}/"):
            return problem(
                404, f"this process is no {role}: {path[:200]} is answered by one", hint="see bus run --help"
            )
    return problem(404, f"there is nothing at {path[:200]}", hint="see /openapi.json")
