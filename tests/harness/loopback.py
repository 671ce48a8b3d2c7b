"""A small HTTP server in threads of its own, for what stands beside a bus."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # a connection that a caller keeps open holds up nobody's end
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell of what is not simply a caller's breaking off."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Loopback:
    """Serves on a free port of 127.0.0.1 within its ``with`` block.

    Attributes
    ----------
    address, url
        ``HOST:PORT``, and the same as an HTTP address.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
