"""Event loop of a process: no name delays another, and the first address that answers is used."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

import httpx
import pytest
import trustme

from bus.network.event_loop import EventLoop
from tests.integration.poster.peers import OK, silent

ADDRESSES = {"good.example": ["127.0.0.1"], "dual.example": ["127.0.0.2", "127.0.0.1"], "six.example": ["::1"]}
SILENT = 20  # far more than the threads of uvloop


async def lookup(host: str, port: int) -> Sequence[str]:
    if host not in ADDRESSES:
        await asyncio.Event().wait()
    return ADDRESSES[host]


def run(main: Coroutine[Any, Any, object]) -> None:
    with asyncio.Runner(loop_factory=partial(EventLoop, lookup)) as runner:
        runner.run(main)


async def serve(**options: Any) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0, **options)


def port_of(server: asyncio.Server) -> int:
    return server.sockets[0].getsockname()[1]


async def got(port: int, host: str, **options: Any) -> bytes:
    reader, writer = await asyncio.open_connection(host, port, **options)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


def test_silent_names_delay_no_client_of_others() -> None:
    async def main() -> None:
        async with await serve() as server, httpx.AsyncClient(trust_env=False) as client:
            port = port_of(server)
            waiting = [asyncio.ensure_future(got(port, f"h{number}.dead.example")) for number in range(SILENT)]
            waiting += [asyncio.ensure_future(client.get(f"http://g{n}.dead.example/")) for n in range(SILENT)]
            await asyncio.sleep(0)
            assert await got(port, "good.example") == OK
            assert (await client.get(f"http://good.example:{port}/")).status_code == 200
            assert not any(task.done() for task in waiting)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    run(main())


def test_an_address_that_is_silent_delays_no_connection() -> None:
    async def main() -> None:
        async with await serve() as server:
            with silent("127.0.0.2", port_of(server)):
                async with asyncio.timeout(60):  # the system gives up later
                    assert await got(port_of(server), "dual.example") == OK

    run(main())


def test_certificates_are_those_of_the_name() -> None:
    authority = trustme.CA()
    context, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("good.example").configure_cert(context)
    authority.configure_trust(trusting)

    async def main() -> None:
        async with await serve(ssl=context) as server:
            assert await got(port_of(server), "good.example", ssl=trusting) == OK
            with pytest.raises(ssl.SSLCertVerificationError):
                await got(port_of(server), "dual.example", ssl=trusting)

    run(main())


def test_questions_are_answered_as_the_system_does() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert await loop.getaddrinfo("six.example", 80) == [
            (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("::1", 80, 0, 0))
        ]
        assert [entry[4] for entry in await loop.getaddrinfo(b"good.example", 80)] == [("127.0.0.1", 80)]
        assert [entry[4] for entry in await loop.getaddrinfo("127.0.0.1", "80", type=socket.SOCK_STREAM)] == [
            ("127.0.0.1", 80)
        ]
        with pytest.raises(socket.gaierror, match="no address of this family"):
            await loop.getaddrinfo("six.example", 80, family=socket.AF_INET)

    run(main())


def test_a_connection_that_is_refused_is_an_error_of_the_system() -> None:
    async def main() -> None:
        with pytest.raises(ConnectionRefusedError):
            await got(port, "dual.example")

    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    run(main())


def test_by_itself_it_asks_the_hosts_file_and_dns() -> None:
    async def main() -> None:
        found = await asyncio.get_running_loop().getaddrinfo("localhost", 80)
        assert "127.0.0.1" in {entry[4][0] for entry in found}

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(main())
