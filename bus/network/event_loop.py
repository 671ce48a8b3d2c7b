"""uvloop whose clients find hosts without its few threads, and connect to the first address that answers."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any, Final

import uvloop

from bus.network.happy_eyeballs import DELAY, LateAddresses, connect_first
from bus.network.names import DnsLookup, Lookup
from bus.network.resolver import Resolver

_FAMILIES: Final = {4: socket.AF_INET, 6: socket.AF_INET6}


class EventLoop(uvloop.Loop):
    """Resolves names for libraries as subscribers' are: the four threads of uvloop hold up all after four silent names.

    Parameters
    ----------
    lookup
        Returns the addresses of a host; None asks /etc/hosts and DNS.
    """

    def __init__(self, lookup: Lookup | None = None) -> None:
        super().__init__()
        self._dns = DnsLookup()
        self._names = Resolver(lookup or self._dns)
        self._late = LateAddresses(self.time)

    async def getaddrinfo(self, host: Any, port: Any, **hints: Any) -> Any:
        """Return what ``socket.getaddrinfo`` does; only addresses and what is no TCP port are left to uvloop."""
        name = host.decode("ascii") if isinstance(host, bytes) else host
        if not _is_name(name) or not isinstance(port, int) or hints.get("flags"):
            return await super().getaddrinfo(host, port, **hints)
        family, kind = hints.get("family", 0), hints.get("type", 0) or socket.SOCK_STREAM
        found = [_information(one, port, kind) for one in await self._names.resolve(name, port)]
        fitting = [one for one in found if family in (0, one[0])]
        if not fitting:
            raise socket.gaierror(socket.EAI_NONAME, f"{name} has no address of this family")
        return fitting

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        """Connect as the event loop does; to a host with a name over the first of its addresses that answers."""
        if not _is_name(host) or options.get("local_addr") is not None:
            return await super().create_connection(protocol_factory, host, port, **options)
        hints = {name: options.pop(name, 0) for name in ("family", "proto", "flags")}
        found = {one[4][0]: one for one in await self.getaddrinfo(host, port, type=socket.SOCK_STREAM, **hints)}
        reached = await connect_first(
            self._late.order(list(found), port), lambda address: self._connected(found[address]), DELAY
        )
        self._late.note(reached.address, port, reached.late)
        if options.get("ssl"):
            options.setdefault("server_hostname", host)
        try:
            return await super().create_connection(protocol_factory, sock=reached.sock, **options)
        except BaseException:
            reached.sock.close()
            raise

    def close(self) -> None:
        """Close it, and what asks name servers."""
        self._dns.close()
        super().close()

    async def _connected(self, information: Any) -> socket.socket:
        sock = socket.socket(*information[:3])
        try:
            sock.setblocking(False)
            await self.sock_connect(sock, information[4])
        except BaseException:
            sock.close()
            raise
        return sock


def run(main: Any) -> None:
    """Run a coroutine on such a loop to its end."""
    uvloop.run(main, loop_factory=EventLoop)


def _is_name(host: Any) -> bool:
    if not isinstance(host, str) or not host:
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def _information(address: str, port: int, kind: int) -> tuple[Any, ...]:
    family = _FAMILIES[ipaddress.ip_address(address).version]
    where = (address, port) if family == socket.AF_INET else (address, port, 0, 0)
    return family, kind, socket.IPPROTO_TCP if kind == socket.SOCK_STREAM else 0, "", where
