"""HTTP as a client writes it that keeps to no rules, and the answers as they come."""

from __future__ import annotations

import json
import socket
from typing import Any, NamedTuple

from tests.harness.bus_process import BusProcess


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    content: bytes

    def problem(self, status: int) -> dict[str, Any]:
        assert (self.status, self.headers["content-type"]) == (status, "application/problem+json")
        document: dict[str, Any] = json.loads(self.content)
        assert document["status"] == status
        assert document["title"] not in ("", "Error")
        assert document["detail"]
        return document


def read_all(peer: socket.socket) -> bytes:
    """Return what comes until the bus closes."""
    gathered = b""
    try:
        while piece := peer.recv(65_536):
            gathered += piece
    except ConnectionResetError:
        pass
    return gathered


def answers(content: bytes) -> list[Answer]:
    found = []
    while content:
        head, _, content = content.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", 0))
        found.append(Answer(int(first.split()[1]), headers, content[:size]))
        content = content[size:]
    return found


def connected(bus: BusProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", bus.port), timeout=60)


def asked(bus: BusProcess, *pieces: bytes) -> list[Answer]:
    """Send pieces and return every answer until the bus closes the connection."""
    with connected(bus) as peer:
        for piece in pieces:
            peer.sendall(piece)
        return answers(read_all(peer))
