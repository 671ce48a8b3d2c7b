"""Clients over https trust nobody without a known authority."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import trustme

from bus.cli.api import Api
from bus.client.network.http import ReceiverClient
from bus.clock import SystemClock
from bus.errors import ReceiverUnavailable


class Impostor(BaseHTTPRequestHandler):
    """Would take everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def impostor() -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    with HTTPServer(("127.0.0.1", 0), Impostor) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"https://localhost:{server.server_port}"
        server.shutdown()
        serving.join()


def test_the_command_line_tells_an_impostor_nothing(impostor: str) -> None:
    with (
        Api(impostor, "secret") as api,
        pytest.raises(ReceiverUnavailable, match="TLS: certificate of an unknown authority"),
    ):
        api.call("GET", "/api/v1/destinations")


def test_a_producer_sends_an_impostor_nothing(impostor: str) -> None:
    client = ReceiverClient(impostor, api_key="secret", clock=SystemClock(), timeout=10, transport=None)
    reply = client.post([b"{}\n"], ["1"])
    client.close()
    assert reply.results is None
    assert reply.failure == "TLS: certificate of an unknown authority"
