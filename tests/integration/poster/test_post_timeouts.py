"""Deadlines: in which phase a POST ran out of time, and whether the peer may have got it."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from bus.ports.poster import PostFailure
from bus.posters.connection import Limits
from tests.harness.waiting import until
from tests.integration.poster.peers import OK, silent


async def test_reader_that_stops(send):
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = await send(server.getsockname()[1], b"x" * 30_000_000, timeout=0.5)
    assert (result.failure, result.indeterminate) == (PostFailure.TIMEOUT, False)
    assert result.error == "timed out after 0.5 s sending the request"
    assert result.phases.first_byte is None


async def test_silence(send):
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = await send(server.getsockname()[1], timeout=0.5)
    assert (result.failure, result.indeterminate) == (PostFailure.TIMEOUT, True)
    assert result.error == "timed out after 0.5 s waiting for the response"
    # The time is told of the phase in which it went by.
    assert result.phases.first_byte is not None
    assert result.phases.connect is not None
    assert result.phases.first_byte > 10 * result.phases.connect
    assert result.phases.receive is None


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_no_time_at_all(hostile, send, answer_with, seconds):
    port = await hostile.start(answer_with(OK))
    result = await send(port, timeout=seconds)
    assert (result.failure, result.indeterminate) == (PostFailure.TIMEOUT, False)


async def test_deadline_holds_on_a_kept_connection_with_a_later_timer(hostile, send, request_of):
    async def script(reader, writer, number):
        await request_of(reader)
        writer.write(OK)
        await reader.read()

    port = await hostile.start(script)
    await send(port, timeout=30.0)
    begun = time.monotonic()
    assert (await send(port, timeout=0.1)).failure is PostFailure.TIMEOUT
    assert 0.05 < time.monotonic() - begun < 15


async def test_earlier_timer_does_not_end_a_later_deadline(hostile, send, request_of):
    async def script(reader, writer, number):
        await request_of(reader)
        writer.write(OK)
        await request_of(reader)
        await until(lambda: time.monotonic() > over, what="the first deadline is over")
        writer.write(OK)

    port = await hostile.start(script)
    assert (await send(port, timeout=0.5)).status == 200
    over = time.monotonic() + 0.5
    assert (await send(port, timeout=5.0)).status == 200


async def test_connect_phase_times_out(send):
    with silent("127.0.0.1") as port:
        result = await send(port, timeout=0.5)
        assert result.error == f"timed out after 0.5 s connecting to 127.0.0.1:{port}"
    assert (result.failure, result.indeterminate) == (PostFailure.TIMEOUT, False)
    assert result.phases.connect >= 50.0


async def test_dns_phase_times_out(make_poster):
    async def lookup(host, port):
        await asyncio.Event().wait()

    poster = make_poster(resolver=lookup)
    result = await poster.post(poster.target("http://slow.example/", {}), [], b"", 0.1)
    assert (result.failure, result.indeterminate) == (PostFailure.TIMEOUT, False)
    assert result.error == "timed out after 0.1 s resolving slow.example:80"
    limited = make_poster(resolver=lookup, limits=Limits(dns=0.1))
    assert "resolving slow" in (await limited.post(limited.target("http://slow.example/", {}), [], b"", 30.0)).error
