"""Names by DNS and the hosts file, as the system's resolver reads them, and none of them delays another."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from bus.network.names import DnsLookup
from tests.integration.network.name_server import NameServer
from tests.integration.poster.peers import until

Serve = Callable[..., object]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a name server, and return what looks names up by it."""
    async with AsyncExitStack() as stack:

        async def start(server: NameServer) -> DnsLookup:
            port = await stack.enter_async_context(_listening(server))
            lookup = DnsLookup([f"127.0.0.1:{port}"])
            stack.callback(lookup.close)
            return lookup

        yield start


@asynccontextmanager
async def _listening(server: NameServer) -> AsyncIterator[int]:
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: server, local_addr=("127.0.0.1", 0)
    )
    try:
        yield transport.get_extra_info("sockname")[1]
    finally:
        transport.close()


async def test_both_families_are_found(serve):
    lookup = await serve(NameServer({"dual.example": ["192.0.2.1", "2001:db8::1"], "six.example": ["2001:db8::2"]}))
    assert set(await lookup("dual.example", 80)) == {"192.0.2.1", "2001:db8::1"}
    assert await lookup("six.example", 80) == ["2001:db8::2"]


async def test_loopback_has_a_name_without_any_server(serve):
    lookup = await serve(NameServer({}, silent=["localhost"]))
    assert "127.0.0.1" in await lookup("localhost", 80)


@pytest.mark.parametrize("name", ["nothing.example", "mail.example", "a" * 64 + ".example", "."])
async def test_a_name_without_an_address_is_none(serve, name):
    lookup = await serve(NameServer({"mail.example": []}))
    with pytest.raises(socket.gaierror, match="not found") as failure:
        await lookup(name, 80)
    assert failure.value.errno == socket.EAI_NONAME


async def test_names_whose_server_is_silent_delay_no_other(serve):
    """300 of them: threads of the system's resolver would run out."""
    server = NameServer({"good.example": ["192.0.2.1"]}, silent=["dead.example"])
    lookup = await serve(server)
    asking = [asyncio.ensure_future(lookup(f"h{number}.dead.example", 80)) for number in range(300)]
    await until(lambda: len(set(server.asked)) == 300)
    assert await lookup("good.example", 80) == ["192.0.2.1"]
    assert not any(task.done() for task in asking)
    lookup.close()
    failures = await asyncio.gather(*asking, return_exceptions=True)
    assert {failure.errno for failure in failures} == {socket.EAI_AGAIN}


def test_hosts_and_resolv_conf_of_the_system_are_heeded(tmp_path):
    """In a network and mount namespace with other files; see ``system_files.py`` for what is asked."""
    program = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.integration.network.system_files", tmp_path]
    found = json.loads(subprocess.check_output(program, text=True, timeout=60))
    assert found == {
        "hosts": ["192.0.2.7", "2001:db8::7"],
        "search": ["192.0.2.1"],
        "changed hosts": ["192.0.2.8"],
        "changed resolv.conf": ["192.0.2.2"],
    }
