"""https: who is trusted, by which name, and what a failed handshake comes to."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from datetime import UTC, datetime
from functools import partial

import pytest

from bus.ports.poster import PostFailure
from bus.posters.connection import Limits
from bus.posters.tls import client_context
from tests.integration.poster.peers import OK


async def to_loopback(host, port):
    return ["127.0.0.1"]


@pytest.fixture
def server_context(authority):
    def make(*names: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(context)
        return context

    return make


@pytest.fixture
def trusting(make_poster, authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return partial(make_poster, ssl_context=context, resolver=to_loopback)


async def post(poster, port, host="hook.example", body=b"hello", timeout=5.0):  # noqa: ASYNC109
    return await poster.post(poster.target(f"https://{host}:{port}/", {}), [], body, timeout)


async def test_good_certificate(hostile, trusting, server_context, answer_with):
    names: list[str] = []
    context = server_context("hook.example")
    context.sni_callback = lambda _, name, __: names.append(name)
    port = await hostile.start(answer_with(OK), context=context)
    poster = trusting()
    for kept in (False, True):
        result = await post(poster, port)
        assert (result.status, result.response) == (200, b"ok")
        assert (result.phases.tls is None) is kept
    assert names == ["hook.example"]
    assert (poster.opened, poster.reused) == (1, 1)


async def test_address_in_the_certificate(hostile, trusting, server_context, answer_with):
    port = await hostile.start(answer_with(OK), context=server_context("127.0.0.1"))
    assert (await post(trusting(), port, "127.0.0.1")).status == 200


@pytest.mark.parametrize("name", ["other.example", "127.0.0.1"])
async def test_wrong_host(hostile, trusting, server_context, answer_with, name):
    port = await hostile.start(answer_with(OK), context=server_context(name))
    poster = trusting()
    result = await post(poster, port)
    assert (result.failure, result.indeterminate) == (PostFailure.TLS, False)
    assert result.error == "TLS: certificate not valid for hook.example"
    assert poster.opened == poster.connections == 0


async def test_unknown_authority(hostile, make_poster, server_context, answer_with):
    port = await hostile.start(answer_with(OK), context=server_context("hook.example"))
    result = await post(make_poster(ssl_context=None, resolver=to_loopback), port)
    assert (result.failure, result.indeterminate) == (PostFailure.TLS, False)
    assert result.error == "TLS: certificate of an unknown authority"


async def test_expired_certificate(hostile, make_poster, authority, answer_with, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    begin, end = datetime(2019, 1, 1, tzinfo=UTC), datetime(2020, 2, 3, tzinfo=UTC)
    authority.issue_cert("hook.example", not_before=begin, not_after=end).configure_cert(context)
    port = await hostile.start(answer_with(OK), context=context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trusting = client_context(authorities=tmp_path / "ca.pem")
    result = await post(make_poster(ssl_context=trusting, resolver=to_loopback), port)
    assert (result.failure, result.error) == (PostFailure.TLS, "TLS: certificate expired on 2020-02-03")


async def test_client_certificate(hostile, make_poster, authority, server_context, answer_with, tmp_path):
    demanding = server_context("hook.example")
    demanding.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(demanding)
    port = await hostile.start(answer_with(OK), context=demanding)
    own = authority.issue_cert("bus@pier.example")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    own.private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")
    context = client_context(authorities=tmp_path / "ca.pem", certificate=tmp_path / "own.pem")
    assert (await post(make_poster(ssl_context=context, resolver=to_loopback), port)).status == 200
    without = client_context(authorities=tmp_path / "ca.pem")
    result = await post(make_poster(ssl_context=without, resolver=to_loopback), port)
    assert result.failure in (PostFailure.TLS, PostFailure.RESET)


async def test_big_bodies_and_close_delimited_answers(hostile, trusting, server_context, request_of):
    bodies: list[bytes] = []

    async def script(reader, writer, number):
        _, body = await request_of(reader)
        bodies.append(body)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")

    port = await hostile.start(script, context=server_context("hook.example"))
    body = os.urandom(3_000_000)
    result = await post(trusting(), port, body=body)
    assert (result.status, result.response, bodies) == (200, b"until the end", [body])


async def test_peer_without_tls(hostile, trusting, answer_with):
    port = await hostile.start(answer_with(OK))
    result = await post(trusting(), port, timeout=2.0)
    assert result.failure in (PostFailure.TLS, PostFailure.TIMEOUT)
    assert not result.indeterminate


async def test_peer_that_talks_nonsense(hostile, trusting):
    async def script(reader, writer, number):
        writer.write(b"HTTP/1.1 400 No\r\n\r\n")

    result = await post(trusting(), await hostile.start(script))
    assert (result.failure, result.indeterminate) == (PostFailure.TLS, False)


async def test_peer_that_closes_in_the_handshake(hostile, trusting):
    async def script(reader, writer, number):
        await reader.read(10)

    result = await post(trusting(), await hostile.start(script))
    assert (result.failure, result.indeterminate) == (PostFailure.TLS, False)
    assert "closed the connection during the handshake" in result.error


@pytest.mark.parametrize("limits", [Limits(), Limits(tls=0.1)])
async def test_handshake_times_out(trusting, open_sockets, limits):
    before = open_sockets()
    poster = trusting(limits=limits)
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = await post(poster, server.getsockname()[1], timeout=30.0 if limits.tls else 0.1)
    assert (result.failure, result.indeterminate) == (PostFailure.TIMEOUT, False)
    assert "timed out after 0.1 s in the TLS handshake with hook.example:" in result.error
    await no_more_sockets_than(before, open_sockets)


async def test_cancelling_in_the_handshake(hostile, trusting, open_sockets):
    before = open_sockets()
    greeted = asyncio.Event()

    async def script(reader, writer, number):
        await reader.read(1)
        greeted.set()
        await reader.read()

    poster = trusting()
    port = await hostile.start(script)
    task = asyncio.ensure_future(post(poster, port, timeout=30.0))
    await greeted.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    hostile.servers[0].close()
    await no_more_sockets_than(before, open_sockets)


async def no_more_sockets_than(count: int, open_sockets) -> None:
    async with asyncio.timeout(60):
        while open_sockets() > count:  # noqa: ASYNC110 - closing a socket has no event
            await asyncio.sleep(0.001)
