"""Connections that another process serves: given away whole, at the head of their first request."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn

from bus.http.asgi import Receive, Scope, Send, answer
from bus.http.server import bind
from bus.network.descriptors import Descriptors
from bus.security.callers import Callers, Share
from bus.serving.connection_passer import ConnectionPasser, take_passed
from bus.serving.server import Server, SharedPort, config
from bus.settings import Settings
from tests.harness.waiting import until
from tests.harness.wire import anybody

_SERVED_THERE = b"GET /admin HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
_SERVED_HERE = b"GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n"


class _Pair:
    """Two servers: one has the port, the other serves what that one does not."""

    def __init__(self, first: Server, other: Server, url: str, channel: socket.socket) -> None:
        self.first = first
        self.other = other
        self.url = url
        self.channel = channel

    async def talk(self, *pieces: bytes) -> bytes:
        """Send pieces of requests, as a rule each is read alone, and return what is answered until the end."""
        parts = httpx.URL(self.url)
        reader, writer = await asyncio.open_connection(parts.host, parts.port)
        for piece in pieces:
            await asyncio.sleep(0)
            writer.write(piece)
        found = await reader.read()
        writer.close()
        return found


def _app(name: bytes) -> uvicorn._types.ASGIApplication:  # type: ignore[name-defined]
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        await answer(send, 200, name + scope["path"].encode() + b" " + body, "text/plain")

    return app


@asynccontextmanager
async def _pair(*, is_first_there: bool = True, callers: Callers | None = None) -> AsyncIterator[_Pair]:
    served, passing = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    served.setblocking(False)
    passing.setblocking(False)
    shared, own = bind("127.0.0.1", 0), bind("127.0.0.1", 0)
    port = shared.getsockname()[1]
    first = Server(config(Settings(), _app(b"first"), anybody(), has_pages=False))
    shared_port = SharedPort(port, ConnectionPasser(passing))
    other = Server(config(Settings(), _app(b"other"), callers or anybody(), None, shared_port, has_pages=False))
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(first.serve(sockets=[own])), group.create_task(other.serve(sockets=[shared]))]
            await first.serves.wait()
            await other.serves.wait()
            if is_first_there:
                tasks.append(group.create_task(take_passed(served, first.adopt)))
            yield _Pair(first, other, f"http://127.0.0.1:{port}", served)
            first.stop()
            other.stop()
            await asyncio.wait(tasks[:2])
            for task in tasks[2:]:
                task.cancel()
    finally:
        served.close()
        passing.close()


@pytest.mark.parametrize("size", [0, 10, 300_000])
async def test_a_request_is_served_whole_whoever_accepted_it(size: int) -> None:
    body = b"x" * size
    async with _pair() as pair, httpx.AsyncClient(base_url=pair.url, trust_env=False) as client:
        assert (await client.post("/v1/x", content=body)).content == b"other/v1/x " + body
        assert (await client.post("/admin", content=body)).content == b"first/admin " + body
        assert (await client.post("/v1/x", content=body)).content == b"first/v1/x " + body


@pytest.mark.parametrize("cut", [1, 6, 30, len(_SERVED_THERE) - 1])
async def test_a_head_may_come_in_two_pieces(cut: int) -> None:
    async with _pair() as pair:
        found = await pair.talk(_SERVED_THERE[:cut], _SERVED_THERE[cut:])
        assert b"first/admin" in found


async def test_what_is_sent_ahead_goes_along() -> None:
    async with _pair() as pair:
        found = await pair.talk(_SERVED_THERE.replace(b"connection: close", b"x: y") + _SERVED_THERE)
        assert found.count(b"first/admin") == 2


async def test_a_request_in_one_piece_with_one_before_it_is_to_be_sent_again() -> None:
    async with _pair() as pair:
        found = await pair.talk(_SERVED_HERE + _SERVED_THERE)
        assert found.count(b"HTTP/1.1") == 1  # whether a 421 or the first answer: that connection is closed behind it
        assert b"first" not in found


async def test_connections_that_are_passed_on_count_unless_they_have_a_key() -> None:
    callers = Callers(Share(0.001, 2), Descriptors(1_000_000, lambda: 0.0), lambda headers: b"key" in dict(headers))
    with_key = _SERVED_THERE.replace(b"host", b"key: x\r\nhost")
    async with _pair(callers=callers) as pair:
        for request, served in [(with_key, 5), (_SERVED_THERE, 2), (with_key, 5)]:
            assert [b"first/admin" in await pair.talk(request) for _ in range(5)] == [n < served for n in range(5)]


async def test_connections_wait_for_the_process_that_serves_them() -> None:
    async with (
        _pair(is_first_there=False) as pair,
        httpx.AsyncClient(base_url=pair.url, trust_env=False) as client,
        asyncio.TaskGroup() as group,
    ):
        asked = group.create_task(client.get("/admin"))
        assert (await client.get("/v1/x")).content.startswith(b"other")
        assert not asked.done()
        taking = group.create_task(take_passed(pair.channel, pair.first.adopt))
        assert (await asked).content.startswith(b"first")
        taking.cancel()


@pytest.mark.parametrize("turns", range(1, 6))
async def test_a_connection_that_is_taken_when_a_stop_begins_is_served(turns: int) -> None:
    async with _pair(is_first_there=False) as pair, asyncio.TaskGroup() as group:
        talking = group.create_task(pair.talk(_SERVED_THERE))
        await until(lambda: bool(select.select([pair.channel], [], [], 0)[0]), what="it is passed on")
        taking = group.create_task(take_passed(pair.channel, pair.first.adopt))
        for _ in range(turns):
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.wait([taking])
        await until(lambda: not pair.first.server_state.connections, what="nothing of it is left")
        taking = group.create_task(take_passed(pair.channel, pair.first.adopt))
        assert b"first/admin" in await talking
        taking.cancel()


async def test_a_stop_answers_a_connection_that_was_just_opened() -> None:
    async with _pair() as pair:
        parts = httpx.URL(pair.url)
        reader, writer = await asyncio.open_connection(parts.host, parts.port)
        await until(lambda: len(pair.other.server_state.connections) == 1, what="it is there")
        pair.other.stop()
        await until(lambda: not pair.other.servers[0].sockets, what="nothing is accepted any more")
        writer.write(_SERVED_HERE)
        found = await reader.read()
        assert found.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in found
        writer.close()
