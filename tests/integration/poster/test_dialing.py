"""From a name to a connection: DNS, the next address, and that no unchecked address is reached."""

from __future__ import annotations

import asyncio
import socket

import pytest

from bus.ports.poster import PostFailure
from bus.posters.connection import Failure
from bus.posters.dial import Dial, DialFailed
from bus.security.egress import EgressPolicy
from tests.integration.poster.peers import OK, silent, until


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError("no answer within 30 s"), "DNS: no answer within 30 s"),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), "DNS: a.example not found"),
        (socket.gaierror(socket.EAI_AGAIN, "not now"), "DNS: no name server answered for a.example"),
        (UnicodeError("label empty or too long"), "DNS: a.example is not a valid host name"),
    ],
)
async def test_dns_errors(make_poster, error, text):
    async def lookup(host, port):
        raise error

    poster = make_poster(resolver=lookup)
    result = await poster.post(poster.target("http://a.example/", {}), [], b"", 5.0)
    assert (result.failure, result.indeterminate) == (PostFailure.DNS, False)
    assert result.error == text


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


async def test_an_address_that_is_silent_holds_up_no_connection(
    hostile, make_poster, answer_with, monkeypatch, open_sockets
):
    """The queue of 127.0.0.2 is full, so that it answers no SYN."""
    tried: list[str] = []

    async def lookup(host, port):
        return ["127.0.0.2", "127.0.0.1"]

    async def opened(self, address, plain=Dial._open):
        tried.append(address)
        return await plain(self, address)

    monkeypatch.setattr(Dial, "_open", opened)
    monkeypatch.setattr("bus.posters.dial.DELAY", 0.0)
    poster = make_poster(resolver=lookup)
    port = await hostile.start(answer_with(OK, then_close=True))
    with silent("127.0.0.2", port):
        before = open_sockets()
        target = poster.target(f"http://a.example:{port}/", {})
        assert (await poster.post(target, [], b"", 600.0)).status == 200
        monkeypatch.setattr("bus.posters.dial.DELAY", 600.0)
        for _ in range(3):
            assert (await poster.post(target, [], b"", 600.0)).status == 200
        await until(lambda: open_sockets() <= before)
    assert tried == ["127.0.0.2", *["127.0.0.1"] * 4]


async def test_an_address_whose_handshake_fails_goes_last_from_then_on(hostile, make_poster, answer_with, monkeypatch):
    tried: list[str] = []

    async def lookup(host, port):
        return ["127.0.0.2", "127.0.0.1"]

    async def secured(self, sock, plain=Dial._secured):
        tried.append(address := sock.getpeername()[0])
        if address == "127.0.0.2":
            sock.close()
            raise DialFailed(Failure(PostFailure.TLS, "another name"))
        return await plain(self, sock)

    monkeypatch.setattr(Dial, "_secured", secured)
    poster = make_poster(resolver=lookup)
    port = await hostile.start(answer_with(OK, then_close=True), host="0.0.0.0")
    target = poster.target(f"http://a.example:{port}/", {})
    assert [(await poster.post(target, [], b"", 60.0)).status for _ in range(2)] == [200, 200]
    assert tried == ["127.0.0.2", "127.0.0.1", "127.0.0.1"]


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
