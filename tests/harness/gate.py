"""A door before a bus: passes calls on, writes down what was answered, and can keep a call or its answer to itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

import httpx

from tests.harness.http import PLAIN
from tests.harness.loopback import Loopback

_LONGEST = 600.0
_HOP = ("host", "connection", "content-length", "accept-encoding", "transfer-encoding")


class Exchange(NamedTuple):
    """A call that the bus answered, whoever heard of it."""

    path: str
    content: bytes
    status: int
    answer: bytes


class Hold:
    """Keeps the next call of a path from the bus, or its answer from the caller, after some that pass.

    Attributes
    ----------
    holds
        Set once it has what it waits for.
    """

    def __init__(self, path: str, *, answered: bool, after: int = 0) -> None:
        self.holds = threading.Event()
        self.over = threading.Event()
        self.answered = answered
        self._path = path
        self._left = after
        self._lock = threading.Lock()

    def takes(self, path: str) -> bool:
        """Whether it is this call that is to be kept."""
        with self._lock:
            if self.holds.is_set() or not path.endswith(self._path):
                return False
            self._left -= 1
            return self._left < 0


class Gate(Loopback):
    """Stands before a bus.

    Attributes
    ----------
    exchanges
        What the bus was asked and answered so far, in order.
    """

    def __init__(self, bus: str) -> None:
        self.exchanges: list[Exchange] = []
        self._bus = httpx.Client(base_url=bus, timeout=_LONGEST, **PLAIN)
        self._hold: Hold | None = None
        super().__init__(_handler(self))

    def __exit__(self, *of: object) -> None:
        super().__exit__(*of)
        self._bus.close()

    @contextmanager
    def holding(self, path: str, *, answered: bool, after: int = 0) -> Iterator[Hold]:
        """Keep one call of a path, or its answer, until the end; the caller then finds the connection closed."""
        self._hold = hold = Hold(path, answered=answered, after=after)
        try:
            yield hold
        finally:
            self._hold = None
            hold.over.set()

    def pass_on(self, verb: str, path: str, headers: dict[str, str], content: bytes) -> httpx.Response | None:
        """Have the bus answer; None when the caller is not to hear of it."""
        hold = self._hold
        kept = hold is not None and hold.takes(path)
        if hold is not None and kept and not hold.answered:
            return _kept(hold)
        given = {name: value for name, value in headers.items() if name.lower() not in _HOP}
        response = self._bus.request(verb, path, headers=given, content=content)
        self.exchanges.append(Exchange(path, content, response.status_code, response.content))
        return _kept(hold) if hold is not None and kept else response


def _kept(hold: Hold) -> None:
    hold.holds.set()
    hold.over.wait(_LONGEST)


def _handler(gate: Gate) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
            response = gate.pass_on(self.command, self.path, dict(self.headers.items()), content)
            if response is None:
                self.close_connection = True
                return
            self.send_response(response.status_code)
            self.send_header("content-type", response.headers.get("content-type", "application/json"))
            self.send_header("content-length", str(len(response.content)))
            self.end_headers()
            self.wfile.write(response.content)

        def log_message(self, *_: Any) -> None:
            """Say nothing: ``exchanges`` has it."""

    return Handler
