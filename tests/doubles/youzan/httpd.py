"""A small HTTP server, which can also answer as no good server does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.doubles.youzan.nsqd import HOST


@dataclass(frozen=True, slots=True)
class Request:
    """One request; of a parameter that is given twice the last counts."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the body as JSON, empty when there is none."""
        found: dict[str, Any] = json.loads(self.body or b"{}")
        return found


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; ``cut`` is how many bytes of its body are sent before the connection is closed, all when None."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None

    def encoded(self) -> bytes:
        """Return it as it is sent."""
        head = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}", f"Content-Length: {len(self.body)}"]
        head += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*head, "", ""]).encode() + self.body[: self.cut]


def json_answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Return JSON."""
    return Answer(
        status, json.dumps(value).encode(), {"Content-Type": "application/json; charset=utf-8", **(headers or {})}
    )


Handler = Callable[[Request], Awaitable[Answer]]


class HttpServer:
    """Serves one handler on a port that stays the same when it is stopped and started again."""

    def __init__(self, handler: Handler, port: int) -> None:
        self.port = port
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def running(self) -> bool:
        """Whether it listens."""
        return self._server is not None

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, HOST, self.port)

    async def stop(self) -> None:
        """Stop listening and cut all connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while request := await _read(reader):
                answer = await self._handler(request)
                writer.write(answer.encoded())
                await writer.drain()
                if answer.cut is not None or request.headers.get("connection", "").lower() == "close":
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return Request(method, parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), headers, body)
