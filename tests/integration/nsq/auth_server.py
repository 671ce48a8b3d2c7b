"""nsqd's auth server: a table of secrets."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.harness.loopback import Loopback


class AuthServer(Loopback):
    """Answers nsqd's questions about secrets.

    Attributes
    ----------
    permissions
        What each secret allows: ``publish``, ``subscribe``.
    """

    def __init__(self) -> None:
        self.permissions: dict[str, list[str]] = {}
        super().__init__(self._handler())

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
