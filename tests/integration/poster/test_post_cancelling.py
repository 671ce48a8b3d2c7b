"""Cancelling a POST and closing the poster: no socket is left open, whatever was under way."""

from __future__ import annotations

import asyncio

import pytest

from bus.ports.poster import PostFailure
from bus.posters.connection import Connection
from bus.security.egress import EgressPolicy
from tests.integration.poster.peers import OK, until


@pytest.mark.parametrize("phase", ["dns", "connect", "answer", "upload"])
async def test_cancelling_leaves_no_socket_open(hostile, make_poster, open_sockets, phase):
    started = asyncio.Event()
    closed = asyncio.Event()

    async def lookup(host, port):
        started.set()
        if phase == "dns":
            await asyncio.Event().wait()
        return ["127.0.0.1"]

    async def script(reader, writer, number):
        if phase == "upload":
            await reader.readuntil(b"\r\n\r\n")
            await until(closed.is_set)
        while await reader.read(65536):
            pass
        closed.set()

    port = await hostile.start(script)
    poster = make_poster(resolver=lookup)
    size = 30_000_000 if phase == "upload" else 5
    before = open_sockets()
    post = poster.post(poster.target(f"http://a.example:{port}/", {}), [], b"x" * size, 30.0)
    task = asyncio.ensure_future(post)
    await started.wait()
    if phase in ("answer", "upload"):
        await until(lambda: poster.connections == 1 and hostile.accepted == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: poster.connections == 0)
    closed.set()
    await until(lambda: all(task.done() for task in hostile.tasks))
    await until(lambda: open_sockets() <= before)


async def test_cancelling_as_the_connection_is_made_leaves_none_open(hostile, make_poster, open_sockets, monkeypatch):
    async def script(reader, writer, number):
        await reader.read()

    made = Connection.connection_made

    def made_and_canceled(self, transport):
        made(self, transport)
        task.cancel()

    monkeypatch.setattr(Connection, "connection_made", made_and_canceled)
    port = await hostile.start(script)
    before = open_sockets()
    poster = make_poster()
    task = asyncio.ensure_future(poster.post(poster.target(f"http://127.0.0.1:{port}/", {}), [], b"", 30.0))
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: poster.connections == 0 and open_sockets() <= before)


async def test_cancelling_closes_a_kept_connection(hostile, poster, send, request_of):
    again = asyncio.Event()

    async def script(reader, writer, number):
        await request_of(reader)
        writer.write(OK)
        await request_of(reader)
        again.set()
        await reader.read()

    port = await hostile.start(script)
    await send(port)
    task = asyncio.ensure_future(send(port))
    await again.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: poster.connections == poster.idle == 0)


async def test_closing_while_connecting(hostile, make_poster, answer_with):
    class Slow(EgressPolicy):
        def check_address(self, address: str, host: str = "") -> None:  # noqa: ARG002 - a port's signature
            self.close = self.close or asyncio.ensure_future(poster.close())

        close = None

    slow = Slow()
    poster = make_poster(slow)
    port = await hostile.start(answer_with(OK))
    target = poster.target(f"http://127.0.0.1:{port}/", {})
    result = await poster.post(target, [], b"", 5.0)
    await slow.close
    assert (result.status, result.failure) in ((None, PostFailure.CONNECT), (None, PostFailure.RESET))
    await until(lambda: poster.connections == 0)


async def test_closing_ends_what_is_under_way(hostile, make_poster, send, request_of):
    arrived = asyncio.Event()

    async def script(reader, writer, number):
        await request_of(reader)
        arrived.set()
        await reader.read()

    poster = make_poster()
    port = await hostile.start(script)
    task = asyncio.ensure_future(send(port, by=poster))
    await arrived.wait()
    await poster.close()
    result = await task
    assert (result.failure, result.indeterminate) == (PostFailure.RESET, True)
    assert (await send(port, by=poster)).failure is PostFailure.CONNECT


async def test_closing_during_a_dial(hostile, make_poster, answer_with):
    asked, go = asyncio.Event(), asyncio.Event()

    async def lookup(host, port):
        asked.set()
        await go.wait()
        return ["127.0.0.1"]

    poster = make_poster(resolver=lookup)
    target = poster.target(f"http://a.example:{await hostile.start(answer_with(OK))}/", {})
    task = asyncio.ensure_future(poster.post(target, [], b"", 5.0))
    await asked.wait()
    closing = asyncio.ensure_future(poster.close())
    go.set()
    await closing
    assert (await task).failure in (PostFailure.CONNECT, PostFailure.DNS)
