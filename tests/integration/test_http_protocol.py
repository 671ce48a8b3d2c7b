"""Responses on a connection where a request is refused while an earlier one is still at work."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
import uvloop

from bus.http.corked_transport import CorkedTransport
from bus.http.heads import LONGEST_HEAD
from bus.http.protocol import MOST_BEHIND
from bus.serving.server import config as server_config
from bus.settings import Settings
from tests.harness.wire import anybody

DEADLINE = 1.0
SLOW = b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n"
FAST = b"GET /fast HTTP/1.1\r\nhost: x\r\n\r\n"
SOCKET = (
    b"GET /admin/_nicegui_ws/x HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
PART = b"POST /fast HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc"


class Application:
    """Answers with the body it got; ``/slow`` once ``go`` is set. ``/early`` answers before the body."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.gone = asyncio.Event()
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        self.begun.set()
        if scope["path"] == "/slow":
            await self.go.wait()
        if scope["type"] == "websocket":
            await self._hold(receive)
            return
        body = b"" if scope["path"] == "/early" else await self._body(receive)
        if body is None:
            self.gone.set()
            return
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _hold(self, receive: Any) -> None:
        while (await receive())["type"] != "websocket.disconnect":
            pass
        self.gone.set()

    async def _body(self, receive: Any) -> bytes | None:
        body = b""
        while (event := await receive())["type"] != "http.disconnect":
            body += event["body"]
            if not event["more_body"]:
                return body
        return None


class Peer:
    """A client that reads answers one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def answer(self) -> tuple[int, bytes] | None:
        """Return the next status and body, None when the connection was closed."""
        async with asyncio.timeout(60):
            head = await self._reader.readuntil(b"\r\n\r\n") if not await self._is_closed() else b""
            if not head:
                return None
            fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
            return int(head.split()[1]), await self._reader.readexactly(int(fields[b"content-length"]))

    async def refusal(self) -> tuple[int, dict[str, Any]]:
        found = await self.answer()
        assert found is not None
        return found[0], json.loads(found[1])

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def _is_closed(self) -> bool:
        while not self._reader._buffer:  # type: ignore[attr-defined]
            if self._reader.at_eof():
                return True
            await asyncio.sleep(0.005)
        return False


@pytest.fixture
def application() -> Application:
    return Application()


@pytest.fixture
async def peer(application: Application) -> AsyncIterator[Peer]:
    """Be connected to the server as a process of the bus sets it up."""
    config = server_config(Settings(receive_timeout=DEADLINE), application, anybody(), has_pages=True)
    config.load()
    state = uvicorn.server.ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: config.http_protocol_class(config, state, {}), "127.0.0.1", 0)
    connected = Peer(*await asyncio.open_connection(*server.sockets[0].getsockname()))
    yield connected
    application.go.set()
    await connected.close()
    server.close()
    await server.wait_closed()
    await asyncio.gather(*state.tasks)


async def test_pipelined_requests_are_answered_in_order(application: Application, peer: Peer) -> None:
    peer.send(SLOW + PART + b"defghij" + FAST)
    await application.begun.wait()
    application.go.set()
    assert [await peer.answer() for _ in range(3)] == [(200, b""), (200, b"abcdefghij"), (200, b"")]


async def test_so_many_requests_wait_behind_one_and_no_more(application: Application, peer: Peer) -> None:
    peer.send(SLOW + FAST * (MOST_BEHIND + 20))
    await application.begun.wait()
    application.go.set()
    assert [await peer.answer() for _ in range(MOST_BEHIND + 2)] == [(200, b"")] * (MOST_BEHIND + 1) + [None]
    assert len(application.asked) == MOST_BEHIND + 1


async def test_what_is_garbage_behind_requests_costs_them_nothing(application: Application, peer: Peer) -> None:
    peer.send(SLOW + FAST + b"\x00garbage\r\n\r\n")
    await application.begun.wait()
    application.go.set()
    assert [await peer.answer() for _ in range(3)] == [(200, b""), (200, b""), None]


@pytest.mark.parametrize("rest", [b"", b"XX\r\n"], ids=["late", "broken"])
async def test_a_refusal_waits_for_its_turn(application: Application, peer: Peer, rest: bytes) -> None:
    chunked = b"POST /second HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"
    peer.send(SLOW + chunked + rest)
    await application.begun.wait()
    if not rest:
        # What is not read is not late: reading goes on once the first request is answered.
        await asyncio.sleep(DEADLINE * 2)
    application.go.set()
    assert await peer.answer() == (200, b"")
    status, document = await peer.refusal()
    assert (status, document["status"]) == ((400, 400) if rest else (408, 408))
    assert await peer.answer() is None


async def test_an_application_that_waits_for_a_body_learns_that_it_does_not_come(
    application: Application, peer: Peer
) -> None:
    peer.send(PART)
    assert (await peer.refusal())[0] == 408
    assert await peer.answer() is None
    async with asyncio.timeout(60):
        await application.gone.wait()


async def test_the_rest_of_a_body_that_was_answered_early_is_waited_for_and_then_the_next_request_is_served(
    application: Application, peer: Peer
) -> None:
    peer.send(PART.replace(b"/fast", b"/early"))
    assert await peer.answer() == (200, b"")
    peer.send(b"defghij" + FAST)
    assert await peer.answer() == (200, b"")


async def test_the_rest_of_a_body_that_was_answered_early_has_a_deadline(peer: Peer) -> None:
    begun_at = time.monotonic()
    peer.send(PART.replace(b"/fast", b"/early"))
    assert await peer.answer() == (200, b"")
    assert await peer.answer() is None
    assert DEADLINE * 0.9 < time.monotonic() - begun_at < 30


async def test_a_body_that_pauses_less_than_the_deadline_in_all_is_taken(peer: Peer) -> None:
    peer.send(PART)
    await asyncio.sleep(DEADLINE / 3)
    peer.send(b"defghij")
    assert await peer.answer() == (200, b"abcdefghij")


async def test_each_request_has_a_deadline_of_its_own(peer: Peer) -> None:
    peer.send(PART)
    await asyncio.sleep(DEADLINE * 0.55)
    peer.send(b"defghij" + PART)
    assert await peer.answer() == (200, b"abcdefghij")
    await asyncio.sleep(DEADLINE * 0.55)
    peer.send(b"defghij")
    assert await peer.answer() == (200, b"abcdefghij")


async def test_bodies_before_a_head_do_not_count_as_head(peer: Peer) -> None:
    size = LONGEST_HEAD - 100
    whole = b"POST /fast HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size + b"b" * size
    head = FAST[:-2] + b"x: " + b"y" * 2000 + b"\r\n\r\n"
    for _ in range(3):
        peer.send(whole + head[:500])
        assert await peer.answer() == (200, b"b" * size)
        peer.send(head[500:1000])
        await asyncio.sleep(0.02)
        peer.send(head[1000:])
        assert await peer.answer() == (200, b"")


async def test_a_head_in_many_pieces_has_the_same_limit(application: Application, peer: Peer) -> None:
    peer.send(FAST[:-2])
    for _ in range(70):
        peer.send(b"x: " + b"y" * 1000 + b"\r\n")
        await asyncio.sleep(0)
    assert (await peer.refusal())[0] == 431
    assert await peer.answer() is None
    assert application.asked == []


async def test_a_handshake_that_nobody_finishes_has_the_same_deadline(application: Application, peer: Peer) -> None:
    peer.send(SOCKET)
    async with asyncio.timeout(60):
        await application.begun.wait()
        assert await peer.answer() is None
        await application.gone.wait()


def test_an_answer_to_a_peer_that_has_gone_meanwhile_is_dropped_without_a_word() -> None:
    troubles: list[dict[str, Any]] = []

    async def answer_and_lose() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: troubles.append(context))
        one, other = socket.socketpair()
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=one)
        answering = CorkedTransport(transport, loop, lambda: False)
        transport.abort()
        answering.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(5):
            await asyncio.sleep(0)
        other.close()

    uvloop.run(answer_and_lose())
    assert not troubles
