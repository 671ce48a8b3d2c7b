"""Connections that are kept: which is used next, what closes them, and the race with a peer that closes."""

from __future__ import annotations

import asyncio
import time

import pytest

from bus.network.descriptors import Descriptors
from bus.ports.poster import PostFailure
from bus.posters.http import HttpPoster
from bus.posters.pool import PoolLimits
from bus.security.egress import EgressPolicy
from tests.integration.poster.peers import OK, reset, until


async def test_last_used_is_reused_first(hostile, send, poster, request_of):
    gate = asyncio.Event()
    used: list[int] = []

    async def script(reader, writer, number):
        while not writer.is_closing():
            await request_of(reader)
            used.append(number)
            if len(used) >= 3:
                gate.set()
            await gate.wait()
            writer.write(OK)

    port = await hostile.start(script)
    await asyncio.gather(*(send(port) for _ in range(3)))
    assert (poster.opened, poster.idle, poster.connections) == (3, 3, 3)
    for _ in range(4):
        await send(port)
    assert (poster.opened, poster.reused) == (3, 4)
    assert len(set(used[3:])) == 1


@pytest.mark.parametrize("abruptly", [False, True])
async def test_kept_connection_closed_with_the_next_request(hostile, send, poster, request_of, abruptly):
    bodies: list[bytes] = []

    async def script(reader, writer, number):
        for _ in range(2):
            _, body = await request_of(reader)
            bodies.append(body)
            if body == b"race" and number == 1:
                if abruptly:
                    reset(writer)
                return
            writer.write(OK)

    port = await hostile.start(script)
    assert (await send(port, b"first")).status == 200
    result = await send(port, b"race")
    assert (result.status, result.indeterminate) == (200, False)
    assert bodies == [b"first", b"race", b"race"]
    assert (poster.opened, poster.reused) == (2, 1)
    assert result.phases.connect is not None


async def test_only_one_more_try(hostile, send, request_of):
    async def script(reader, writer, number):
        await request_of(reader)
        if number == 1:
            writer.write(OK)
            await request_of(reader)

    port = await hostile.start(script)
    await send(port)
    result = await send(port)
    assert (result.failure, result.indeterminate, hostile.accepted) == (PostFailure.RESET, True, 2)


async def test_no_other_try_after_an_answer_byte(hostile, send, request_of):
    async def script(reader, writer, number):
        await request_of(reader)
        writer.write(OK)
        await request_of(reader)
        writer.write(b"H")

    port = await hostile.start(script)
    await send(port)
    result = await send(port)
    assert (result.failure, result.indeterminate, hostile.accepted) == (PostFailure.RESET, True, 1)


async def test_lost_race_stays_indeterminate(hostile, send, request_of):
    """The first request may have been processed, though the second connection is refused."""

    async def script(reader, writer, number):
        await request_of(reader)
        writer.write(OK)
        await request_of(reader)
        hostile.servers[0].close()
        await asyncio.sleep(0)

    port = await hostile.start(script)
    await send(port)
    result = await send(port)
    assert (result.failure, result.indeterminate) == (PostFailure.REFUSED, True)


async def test_closed_idle_connection_is_forgotten(hostile, send, poster, request_of):
    async def script(reader, writer, number):
        await request_of(reader)
        writer.write(OK)

    port = await hostile.start(script)
    for opened in (1, 2):
        assert (await send(port)).status == 200
        await until(lambda: poster.idle == poster.connections == 0)
        assert poster.opened == opened


async def test_unsolicited_data_closes_an_idle_connection(hostile, send, poster, request_of):
    speak = asyncio.Event()

    async def script(reader, writer, number):
        await request_of(reader)
        writer.write(OK)
        await speak.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await reader.read()

    port = await hostile.start(script)
    await send(port)
    assert poster.idle == 1
    speak.set()
    await until(lambda: poster.idle == poster.connections == 0)


async def test_idle_limits(hostile, send, make_poster, answer_with):
    poster = make_poster(pool_limits=PoolLimits(idle_seconds=0.05, per_host=2, total=3))
    ports = [await hostile.start(answer_with(OK)) for _ in range(2)]
    await asyncio.gather(*(send(port, by=poster) for port in ports for _ in range(4)))
    assert poster.idle == 3
    await until(lambda: poster.connections == 0)
    assert poster.idle == 0


async def test_old_connections_are_not_kept(hostile, send, make_poster, answer_with):
    poster = make_poster(pool_limits=PoolLimits(max_age=0.0))
    port = await hostile.start(answer_with(OK))
    for opened in (1, 2):
        assert (await send(port, by=poster)).status == 200
        assert (poster.opened, poster.idle) == (opened, 0)


async def test_one_connection_too_many_waits_and_closes_the_idle_and_what_hangs(
    hostile, send, request_of, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("bus.posters.http._HANGS", 0.5)
    answering = asyncio.Event()

    async def script(reader, writer, number):
        while True:
            await request_of(reader)
            await answering.wait()
            writer.write(OK)

    descriptors = Descriptors(128 + 2 * 16, time.monotonic)
    poster = HttpPoster(EgressPolicy(allow_loopback=True), descriptors=descriptors)
    port, other = await hostile.start(script), await hostile.start(script)
    answering.set()
    await asyncio.gather(*(send(port, by=poster) for _ in range(3)))
    answering.clear()
    hanging = [asyncio.create_task(send(other, by=poster, timeout=30.0)) for _ in range(20)]
    await until(lambda: poster.opened == 3 + 20)
    assert poster.connections == 16
    assert poster.idle == 0
    given_up = [task.result() for task in hanging if task.done()]
    assert {(found.status, found.failure) for found in given_up} == {(None, PostFailure.TIMEOUT)}
    assert len(given_up) == 4
    assert "160" in str(descriptors.trouble)
    answering.set()
    assert {found.status for found in await asyncio.gather(*(one for one in hanging if not one.done()))} == {200}
    await poster.close()


async def test_a_burst_waits_for_connections(hostile, send, request_of):
    async def script(reader, writer, number):
        while True:
            await request_of(reader)
            await asyncio.sleep(0.05)
            writer.write(OK)

    poster = HttpPoster(EgressPolicy(allow_loopback=True), descriptors=Descriptors(128 + 2 * 16, time.monotonic))
    ports = [await hostile.start(script) for _ in range(3)]
    found = await asyncio.gather(*(send(ports[number % 3], by=poster, timeout=30.0) for number in range(60)))
    assert {one.status for one in found} == {200}
    assert poster.connections <= 16
    found = await asyncio.gather(*(send(ports[number % 3], by=poster, timeout=0.01) for number in range(60)))
    assert {one.status for one in found} == {None}
    await poster.close()
