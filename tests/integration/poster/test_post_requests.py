"""Requests on the wire, big ones among them, and peers that answer or close before they have read one."""

from __future__ import annotations

import asyncio
import os

import pytest

from bus.ports.poster import PostFailure
from tests.integration.poster.peers import OK, reset, until


async def test_request_on_the_wire(hostile, poster, request_of):
    seen: list[str] = []

    async def script(reader, writer, number):
        head, _ = await request_of(reader)
        seen.append(head)
        writer.write(OK)

    port = await hostile.start(script)
    target = poster.target(f"http://127.0.0.1:{port}/a%20b/é?q=ü", {"X-Key": "k"})
    await poster.post(target, [("bus-biz-id", "订单")], b"12345", 5.0)
    expected = (
        "POST /a%20b/%C3%A9?q=%C3%BC HTTP/1.1\r\n"
        f"host: 127.0.0.1:{port}\r\naccept-encoding: identity\r\nuser-agent: pier-bus\r\n"
        "X-Key: k\r\nbus-biz-id: UTF-8''%E8%AE%A2%E5%8D%95\r\ncontent-length: 5\r\n\r\n"
    )
    assert seen == [expected]


async def test_foreign_targets(poster):
    class Foreign:
        url = "http://a.example/"

    with pytest.raises(TypeError):
        await poster.post(Foreign(), [], b"", 1.0)


async def test_peer_that_speaks_first(hostile, send, poster):
    async def script(reader, writer, number):
        writer.write(b"220 smtp.example ESMTP\r\n")
        await reader.read()

    result = await send(await hostile.start(script))
    assert result.failure is PostFailure.PROTOCOL
    assert poster.idle == 0


async def test_early_answer_to_a_big_upload(hostile, send, poster):
    async def script(reader, writer, number):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")
        await writer.drain()
        await until(lambda: poster.connections == 0)

    result = await send(await hostile.start(script), b"x" * 30_000_000)
    assert (result.status, result.response, result.indeterminate) == (413, b"big", False)
    assert poster.idle == 0


async def test_peer_that_closes_during_an_upload(hostile, send):
    async def script(reader, writer, number):
        await reader.readuntil(b"\r\n\r\n")
        reset(writer)

    result = await send(await hostile.start(script), b"x" * 30_000_000)
    assert (result.failure, result.indeterminate) == (PostFailure.RESET, False)


async def test_slow_reader_gets_a_big_body(hostile, send):
    received = bytearray()

    async def script(reader, writer, number):
        await reader.readuntil(b"\r\n\r\n")
        while len(received) < 5_000_000:
            received.extend(await reader.read(50_000))
            await asyncio.sleep(0)
        writer.write(OK)

    body = os.urandom(5_000_000)
    result = await send(await hostile.start(script), body)
    assert result.status == 200
    assert received == body
    assert result.phases.send > 0.0
