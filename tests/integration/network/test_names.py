"""Names by DNS and the hosts file, as the system's resolver reads them, and none of them delays another."""

from __future__ import annotations

import asyncio
import shlex
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from bus.network.names import DnsLookup
from tests.integration.network.name_server import NameServer
from tests.integration.poster.peers import until

Serve = Callable[..., object]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Start a name server, write a resolv.conf that names it, and return what looks names up by it."""
    async with AsyncExitStack() as stack:

        async def start(server: NameServer, *lines: str) -> DnsLookup:
            path = tmp_path / "resolv.conf"
            port = await stack.enter_async_context(_listening(server))
            path.write_text("\n".join([f"nameserver 127.0.0.1:{port}", *lines, ""]))
            lookup = DnsLookup(str(path))
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


async def test_search_domains_complete_short_names(serve):
    lookup = await serve(NameServer({"shop.svc.example": ["192.0.2.1"]}), "search svc.example", "options ndots:2")
    assert await lookup("shop", 80) == ["192.0.2.1"]


def test_the_hosts_file_goes_first(tmp_path):
    """In a mount namespace, where another file is /etc/hosts."""
    hosts = tmp_path / "hosts"
    hosts.write_text("192.0.2.7 shop.example\n2001:db8::7 shop.example\n")
    look = (
        "import asyncio; from bus.network.names import DnsLookup; print(*asyncio.run(DnsLookup()('shop.example', 80)))"
    )
    run = f"mount --bind {hosts} /etc/hosts && exec {sys.executable} -c {shlex.quote(look)}"
    found = subprocess.run(
        ["unshare", "--mount", "sh", "-c", run], capture_output=True, text=True, timeout=60, check=True
    )
    assert set(found.stdout.split()) == {"192.0.2.7", "2001:db8::7"}


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


async def test_another_resolv_conf_is_followed(serve):
    before, after = NameServer({"a.example": ["192.0.2.1"]}), NameServer({"a.example": ["192.0.2.2"]})
    lookup = await serve(before)
    assert await lookup("a.example", 80) == ["192.0.2.1"]
    await serve(after)  # writes the same file
    assert await lookup("a.example", 80) == ["192.0.2.2"]
