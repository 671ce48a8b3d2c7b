"""Short questions over kept connections: the poster's own, since a general client costs a lookup ten times its work."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from bus.network.happy_eyeballs import LateAddresses
from bus.network.resolver import Resolver
from bus.ports.poster import PostFailure
from bus.posters.answer import AnswerLimits
from bus.posters.connection import Connection, Failure, Limits
from bus.posters.dial import Dial, Dialer, DialFailed
from bus.posters.pool import Key, Pool, PoolLimits
from bus.posters.tls import client_context
from bus.security.urls import Endpoint, parse_url

_MOST_ENDPOINTS: Final = 1024
_NO_LIMITS: Final = Limits()


class ExchangeFailed(Exception):
    """No whole answer came."""


class Exchanges:
    """Sends requests over connections that are kept, one at a time on each.

    Parameters
    ----------
    most
        Bytes of the largest body that is read.
    closed
        Called with each ``HOST:PORT`` that closed a kept connection by itself, as one that is started anew does.
    """

    def __init__(self, most: int, closed: Callable[[str], object]) -> None:
        self._limits = AnswerLimits(body=most, kept=most)
        self._closed = closed
        self._clock = time.perf_counter
        names = Resolver(clock=self._clock)
        late, context = LateAddresses(self._clock), functools.cache(client_context)
        self._dialer = Dialer(_AnyAddress(), names, late, context, _NO_LIMITS, self._clock)
        self._pool = Pool(PoolLimits())
        self._open: set[Connection] = set()

    async def close(self) -> None:
        """Close all connections."""
        await self._dialer.resolver.close()
        for connection in list(self._open):
            connection.abort()

    async def ask(self, address: str, request: bytes, within: float, *, repeatable: bool) -> tuple[int, bytes]:
        """Return status and body of the answer to a whole request.

        A kept connection that turns out to be closed is replaced by a new one when the request is ``repeatable``;
        others go over a new one from the start.

        Raises
        ------
        TimeoutError
            Not within so many seconds.
        Failed
            No connection is possible, it is no HTTP, or it is cut off or too large.
        """
        endpoint = _endpoint(address)
        key: Key = (endpoint.scheme, endpoint.host, endpoint.port)
        deadline = self._clock() + within
        kept = self._pool.take(key) if repeatable else None
        if kept is not None:
            failure = await self._exchange(kept, request, deadline, within)
            if failure is None or failure.kind is PostFailure.TIMEOUT:
                return self._end(key, kept, failure)
        dial = Dial(self._dialer, endpoint, functools.partial(self._connection, key, address))
        try:
            connection = await dial.run(deadline)
        except DialFailed as error:
            _fail(error.failure)
        return self._end(key, connection, await self._exchange(connection, request, deadline, within))

    async def _exchange(self, connection: Connection, request: bytes, deadline: float, within: float) -> Failure | None:
        try:
            return await connection.exchange(request, b"", self._clock(), deadline, within)
        except BaseException:
            connection.abort()
            raise

    def _end(self, key: Key, connection: Connection, failure: Failure | None) -> tuple[int, bytes]:
        if failure is not None:
            _fail(failure)
        answer = connection.answer
        if connection.reusable and not connection.closed:
            self._pool.give(key, connection)
        if not answer.complete or answer.stored > len(answer.body):
            raise ExchangeFailed("the answer was cut off, or is larger than any nsqlookupd's")
        return answer.status, bytes(answer.body)

    def _connection(self, key: Key, address: str) -> Connection:
        lost = functools.partial(self._pool.drop, key)
        told = functools.partial(self._closed, address)
        return _WatchedConnection(told, self._clock, _NO_LIMITS, self._limits, self._open, lost, address)


class _WatchedConnection(Connection):
    """A connection that reports when its peer closes it."""

    def __init__(self, told: Callable[[], object], *parts: Any) -> None:
        super().__init__(*parts)
        self._told = told

    def eof_received(self) -> None:
        """Report it, unless it is closed from here."""
        self._tell()
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report it, unless it is closed from here."""
        self._tell()
        super().connection_lost(exc)

    def _tell(self) -> None:
        if not self.closed:
            self._told()


class _AnyAddress:
    """The egress policy of addresses that an operator wrote: all of them."""

    def check_url(self, url: str) -> Endpoint:
        """Take a URL apart."""
        return parse_url(url)

    def check_address(self, address: str, host: str = "") -> None:
        """Allow it."""


@functools.lru_cache(maxsize=_MOST_ENDPOINTS)
def _endpoint(address: str) -> Endpoint:
    return parse_url(f"http://{address}/")


def _fail(failure: Failure) -> NoReturn:
    if failure.kind is PostFailure.TIMEOUT:
        raise TimeoutError(failure.error)
    raise ExchangeFailed(failure.error)
