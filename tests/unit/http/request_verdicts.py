"""The verdict of the server on raw requests: its answers, the state of the connection, and what the application saw."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import uvicorn

from bus.http.asgi import Field, Receive, Refusal, Scope, Send, answer, read_body, refusing, require_post
from bus.http.endpoint import Endpoint, PendingRequest, RequestHandler
from bus.http.problem import problem
from bus.serving.server import config as server_config
from bus.settings import Settings
from tests.harness.wire import JumpingLoop, Wire, anybody, jumping

DEADLINE: Final = 5.0
DATE: Final = "Sat, 28 Nov 2026 12:00:00 GMT"
_PROBE: Final = b"GET /probe HTTP/1.1\r\nhost: probe\r\n\r\n"
_METHOD: Final = re.compile(rb"(?:^|\n)([A-Z]+) \S+ HTTP/1")
_FIELD: Final = b"/field/"
_WITHOUT_CONTENT: Final = (204, 304)


class Answer(NamedTuple):
    """An answer as a client reads it."""

    status: int
    fields: dict[str, str]
    content: bytes


@dataclass(frozen=True)
class Verdict:
    """What came of requests.

    Attributes
    ----------
    statuses
        Of all answers, interim ones included.
    is_open
        Whether the connection took and answered another request afterwards.
    seen
        What the application saw of each request: its body, or for ``/field/NAME`` the values of that field.
    """

    statuses: tuple[int, ...]
    is_open: bool
    seen: tuple[bytes, ...]

    def __str__(self) -> str:
        statuses = " ".join(map(str, self.statuses)) or "no answer"
        bodies = ", ".join(f"`{body.decode('latin-1')}`" if body else "no body" for body in self.seen)
        return f"{statuses}, {'open' if self.is_open else 'closed'}, {bodies or 'no request'} seen"


class Conversation(NamedTuple):
    """The verdict on requests, and the answers in full."""

    verdict: Verdict
    answers: list[Answer]


def _seen(target: str, headers: Sequence[Field], body: bytes) -> bytes:
    name = target.encode()[len(_FIELD) :]
    if not target.startswith(_FIELD.decode()):
        return body
    return b"|".join(value for field, value in headers if field == name)


class Application:
    """Answers 200, or as the path says, and records what it saw."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with refusing(scope, receive, send):
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == "/refused":
            await Refusal(problem(401, "no key"))(scope, receive, send)
            return
        if path == "/takes-post":
            require_post(scope)
        body = await read_body(receive, dict(scope["headers"]), 2**20)
        self.seen.append(_seen(path, scope["headers"], body))
        if path == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ab", "more_body": True})
            await send({"type": "http.response.body", "body": b"cd"})
        elif path in ("/204", "/304"):
            await send({"type": "http.response.start", "status": int(path[1:]), "headers": []})
            await send({"type": "http.response.body"})
        else:
            await answer(send, 200, path.encode(), "text/plain")


class PostEndpoint:
    """Takes each POST to ``/`` without the application."""

    def __init__(self, seen: list[bytes]) -> None:
        self._seen = seen

    def begin(self, method: bytes, target: bytes, _headers: Sequence[Field]) -> RequestHandler | None:
        """Take a POST to ``/``."""
        return self if (method, target) == (b"POST", b"/") else None

    def take(self, body: bytes, request: PendingRequest) -> None:
        """Answer in the next turn."""
        self._seen.append(body)
        asyncio.get_running_loop().call_soon(request.answer, 200, b"/")


def converse(pieces: Sequence[bytes], *, ends: bool = False, has_endpoint: bool = False) -> Conversation:
    """Send pieces, and nothing more if it ``ends``; ``has_endpoint`` has an endpoint take each POST to ``/``."""
    return jumping(lambda loop: _converse(loop, pieces, ends=ends, has_endpoint=has_endpoint))


async def _converse(loop: JumpingLoop, pieces: Sequence[bytes], *, ends: bool, has_endpoint: bool) -> Conversation:
    application = Application()
    wire = _connected(loop, application, PostEndpoint(application.seen) if has_endpoint else None)
    for piece in pieces:
        wire.send(piece)
        if len(piece) > 1:
            await loop.settle()
    if ends:
        wire.finish()
    await asyncio.sleep(DEADLINE + 2)
    seen, methods = tuple(application.seen), _METHOD.findall(b"".join(pieces))
    is_open = wire.closed_at is None
    found = answers_of(wire.heard, methods, is_closed=not is_open)
    if is_open:
        await _probe(loop, wire)
    return Conversation(Verdict(tuple(one.status for one in found), is_open, seen), found)


@cache
def _settings() -> Settings:
    return Settings(receive_timeout=DEADLINE)


def _connected(loop: JumpingLoop, application: Application, endpoint: Endpoint | None) -> Wire:
    config = server_config(_settings(), application, anybody(), endpoint, has_pages=True)
    config.load()
    state = uvicorn.server.ServerState()
    state.default_headers = [(b"date", DATE.encode())]
    make: Callable[..., asyncio.Protocol] = config.http_protocol_class
    return Wire(loop, make(config, state, {}))


async def _probe(loop: JumpingLoop, wire: Wire) -> None:
    """Ask once more on the connection: the server must not be in the middle of anything."""
    before = len(wire.heard)
    wire.send(_PROBE)
    await loop.settle()
    (found,) = answers_of(wire.heard[before:], [b"GET"], is_closed=False)
    assert (found.status, found.content) == (200, b"/probe")


def answers_of(heard: bytes, methods: Sequence[bytes], *, is_closed: bool) -> list[Answer]:
    """Return the answers to requests of these methods, read as RFC 9112, section 6.3, demands of a client."""
    found: list[Answer] = []
    finals = 0
    while heard:
        head, end, heard = heard.partition(b"\r\n\r\n")
        assert end
        first, *lines = head.decode("latin-1").split("\r\n")
        status, fields = int(first.removeprefix("HTTP/1.1 ")[:3]), _fields(lines)
        is_head = finals < len(methods) and methods[finals] == b"HEAD"
        finals += status >= 200
        content = b""
        if status >= 200 and status not in _WITHOUT_CONTENT and not is_head:
            content, heard = _content(fields, heard, is_closed=is_closed)
        found.append(Answer(status, fields, content))
    return found


def _fields(lines: Sequence[str]) -> dict[str, str]:
    pairs = [line.split(": ", 1) for line in lines]
    fields = {name.lower(): value for name, value in pairs}
    assert len(fields) == len(pairs)
    return fields


def _content(fields: dict[str, str], heard: bytes, *, is_closed: bool) -> tuple[bytes, bytes]:
    """Return the content of an answer, and what follows it."""
    assert not {"content-length", "transfer-encoding"} <= fields.keys()
    if fields.get("transfer-encoding") == "chunked":
        return _chunks(heard)
    if "content-length" not in fields:
        assert is_closed
        return heard, b""
    size = int(fields["content-length"])
    assert len(heard) >= size
    return heard[:size], heard[size:]


def _chunks(heard: bytes) -> tuple[bytes, bytes]:
    content = b""
    while True:
        line, end, heard = heard.partition(b"\r\n")
        assert end
        size = int(line, 16)
        piece, heard = heard[:size], heard[size:]
        assert heard.startswith(b"\r\n")
        content, heard = content + piece, heard[2:]
        if not size:
            return content, heard
