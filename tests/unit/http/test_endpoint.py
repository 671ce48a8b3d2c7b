"""Requests at an endpoint: their responses, those behind them, and peers that disconnect."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import weakref
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
import uvicorn

from bus.errors import SpoolFull
from bus.http.asgi import Receive, Scope, Send, answer
from bus.http.endpoint import PendingRequest
from bus.serving.server import config as server_config
from bus.settings import Settings
from tests.harness.wire import JumpingLoop, Wire, anybody, jumping

DEADLINE = 5.0
POST = b"POST /taken HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nbody"
SOCKET = (
    b"GET /admin/_nicegui_ws/x HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
GET = b"GET /other HTTP/1.1\r\nhost: x\r\n\r\n"


class Taking:
    """An endpoint that takes what is POSTed, and answers when the test has it answer."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.taken: list[One] = []
        self.fails_at_head = False
        self.error: Exception | None = None

    def begin(self, method: bytes, target: bytes, _: Sequence[tuple[bytes, bytes]]) -> One | None:
        if self.fails_at_head:
            raise RuntimeError("a bug")
        self.begun.append(target)
        return One(self) if method == b"POST" else None

    def answer(self) -> None:
        """Answer what was taken first."""
        one = self.taken.pop(0)
        one.request.answer(202, json.dumps(one.body.decode()).encode())


class One:
    """What an endpoint has of one request."""

    def __init__(self, endpoint: Taking) -> None:
        self._endpoint = endpoint
        self.body = b""
        self.request: PendingRequest

    def take(self, body: bytes, request: PendingRequest) -> None:
        if self._endpoint.error is not None:
            raise self._endpoint.error
        self.body, self.request = body, request
        self._endpoint.taken.append(self)


class Server:
    """A protocol on a wire, an endpoint, and an application that answers with its path."""

    def __init__(self, loop: JumpingLoop) -> None:
        self.loop = loop
        self.endpoint = Taking()
        self.asked: list[str] = []
        self.state = uvicorn.server.ServerState()
        config = server_config(Settings(receive_timeout=DEADLINE), self, anybody(), self.endpoint, has_pages=True)
        config.load()
        self.wire = Wire(loop, config.http_protocol_class(config, self.state, {}))
        (self.protocol,) = self.state.connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope["path"])
        await receive()
        await answer(send, 200, scope["path"].encode(), "text/plain")

    @property
    def statuses(self) -> list[int]:
        return [int(found) for found in re.findall(rb"HTTP/1.1 (\d+)", self.wire.heard)]


def served(test: Callable[[Server], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a test of a talk with a server, on a loop whose time jumps."""

    def run() -> None:
        async def talk(loop: JumpingLoop) -> None:
            await test(Server(loop))

        jumping(talk)

    return run


@served
async def test_a_request_is_answered_when_its_taker_answers(server: Server) -> None:
    server.wire.send(POST)
    await server.loop.settle()
    assert (server.wire.heard, server.asked) == (b"", [])
    server.endpoint.answer()
    assert server.wire.heard == (
        b'HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: 6\r\n\r\n"body"'
    )
    server.wire.send(POST)
    server.endpoint.answer()
    assert server.statuses == [202, 202]
    assert server.state.total_requests == 2


@served
async def test_what_comes_behind_waits_for_its_turn(server: Server) -> None:
    server.wire.send(POST + GET, POST)
    await server.loop.settle()
    assert (server.statuses, server.asked, len(server.endpoint.taken)) == ([], [], 1)
    server.endpoint.answer()
    await server.loop.settle()
    # The last one came while another was at work, so that it is the application's.
    assert (server.statuses, server.asked) == ([202, 200, 200], ["/other", "/taken"])
    server.wire.send(POST)
    server.endpoint.answer()
    assert server.statuses == [202, 200, 200, 202]


@served
async def test_a_peer_that_reads_nothing_has_tasks_that_wait(server: Server) -> None:
    server.wire.stall()
    for _ in range(50):
        server.wire.send(POST)
        await server.loop.settle()
    assert not server.endpoint.begun
    assert not server.wire.heard
    assert server.wire.unread > 10 * len(POST)
    server.wire.go_on()
    await server.loop.settle()
    assert server.statuses[:2] == [200, 200]


@pytest.mark.parametrize("error", [SpoolFull("full"), RuntimeError("a bug")], ids=["refused", "bug"])
def test_what_its_taker_raises_is_its_answer(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async def talk(loop: JumpingLoop) -> None:
        server = Server(loop)
        server.endpoint.error = error
        server.wire.send(POST)
        await loop.settle()
        server.endpoint.error = None
        server.wire.send(POST)
        server.endpoint.answer()
        assert server.statuses == [507 if isinstance(error, SpoolFull) else 500, 202]
        assert b"a bug" not in server.wire.heard

    jumping(talk)
    messages = [] if isinstance(error, SpoolFull) else ["POST /taken failed"]
    assert [record.getMessage() for record in caplog.records if record.exc_info] == messages


@served
async def test_a_bug_at_the_head_is_no_fault_of_the_request(server: Server) -> None:
    server.endpoint.fails_at_head = True
    server.wire.send(POST)
    await server.loop.settle()
    assert (server.statuses, server.asked) == ([200], ["/taken"])


@served
async def test_an_answer_for_a_peer_that_is_gone_is_dropped(server: Server) -> None:
    server.wire.send(POST)
    server.wire.hang_up()
    await server.loop.settle()
    server.endpoint.answer()
    assert not server.wire.heard
    assert not server.state.connections


@served
async def test_a_connection_may_become_a_socket_afterwards(server: Server) -> None:
    server.wire.send(POST)
    server.endpoint.answer()
    server.wire.send(SOCKET)
    await server.loop.settle()
    assert server.asked == ["/admin/_nicegui_ws/x"]
    assert not server.endpoint.taken


@served
async def test_a_body_in_many_pieces_is_whole(server: Server) -> None:
    server.wire.send(POST[:-4], *(POST[at : at + 1] for at in range(len(POST) - 4, len(POST))))
    server.endpoint.answer()
    assert server.wire.heard.endswith(b'"body"')


@served
async def test_a_request_that_was_answered_is_no_garbage(server: Server) -> None:
    server.wire.send(POST)
    await server.loop.settle()
    first = weakref.ref(server.endpoint.taken[0])
    gc.disable()
    try:
        for _ in range(2):
            server.endpoint.answer()
            server.wire.send(POST)
        assert first() is None
    finally:
        gc.enable()


@served
async def test_a_server_that_stops_closes_behind_the_answer(server: Server) -> None:
    server.wire.send(POST)
    server.protocol.shutdown()
    assert server.wire.closed_at is None
    server.endpoint.answer()
    assert b"connection: close" in server.wire.heard
    assert server.wire.is_closing()


@served
async def test_a_server_that_stops_closes_what_is_idle(server: Server) -> None:
    server.wire.send(POST)
    server.endpoint.answer()
    server.protocol.shutdown()
    assert server.wire.is_closing()


@served
async def test_a_body_that_does_not_come_whole_is_never_taken(server: Server) -> None:
    server.wire.send(POST[:-1])
    await asyncio.sleep(DEADLINE * 0.9)
    assert server.statuses == []
    await asyncio.sleep(DEADLINE * 0.2)
    assert server.statuses == [408]
    server.wire.send(POST[-1:])
    await asyncio.sleep(DEADLINE)
    assert server.wire.is_closing()
    assert (server.endpoint.begun, server.endpoint.taken) == ([b"/taken"], [])


@served
async def test_a_taker_that_takes_long_is_waited_for(server: Server) -> None:
    server.wire.send(POST)
    await asyncio.sleep(DEADLINE * 100)
    server.endpoint.answer()
    assert server.statuses == [202]
