"""Connections to a server: limits for those without a valid key, and which are closed to make room for others."""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from bus.domain.delivery.rate import TokenBucket
from bus.http.asgi import App, Field, Receive, Refusal, Scope, Send
from bus.http.policies import KNOWN, Caller, ClosableConnection
from bus.http.problem import problem
from bus.network.descriptors import Descriptors
from bus.security.addresses import Network
from bus.security.clients import client_address, is_in, network_of

_LONGEST_WAIT: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_MOST_ADDRESSES: Final = 10_000
_MOST_WAITING: Final = 256
_REQUEST: Final = 4096  # bytes that an address may send for each request of its share
_AT_ONCE: Final = 16  # one of so many connections is closed at once, so that not all are looked at for each new one
_TOO_MANY: Final = problem(
    429, "this address makes more requests without a valid key than one may", hint="send a key, or wait a second"
)


class Share(NamedTuple):
    """What an address (a /64 of IPv6) may take without a valid key.

    ``requests`` and new connections a second, and so many open ``connections``.
    """

    requests: float
    connections: int


class Callers:
    """Counts connections and the requests without a valid key.

    A connection counts for its address until a request on it had a valid key. If an address opens more of
    them a second than it may make requests, only those whose first piece has a valid key are served. A bus without keys
    has no such limit.
    One connection more than an address may have, or than there are descriptors for, closes the one that has waited for
    its peer longest: of the same address, or in all, those without a key first. None is closed while a request on it is
    answered. Of what connections without a key send, 4 KiB are read for each request of the share, and more of it
    later.

    Parameters
    ----------
    share
        Of one address.
    descriptors
        How many connections there may be in all.
    knows
        Whether a request with these headers has a valid key, a session or the like, as far as memory tells.
    proxies
        Networks of proxies whose ``X-Forwarded-For`` says who calls; their connections count for no address.
    """

    def __init__(
        self,
        share: Share,
        descriptors: Descriptors,
        knows: Callable[[Sequence[Field]], bool],
        proxies: Collection[Network] = (),
    ) -> None:
        self._share = share
        self._descriptors = descriptors
        self.has_credentials = knows
        self._proxies = proxies
        self._connected: dict[Caller, str] = {}
        self._strangers: dict[str, dict[Caller, None]] = {}
        self._requests = _Buckets(share.requests, _LONGEST_WAIT)
        self._bytes = _Buckets(share.requests * _REQUEST, _LONGEST_PAUSE)
        self._opened = _Buckets(share.requests, 0.0, share.connections)
        self._address_of = lru_cache(_MOST_ADDRESSES)(self._address)
        self._waiting: dict[ClosableConnection, None] = {}

    def admits(self, peer: str) -> bool:
        """Whether an address may open one more connection; if so it counts until a request on it has a valid key."""
        address = self._address_of(peer)
        return not address or self.has_credentials(()) or self._opened.take(address, 1) == 0

    def wait(self, connection: ClosableConnection) -> None:
        """Count a connection over the share of its address, and drop the first of those if they are too many."""
        self._waiting[connection] = None
        if len(self._waiting) > max(1, min(_MOST_WAITING, self._descriptors.most // _AT_ONCE)):
            first = next(iter(self._waiting))
            del self._waiting[first]
            first.drop()

    def leave(self, connection: ClosableConnection) -> None:
        """Count one of those no more; no effect for one that is not counted."""
        self._waiting.pop(connection, None)

    def add(self, connection: Caller, peer: str, *, is_known: bool = False) -> None:
        """Count a new connection, and close another one, or itself, if it is one too many.

        One that ``is_known``, since it has shown a valid key, counts for no address.
        """
        address = "" if is_known else self._address_of(peer)
        strangers = self._strangers.get(address, {})
        if len(strangers) >= self._share.connections and not self._close_longest_idle(strangers, 1):
            connection.drop()
            return
        if len(self._connected) >= self._descriptors.most:
            self._descriptors.closed()
            of_strangers = [one for found in self._strangers.values() for one in found]
            most = max(1, self._descriptors.most // _AT_ONCE)
            if not self._close_longest_idle(of_strangers, most) and not self._close_longest_idle(self._connected, most):
                connection.drop()
                return
        self._connected[connection] = address
        if address:
            self._strangers.setdefault(address, {})[connection] = None

    def mark_known(self, connection: Caller) -> None:
        """Count a connection no more for its address: a request on it has a valid key."""
        address = self._connected.get(connection, "")
        if connection in self._strangers.get(address, ()):
            self._forget(connection, address)
            self._opened.give_back(address)

    def remove(self, connection: Caller) -> None:
        """Count a connection no more."""
        address = self._connected.pop(connection, None)
        if address is not None:
            self._forget(connection, address)

    def pace(self, connection: Caller, size: int) -> float:
        """Take bytes from the share of a connection's address; return the seconds until more of it may be read."""
        address = self._connected.get(connection)
        return min(_LONGEST_PAUSE, self._bytes.take(address, size)) if address else 0.0

    def take_request(self, headers: Iterable[tuple[bytes, bytes]], peer: str) -> bool:
        """Take a request that no application limits from its address's share; False if it would wait over a second.

        One that does not say whom a proxy serves is let through.
        """
        address = client_address(peer, headers, self._proxies)
        return is_in(address, self._proxies) or self._requests.take(network_of(address), 1) <= _LONGEST_WAIT

    def limited(self, app: Any) -> App:
        """Return an application whose requests without a valid key wait for the share of their address.

        One that would wait longer than a second is refused (429), and its connection closed.
        """

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            client = scope.get("client")
            wait = 0.0 if scope.get(KNOWN, True) else self._wait(scope["headers"], client[0] if client else "")
            if wait > _LONGEST_WAIT:
                await Refusal(_TOO_MANY, (b"connection", b"close"))(scope, receive, send)
                return
            if wait:
                await asyncio.sleep(wait)
            await app(scope, receive, send)

        return application

    def _wait(self, headers: Iterable[tuple[bytes, bytes]], peer: str) -> float:
        """Take a request from its address's share; return the seconds until it is its turn."""
        return self._requests.take(network_of(client_address(peer, headers, self._proxies)), 1)

    def _address(self, peer: str) -> str:
        """Return for whom a connection counts; empty for nobody."""
        return "" if is_in(peer, self._proxies) else network_of(client_address(peer, (), ()))

    def _forget(self, connection: Caller, address: str) -> None:
        strangers = self._strangers.get(address, {})
        strangers.pop(connection, None)
        if not strangers:
            self._strangers.pop(address, None)

    def _close_longest_idle(self, connections: Iterable[Caller], most: int) -> bool:
        """Close the connections that have waited longest; False if all are at work."""
        waiting = {one: since for one in connections if (since := one.idle_since) is not None}
        for connection in heapq.nsmallest(most, waiting, waiting.__getitem__):
            self.remove(connection)
            connection.drop()
        return bool(waiting)


class _Buckets:
    """The shares of the addresses that took of them last: ``rate`` a second, used at most ``longest`` seconds ahead.

    After a while without any, ``burst`` are there at once; None for one second's worth.
    """

    def __init__(self, rate: float, longest: float, burst: int | None = None) -> None:
        self._rate = rate
        self._longest = longest
        self._burst = burst
        self._of: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, address: str, count: int) -> float:
        """Return the seconds until it is an address's turn; take from its share unless that is too long."""
        bucket = self._of.pop(address, None) or TokenBucket(self._rate, self._burst)
        self._of[address] = bucket
        if len(self._of) > _MOST_ADDRESSES:
            self._of.popitem(last=False)
        wait = bucket.wait(asyncio.get_running_loop().time())
        if wait <= self._longest:
            bucket.take(count)
        return wait

    def give_back(self, address: str) -> None:
        """Return one token to the bucket of an address."""
        bucket = self._of.get(address)
        if bucket is not None:
            bucket.take(-1)
