"""A bus that answers what a test says."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from tests.harness.loopback import Loopback


class Asked(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)


Route = Callable[[Asked], Any]


class FakeBus(Loopback):
    """``on(method, path, answer...)``: answers are JSON, ``(status, JSON)`` or functions; the last one repeats."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._routes: dict[tuple[str, str], list[Any]] = {}
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                parts = urlsplit(self.path)
                content = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, parts.path, dict(parse_qsl(parts.query)), headers, content)
                status, body = fake.find(asked)
                text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        super().__init__(Handler)

    def on(self, method: str, path: str, *answers: Any) -> None:
        self._routes[method, path] = list(answers)

    def find(self, asked: Asked) -> tuple[int, Any]:
        self.asked.append(asked)
        answers = self._routes.get((asked.method, asked.path))
        if not answers:
            return 404, {"title": "Not found", "status": 404, "detail": f"there is no {asked.path}"}
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if callable(answer):
            answer = answer(asked)
        return answer if isinstance(answer, tuple) else (200, answer)
