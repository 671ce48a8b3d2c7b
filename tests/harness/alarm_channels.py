"""A service that alarms are told to, in the test's own process: what it was told, and whether it takes it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Told(NamedTuple):
    """One notice."""

    channel: str
    title: str
    body: str


class AlarmChannels:
    """Takes notices of channels whose URLs it gives, by the channel's name.

    Attributes
    ----------
    told
        What it has taken.
    deaf
        Names of channels that take nothing.
    """

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.deaf: set[str] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def url(self, name: str) -> str:
        """Return the URL of a channel."""
        return f"json://127.0.0.1:{self._server.server_port}/{name}"

    def config(self, name: str, **options: Any) -> str:
        """Return the lines of a ``bus.toml`` that name a channel."""
        lines = [f"[alarm_channels.{name}]", f'url = "{self.url(name)}"']
        return "\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in options.items()), ""])

    def titles(self, name: str) -> list[str]:
        """Return the titles of what a channel was told."""
        return [one.title for one in self.told if one.channel == name]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = json.loads(self.rfile.read(int(self.headers["content-length"])))
                name = self.path.strip("/")
                is_taken = name not in outer.deaf
                if is_taken:
                    outer.told.append(Told(name, content["title"], content["message"]))
                self.send_response(200 if is_taken else 500)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler
