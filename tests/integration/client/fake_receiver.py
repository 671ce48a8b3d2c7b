"""A scripted HTTP server in the place of a receiver: each request takes the next answer of the script, then 200."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from threading import Condition, Event
from typing import Any

from tests.harness.loopback import Loopback

Answer = Callable[["Request"], None]
Judge = Callable[[dict[str, Any]], dict[str, Any]]


def accept(line: dict[str, Any]) -> dict[str, Any]:
    return {"id": line["id"], "status": "accepted"}


def refuse(status: int, field: str = "", detail: str = "no") -> Judge:
    def judge(line: dict[str, Any]) -> dict[str, Any]:
        error = {"title": "Refused", "status": status, "detail": detail, "field": field}
        return {"id": line["id"], "status": "rejected", "error": error}

    return judge


class Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeReceiver

    def setup(self) -> None:
        super().setup()
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/v1/events":
            self.fake.take_events(self, body)
            return
        self.lines = [json.loads(line) for line in body.split(b"\n")]
        self.fake.serve(self)

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def status(code: int, body: bytes = b"{}", **headers: str) -> Answer:
    return lambda request: request.reply(code, body, **headers)


def close(request: Request) -> None:
    request.close_connection = True
    request.connection.shutdown(socket.SHUT_RDWR)


def half(request: Request) -> None:
    """Promise more than is sent."""
    request.send_response(200)
    request.send_header("content-length", "500")
    request.end_headers()
    request.wfile.write(b'{"results": [')
    request.wfile.flush()
    close(request)


class FakeReceiver(Loopback):
    """``taken`` holds every accepted line in order of arrival, repetitions among them; ``requests`` all requests.

    Trace events are answered with ``events_status``: ``shipped`` has the files that were taken, ``refused`` how many
    were not.
    """

    def __init__(self, *script: Answer) -> None:
        super().__init__(type("Asked", (Request,), {"fake": self}))
        self._script = list(script)
        self._changed = Condition()
        self.taken: list[dict[str, Any]] = []
        self.requests: list[Request] = []
        self.judge: Judge = accept
        self.events_status = 202
        self.shipped: list[bytes] = []
        self.refused = 0
        self.release = Event()

    def __exit__(self, *what: object) -> None:
        self.release.set()
        super().__exit__(*what)

    def hang(self, request: Request) -> None:
        """Answer nothing until the test ends or sets ``release``."""
        self.release.wait()
        close(request)

    def serve(self, request: Request) -> None:
        with self._changed:
            self.requests.append(request)
            answer = self._script.pop(0) if self._script else None
            self._changed.notify_all()
        if answer is not None:
            answer(request)
            return
        results = [self.judge(line) for line in request.lines]
        with self._changed:
            pairs = zip(request.lines, results, strict=True)
            self.taken += [line for line, result in pairs if result["status"] != "rejected"]
        request.reply(200, json.dumps({"results": results}).encode())
        with self._changed:
            self._changed.notify_all()

    def take_events(self, request: Request, body: bytes) -> None:
        taken = self.events_status < 300
        with self._changed:
            self.shipped += [body] if taken else []
            self.refused += not taken
            self._changed.notify_all()
        request.reply(self.events_status, b"{}")

    def wait(self, check: Callable[[], object], within: float = 60) -> None:
        with self._changed:
            assert self._changed.wait_for(check, within), (len(self.requests), len(self.taken))

    def ids(self) -> set[str]:
        return {line["id"] for line in self.taken}


def body_of(line: dict[str, Any]) -> bytes:
    if "body_base64" in line:
        return base64.b64decode(line["body_base64"], validate=True)
    return json.dumps(line["body"], separators=(",", ":")).encode()
