"""nsqd's auth server: a table of secrets."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


class AuthServer:
    """Answers nsqd's questions about secrets, in a thread of its own.

    Attributes
    ----------
    permissions
        What each secret allows: ``publish``, ``subscribe``.
    """

    def __init__(self) -> None:
        self.permissions: dict[str, list[str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def answer(self, secret: str) -> dict[str, Any]:
        permissions = self.permissions.get(secret)
        grants = [{"topic": ".*", "channels": [".*"], "permissions": permissions}] if permissions else []
        return {"ttl": 60, "identity": "bus", "identity_url": "", "authorizations": grants}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                secret = parse_qs(urlsplit(self.path).query).get("secret", [""])[0]
                body = json.dumps(outer.answer(secret)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
