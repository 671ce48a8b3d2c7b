"""Connections: kept, lost, refused, slow, cancelled; and which address they lead to."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
import time

import pytest

from bus.ports.poster import PostFailure
from bus.posters.connection import Connection, Limits
from bus.posters.pool import PoolLimits
from bus.security.egress import EgressPolicy

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def until(condition) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.001)


def reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


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


async def test_peer_that_speaks_first(hostile, send, poster):
    async def script(reader, writer, number):
        writer.write(b"220 smtp.example ESMTP\r\n")
        await reader.read()

    result = await send(await hostile.start(script))
    assert result.failure is PostFailure.PROTOCOL
    assert poster.idle == 0


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


async def test_reader_that_stops(send):
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = await send(server.getsockname()[1], b"x" * 30_000_000, timeout=0.5)
    assert (result.failure, result.indeterminate) == (PostFailure.TIMEOUT, False)
    assert "sending" in result.error
    assert result.phases.first_byte is None


async def test_silence(send):
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = await send(server.getsockname()[1], timeout=0.5)
    assert (result.failure, result.indeterminate) == (PostFailure.TIMEOUT, True)
    assert "first byte" in result.error


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
        await asyncio.sleep(0.15)
        writer.write(OK)

    port = await hostile.start(script)
    await send(port, timeout=0.1)
    assert (await send(port, timeout=5.0)).status == 200


async def test_connect_phase_times_out(send):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        fill = [socket.socket() for _ in range(4)]
        for sock in fill:
            sock.setblocking(False)
            sock.connect_ex(server.getsockname())
        result = await send(server.getsockname()[1], timeout=0.5)
        for sock in fill:
            sock.close()
    assert (result.failure, result.indeterminate) == (PostFailure.TIMEOUT, False)
    assert "connect" in result.error
    assert result.phases.connect >= 50.0


async def test_dns_phase_times_out(make_poster):
    async def lookup(host, port):
        await asyncio.Event().wait()

    poster = make_poster(resolver=lookup)
    result = await poster.post(poster.target("http://slow.example/", {}), [], b"", 0.05)
    assert (result.failure, result.indeterminate) == (PostFailure.TIMEOUT, False)
    assert "dns" in result.error
    limited = make_poster(resolver=lookup, limits=Limits(dns=0.05))
    assert "dns" in (await limited.post(limited.target("http://slow.example/", {}), [], b"", 30.0)).error


@pytest.mark.parametrize("error", [OSError("no such host"), socket.gaierror(-2, "unknown"), UnicodeError("label")])
async def test_dns_errors(make_poster, error):
    async def lookup(host, port):
        raise error

    poster = make_poster(resolver=lookup)
    result = await poster.post(poster.target("http://a.example/", {}), [], b"", 5.0)
    assert (result.failure, result.indeterminate) == (PostFailure.DNS, False)


async def test_names_without_addresses(make_poster):
    async def lookup(host, port):
        return []

    poster = make_poster(resolver=lookup)
    assert (await poster.post(poster.target("http://a.example/", {}), [], b"", 5.0)).failure is PostFailure.DNS


async def test_system_resolver(hostile, make_poster, answer_with):
    poster = make_poster()
    port = await hostile.start(answer_with(OK))
    assert (await poster.post(poster.target(f"http://localhost:{port}/", {}), [], b"", 5.0)).status == 200


async def test_answers_of_dns_are_shared_and_kept(hostile, make_poster, answer_with):
    asked: list[str] = []

    async def lookup(host, port):
        asked.append(host)
        await asyncio.sleep(0)
        if len(asked) == 1:
            raise OSError("first time unlucky")
        return ["127.0.0.1"]

    poster = make_poster(resolver=lookup)
    target = poster.target(f"http://a.example:{await hostile.start(answer_with(OK))}/", {})
    failed = await asyncio.gather(*(poster.post(target, [], b"", 5.0) for _ in range(3)))
    assert {result.failure for result in failed} == {PostFailure.DNS}
    assert len(asked) == 1
    assert {r.status for r in await asyncio.gather(*(poster.post(target, [], b"", 5.0) for _ in range(3)))} == {200}
    assert len(asked) == 2


async def test_next_address_is_tried(hostile, make_poster, answer_with):
    async def lookup(host, port):
        return ["127.0.0.2", "127.0.0.1"]

    poster = make_poster(resolver=lookup)
    port = await hostile.start(answer_with(OK))
    assert (await poster.post(poster.target(f"http://a.example:{port}/", {}), [], b"", 5.0)).status == 200


async def test_rebinding_never_leads_to_an_unchecked_address(hostile, make_poster, answer_with):
    """127.0.0.1 stands for a public address, 127.0.0.2 for a private one on the same port."""
    answers = [["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1", "127.0.0.2"]]
    connected: list[str] = []

    async def lookup(host, port):
        return answers.pop(0)

    async def script(reader, writer, number):
        connected.append(writer.get_extra_info("sockname")[0])
        await answer_with(OK, then_close=True)(reader, writer, number)

    port = await hostile.start(script, host="0.0.0.0")
    poster = make_poster(EgressPolicy(allow=["127.0.0.1"]), resolver=lookup, dns_ttl=0.0)
    target = poster.target(f"http://rebind.example:{port}/", {})
    first = await poster.post(target, [], b"", 5.0)
    assert first.status == 200
    await until(lambda: poster.connections == 0)
    for _ in range(2):
        denied = await poster.post(target, [], b"", 5.0)
        assert (denied.failure, denied.indeterminate) == (PostFailure.DENIED, False)
        assert "loopback" in denied.error
    assert connected == ["127.0.0.1"]


async def test_connected_address_is_checked_again(hostile, make_poster, answer_with):
    class Forgetful(EgressPolicy):
        checks = 0

        def check_address(self, address: str, host: str = "") -> None:
            self.checks += 1
            if self.checks > 2:
                super().check_address(address, host)

    poster = make_poster(Forgetful())
    target = poster.target(f"http://127.0.0.1:{await hostile.start(answer_with(OK))}/", {})
    assert (await poster.post(target, [], b"", 5.0)).failure is PostFailure.DENIED
    assert poster.connections == 0


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
        f"host: 127.0.0.1:{port}\r\naccept-encoding: identity\r\nuser-agent: pier-bus\r\naccept: */*\r\n"
        "X-Key: k\r\nbus-biz-id: 订单\r\ncontent-length: 5\r\n\r\n"
    )
    assert seen == [expected]


async def test_foreign_targets(poster):
    class Foreign:
        url = "http://a.example/"

    with pytest.raises(TypeError):
        await poster.post(Foreign(), [], b"", 1.0)


async def test_no_thread_is_left_waiting(make_poster):
    poster = make_poster()
    await poster.post(poster.target("http://nothing.invalid/", {}), [], b"", 5.0)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("dns-"))
