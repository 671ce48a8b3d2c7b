"""A subscriber to try the bus with: prints what it gets and answers 200, or another status with ``--status``.

python -m bus.testing.subscriber --port 9000
"""

from __future__ import annotations

import argparse
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

_SHOWN: Final = 2000


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    status = 200

    def do_POST(self) -> None:
        """Print one delivery and answer."""
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        shown = body[:_SHOWN].decode("utf-8", "replace")
        attempt, batch = self.headers.get("bus-attempt"), self.headers.get("bus-batch")
        which = f"{batch} messages" if batch else f"attempt {attempt}"
        sys.stdout.write(f"{self.path}  {self.headers.get('webhook-id')}  {which}  {shown}\n")
        sys.stdout.flush()
        self.send_response(self.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
        """Print no access log beside the deliveries."""


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m bus.testing.subscriber", description=(__doc__ or "").split(":")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--status", type=int, default=200, help="what to answer; 500 shows retries")
    options = parser.parse_args()
    _Handler.status = options.status
    with ThreadingHTTPServer((options.host, options.port), _Handler) as server:
        sys.stdout.write(f"a subscriber listens on http://{options.host}:{server.server_port}\n")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
