"""From a name to a connection: resolve, check every address, connect to a checked one, TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from bus.error_texts import Phase, error_text, peer_name, timed_out
from bus.errors import EgressDenied
from bus.localized_text import AnyText, localized
from bus.network.happy_eyeballs import DELAY, ConnectedSocket, LateAddresses, connect_first
from bus.network.resolver import Resolver
from bus.ports.poster import PostFailure
from bus.posters.connection import Clock, Connection, Failure, Limits
from bus.posters.target import Endpoint

_NO_LIMIT: Final = 86400.0  # of the event loop's own; the deadline ends a handshake
_GOODBYE: Final = 1.0  # seconds for the peer to answer our close_notify


class Egress(Protocol):
    """Who may be called; `bus.security.egress.EgressPolicy` is one."""

    def check_url(self, url: str) -> Endpoint:
        """Take a URL apart, or raise EgressDenied."""
        ...

    def check_address(self, address: str, host: str = "") -> None:
        """Return if the address, found under the name ``host``, may be called; raise EgressDenied if not."""
        ...


class Dialer(NamedTuple):
    """What every dial needs; ``context`` is asked for once somebody is called over https."""

    egress: Egress
    resolver: Resolver
    late: LateAddresses
    context: Callable[[], ssl.SSLContext]
    limits: Limits
    clock: Clock


class DialFailed(Exception):
    """No connection; carries the failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error)
        self.failure = failure


class Dial:
    """One attempt to get a connection to an endpoint.

    Attributes
    ----------
    endpoint
        Where to.
    dns, connect, tls
        Milliseconds spent; None for a phase that did not happen.
    """

    def __init__(self, dialer: Dialer, endpoint: Endpoint, factory: Callable[[], Connection]) -> None:
        self._dialer = dialer
        self.endpoint = self._endpoint = endpoint
        self._factory = factory
        self._peer = peer_name(endpoint.host, endpoint.port)
        self._phase = Phase.DNS
        self.dns: float | None = None
        self.connect: float | None = None
        self.tls: float | None = None

    async def run(self, deadline: float) -> Connection:
        """Connect until ``deadline``.

        Cancelling leaves no socket open.

        Raises
        ------
        DialFailed
            With the reason.
        """
        left = deadline - self._dialer.clock()
        try:
            async with asyncio.timeout(left):
                addresses = self._checked(await self._resolve())
                return await self._first_that_connects(addresses, deadline)
        except TimeoutError as error:
            raise self._timed_out(left) from error

    async def _resolve(self) -> Sequence[str]:
        endpoint = self._endpoint
        if endpoint.literals:
            return endpoint.literals
        begun, limit = self._dialer.clock(), self._dialer.limits.dns
        try:
            async with asyncio.timeout(limit):
                return await self._dialer.resolver.resolve(endpoint.host, endpoint.port)
        except TimeoutError as error:
            raise self._timed_out(limit or 0.0) from error
        except UnicodeError as error:
            text = localized("DNS: {host} is not a valid host name", host=endpoint.host)
            raise _failed(PostFailure.DNS, text) from error
        except socket.gaierror as error:
            raise _failed(PostFailure.DNS, error_text(error, self._peer)) from error
        except OSError as error:
            raise _failed(PostFailure.DNS, localized("DNS: {error}", error=error_text(error, self._peer))) from error
        finally:
            self.dns = self._since(begun)

    def _checked(self, addresses: Sequence[str]) -> Sequence[str]:
        """Return the addresses if all are allowed: one denied address denies the whole host."""
        for address in addresses:
            self._check(address)
        return addresses

    def _check(self, address: str) -> None:
        try:
            self._dialer.egress.check_address(address, self._endpoint.host)
        except EgressDenied as error:
            raise _failed(PostFailure.DENIED, str(error)) from error

    async def _first_that_connects(self, addresses: Sequence[str], deadline: float) -> Connection:
        port = self._endpoint.port
        failed = _failed(PostFailure.DNS, localized("DNS: {host} has no address", host=self._endpoint.host))
        left = self._dialer.late.order(addresses, port)
        late: list[str] = []
        while left:
            reached = await self._reached(left, deadline)
            late += reached.late
            try:
                connection = await self._secured(reached.sock)
            except DialFailed as error:
                failed = error
                late.append(reached.address)
                left = [address for address in left if address not in late]
            else:
                self._dialer.late.note(reached.address, port, late)
                return connection
        raise failed

    async def _reached(self, addresses: Sequence[str], deadline: float) -> ConnectedSocket:
        """Connect to the first address that answers."""
        self._phase = Phase.CONNECT
        begun = self._dialer.clock()
        # So the failure of the last address is known before the deadline.
        share = (deadline - begun) / (2 if len(addresses) > 1 else 1)
        try:
            return await connect_first(addresses, partial(self._connected, share=share), DELAY)
        finally:
            self.connect = (self.connect or 0.0) + self._since(begun)

    async def _connected(self, address: str, share: float) -> socket.socket:
        """Connect a socket to a checked address, within its share of the time."""
        limit = self._dialer.limits.connect
        limit = share if limit is None else min(share, limit)
        try:
            async with asyncio.timeout(limit):
                return await self._open(address)
        except TimeoutError as error:
            raise self._timed_out(limit) from error
        except OSError as error:
            kind = PostFailure.REFUSED if isinstance(error, ConnectionRefusedError) else PostFailure.CONNECT
            raise _failed(kind, error_text(error, self._peer)) from error

    async def _open(self, address: str) -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, (address, self._endpoint.port))
            self._check(str(sock.getpeername()[0]))
        except BaseException:
            sock.close()
            raise
        return sock

    async def _secured(self, sock: socket.socket) -> Connection:
        if self._endpoint.scheme == "http":
            return await self._attached(sock, None)
        self._phase = Phase.TLS
        begun, limit = self._dialer.clock(), self._dialer.limits.tls
        try:
            async with asyncio.timeout(limit):
                return await self._attached(sock, self._dialer.context())
        except TimeoutError as error:
            raise self._timed_out(limit or 0.0) from error
        except ConnectionError as error:
            text = localized("TLS: {peer} closed the connection during the handshake", peer=self._peer)
            raise _failed(PostFailure.TLS, text) from error
        except OSError as error:
            raise _failed(PostFailure.TLS, error_text(error, self._peer)) from error
        finally:
            self.tls = (self.tls or 0.0) + self._since(begun)

    async def _attached(self, sock: socket.socket, context: ssl.SSLContext | None) -> Connection:
        """Hand the socket to a transport, which closes it from now on."""
        connection = self._factory()
        loop = asyncio.get_running_loop()
        try:
            if context is None:
                await loop.create_connection(lambda: connection, sock=sock)
            else:
                await loop.create_connection(
                    lambda: connection,
                    sock=sock,
                    ssl=context,
                    server_hostname=self._endpoint.host,
                    ssl_handshake_timeout=_NO_LIMIT,
                    ssl_shutdown_timeout=_GOODBYE,
                )
        except BaseException:
            # uvloop closes what was made when this is cancelled, without a word to the protocol.
            connection.abandon()
            raise
        return connection

    def _timed_out(self, seconds: float) -> DialFailed:
        return _failed(PostFailure.TIMEOUT, timed_out(self._phase, max(0.0, seconds), self._peer))

    def _since(self, begun: float) -> float:
        return (self._dialer.clock() - begun) * 1000.0


def _failed(kind: PostFailure, error: AnyText) -> DialFailed:
    return DialFailed(Failure(kind, str(error)))
