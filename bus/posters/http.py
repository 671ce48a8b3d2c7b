"""`HttpPoster`: the Poster port over HTTP/1.1 and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
import time
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

from bus.error_texts import peer_name
from bus.network.descriptors import Descriptors
from bus.network.happy_eyeballs import LateAddresses
from bus.network.names import Lookup
from bus.network.resolver import Resolver
from bus.ports.poster import OngoingPost, Phases, PostFailure, PostResult, PostWaiter, Target, Trial
from bus.posters.answer import AnswerLimits
from bus.posters.certificates import Certificates
from bus.posters.connection import Clock, Connection, Failure, Limits
from bus.posters.dial import Dial, Dialer, DialFailed, Egress
from bus.posters.pool import Key, Pool, PoolLimits
from bus.posters.target import HttpTarget
from bus.posters.tls import client_context

_HANGS: Final = 5.0  # seconds without an answer after which a connection may be closed for another one
_LOOK_AGAIN: Final = 0.25
_GOODBYE: Final = 2.0  # seconds for connections to close in order
_new: Final = tuple.__new__  # makes a named tuple in less than half the time that its own constructor takes


class HttpPoster:
    """Posts over kept connections, one request at a time on each.

    Redirects are not followed, bodies are not decompressed, nothing is read past the limits. Belongs to
    the event loop that first posts with it.

    Parameters
    ----------
    egress
        Who may be called; asked about the URL, every resolved address, and the address that was connected.
    ssl_context
        For https; None verifies against the system's authorities. See `bus.posters.tls.client_context`.
    resolver
        Returns the addresses of (host, port), best first; raises OSError. None asks /etc/hosts and DNS.
    dns_ttl
        Seconds for which its answer is used; 0 asks for every new connection.
    limits
        Of single phases, beside the whole deadline of a post.
    pool_limits
        Of connections that wait.
    answer_limits
        Of what is read and kept.
    descriptors
        How many connections may be open. One more waits, and closes an idle one, or the one that has waited for an
        answer longest, if for more than 5 s. None for no limit.
    clock
        Seconds that never go back. Timers are the event loop's.

    Attributes
    ----------
    opened
        Connections made.
    reused
        Requests that began on a kept connection.
    certificates
        Those that subscribers have shown.
    """

    def __init__(
        self,
        egress: Egress,
        *,
        ssl_context: ssl.SSLContext | None = None,
        resolver: Lookup | None = None,
        dns_ttl: float = 10.0,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        pool_limits: PoolLimits = PoolLimits(),  # noqa: B008 - immutable
        answer_limits: AnswerLimits = AnswerLimits(),  # noqa: B008 - immutable
        descriptors: Descriptors | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._egress = egress
        names = Resolver(resolver, ttl=dns_ttl, clock=clock)
        # All authorities' certificates take 25 ms to read, and many a bus calls nobody over https.
        context = functools.cache(client_context) if ssl_context is None else lambda: ssl_context
        self._dialer = Dialer(egress, names, LateAddresses(clock), context, limits, clock)
        self._limits = limits
        self._answer_limits = answer_limits
        self._clock = clock
        self._descriptors = descriptors
        self._dialing = 0
        self._freed = asyncio.Event()
        self._pool = Pool(pool_limits)
        self._open: set[Connection] = set()
        self._closed = asyncio.Event()
        self._all_gone: asyncio.Event | None = None
        self.opened = 0
        self.reused = 0
        self.certificates = Certificates()

    @property
    def connections(self) -> int:
        """Connections that are open now, idle or not."""
        return len(self._open)

    @property
    def idle(self) -> int:
        """Connections that wait for a request."""
        return len(self._pool)

    def target(self, url: str, headers: dict[str, str], method: str = "POST") -> HttpTarget:
        """Parse a URL and its constant headers once; see `Poster.target`.

        A request's own header of the same name as a constant one is left out.
        """
        return HttpTarget(url, self._egress.check_url(url), headers, method)

    async def post(
        self,
        target: Target,
        headers: list[tuple[str, str]],
        body: bytes,
        timeout: float,  # noqa: ASYNC109 - the port's name
    ) -> PostResult:
        """POST once; see `Poster.post`.

        Raises
        ------
        ValueError
            A header name or value that HTTP does not allow.
        TypeError
            The target was not made by an HttpPoster.
        """
        if not isinstance(target, HttpTarget):
            raise TypeError(f"{target!r} was not made by HttpPoster.target()")
        waiter = _PostWaiter()
        ongoing = self.begin(target, headers, body, timeout, waiter)
        if ongoing is None:
            begun = self._clock()
            request = _Request(*target.render(headers, body), begun, begun + timeout)
            return await self._post_anew(target, request, reached=False)
        try:
            found = await waiter.told
        except asyncio.CancelledError:
            if waiter.told.cancelled():  # else somebody else may use the connection by now
                ongoing.cancel()
            waiter.leave()
            raise
        return found if isinstance(found, PostResult) else await found

    def begin(
        self, target: Target, headers: list[tuple[str, str]], body: bytes, timeout: float, waiter: PostWaiter
    ) -> OngoingPost | None:
        """POST over a kept connection, if there is one; see `Poster.begin`. Raises as ``post`` does."""
        if not isinstance(target, HttpTarget):
            raise TypeError(f"{target!r} was not made by HttpPoster.target()")
        if not self._pool.has(target.key):
            return None
        data, rest = target.render(headers, body)
        connection = self._pool.take(target.key)
        if connection is None:
            return None
        self.reused += 1
        begun = self._clock()
        kept = _KeptPost(self, target, connection, _Request(data, rest, begun, begun + timeout), waiter)
        connection.exchange_with(kept, data, rest, begun, begun + timeout, timeout)
        return kept

    def finish(self, kept: _KeptPost, failure: Failure | None) -> PostResult | None:
        """Keep or drop the connection of an exchange; return its result, None when it needs a new one."""
        connection, request = kept.connection, kept.request
        if connection.reusable and not connection.closed:
            self._pool.give(kept.target.key, connection)
        elif failure is not None and failure.kind is PostFailure.RESET and not connection.first:
            return None
        return _result(connection, failure, request.begun, None, reached=False)

    def post_again(self, kept: _KeptPost) -> Coroutine[Any, Any, PostResult]:
        """POST on a new connection what a kept one did not answer."""
        return self._post_anew(kept.target, kept.request, reached=kept.connection.sent > 0.0)

    async def trial(
        self,
        target: Target,
        headers: list[tuple[str, str]],
        body: bytes,
        timeout: float,  # noqa: ASYNC109 - the port's name
    ) -> Trial:
        """POST once over a new connection, and return all that was sent and answered; raises as ``post`` does."""
        if not isinstance(target, HttpTarget):
            raise TypeError(f"{target!r} was not made by HttpPoster.target()")
        shown = target.shown(headers, body)
        begun = self._clock()
        limits = self._answer_limits._replace(kept=self._answer_limits.body)
        dial = Dial(self._dialer, target.endpoint, functools.partial(self._connection, target.key, limits))
        try:
            connection = await self._dialed(dial, begun + timeout)
        except DialFailed as error:
            result = _unsent(dial, error.failure, (self._clock() - begun) * 1000.0, reached=False)
            return Trial(target.url, shown, result, [], 0, body)
        try:
            failure = await connection.exchange(*target.render(headers, body), self._clock(), begun + timeout, timeout)
        finally:
            connection.abort()
        result = _result(connection, failure, begun, dial, reached=False)
        return Trial(target.url, shown, result, connection.answer.fields, connection.answer.stored, body)

    async def close(self) -> None:
        """Close all connections; posts under way end as RESET."""
        self._closed.set()
        for connection in list(self._open):
            connection.close()
        await self._dialer.resolver.close()
        await self._gone(_GOODBYE)
        for connection in list(self._open):
            connection.abort()
        await self._gone(_GOODBYE)

    async def _post_anew(self, target: HttpTarget, request: _Request, *, reached: bool) -> PostResult:
        """Post on a new connection; ``reached`` if a kept one took the whole request before it was closed."""
        data, rest, begun, deadline = request
        dial = Dial(self._dialer, target.endpoint, functools.partial(self._connection, target.key, self._answer_limits))
        try:
            connection = await self._dialed(dial, deadline)
        except DialFailed as error:
            return _unsent(dial, error.failure, (self._clock() - begun) * 1000.0, reached=reached)
        try:
            failure = await connection.exchange(data, rest, self._clock(), deadline, deadline - begun)
        except asyncio.CancelledError:
            connection.abort()
            raise
        if connection.reusable and not connection.closed:
            self._pool.give(target.key, connection)
        return _result(connection, failure, begun, dial, reached=reached)

    async def _dialed(self, dial: Dial, deadline: float) -> Connection:
        if not self._closed.is_set():
            await self._take_slot(deadline)
            try:
                connection = await dial.run(deadline)
            finally:
                self._dialing -= 1
                self._freed.set()
            self.opened += 1
            if certificate := connection.certificate:
                self.certificates.note(dial.endpoint.host, dial.endpoint.port, certificate, round(time.time() * 1000))
            if not self._closed.is_set():
                return connection
            connection.abort()
        raise DialFailed(Failure(PostFailure.CONNECT, "this process is stopping"))

    async def _take_slot(self, deadline: float) -> None:
        """Wait until a connection may be opened; an idle one, or one that has hung for long, is closed for it."""
        limit = self._descriptors
        while limit is not None and len(self._open) + self._dialing >= limit.most:
            if self._close_one():
                limit.closed()
            self._freed.clear()
            left = deadline - self._clock()
            if left <= 0:
                raise DialFailed(
                    Failure(PostFailure.CONNECT, "no connection available: all that may be open are in use")
                )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, _LOOK_AGAIN)):
                    await self._freed.wait()
        self._dialing += 1

    def _close_one(self) -> bool:
        """Close the connection that has been idle longest, else the one that has hung longest, if for some seconds."""
        for connection in sorted((one for one in self._open if not one.closed), key=Connection.waits_since):
            is_busy, since = connection.waits_since()
            if not is_busy or self._clock() - since > _HANGS:
                connection.close_for_another()
                return True
            break
        return False

    def _connection(self, key: Key, limits: AnswerLimits) -> Connection:
        lost = functools.partial(self._lost, key)
        return Connection(self._clock, self._limits, limits, self._open, lost, peer_name(*key[1:]))

    def _lost(self, key: Key, connection: Connection) -> None:
        self._pool.drop(key, connection)
        self._freed.set()
        if self._all_gone is not None and not self._open:
            self._all_gone.set()

    async def _gone(self, patience: float) -> None:
        """Wait until no connection is open, for a while."""
        if self._open:
            self._all_gone = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._all_gone.wait()


class _KeptPost:
    """A POST on a kept connection; the connection's waiter."""

    __slots__ = ("_is_canceled", "_poster", "_waiter", "connection", "request", "target")

    def __init__(
        self, poster: HttpPoster, target: HttpTarget, connection: Connection, request: _Request, waiter: PostWaiter
    ) -> None:
        self._poster = poster
        self._waiter = waiter
        self._is_canceled = False
        self.target = target
        self.connection = connection
        self.request = request

    def done(self) -> bool:
        return self._is_canceled

    def set_result(self, failure: Failure | None, /) -> None:
        result = self._poster.finish(self, failure)
        if result is None:
            self._waiter.go_on(self._poster.post_again(self))
        else:
            self._waiter.set_result(result)

    def cancel(self) -> None:
        """Close the connection; nobody is told."""
        self._is_canceled = True
        self.connection.abort()


class _PostWaiter:
    """Waits for a POST: for what came of it, or for what is still to be awaited."""

    def __init__(self) -> None:
        self.told: asyncio.Future[PostResult | Coroutine[Any, Any, PostResult]]
        self.told = asyncio.get_running_loop().create_future()

    def set_result(self, result: PostResult, /) -> None:
        if not self.told.done():
            self.told.set_result(result)

    def go_on(self, post: Coroutine[Any, Any, PostResult], /) -> None:
        if self.told.done():
            post.close()
        else:
            self.told.set_result(post)

    def leave(self) -> None:
        """Await nothing any more."""
        if self.told.done() and not self.told.cancelled() and not isinstance(rest := self.told.result(), PostResult):
            rest.close()


class _Request(NamedTuple):
    """A request, when it began and when it has to be over."""

    data: bytes
    rest: bytes
    begun: float
    deadline: float


def _result(
    connection: Connection, failure: Failure | None, begun: float, dial: Dial | None, *, reached: bool
) -> PostResult:
    duration = (connection.ended - begun) * 1000.0
    phases = _phases(connection, dial)
    answer = connection.answer
    if failure is None:
        retry_after = answer.retry_after
        date, whole = answer.date if retry_after else None, answer.complete and answer.stored == len(answer.body)
        return _new(
            PostResult, (answer.status, None, "", False, duration, phases, retry_after, bytes(answer.body), date, whole)
        )
    reached = reached or connection.sent > 0.0
    return PostResult(None, failure.kind, failure.error, reached, duration, phases, None, bytes(answer.body))


def _unsent(dial: Dial, failure: Failure, duration: float, *, reached: bool) -> PostResult:
    phases = Phases(dial.dns, dial.connect, dial.tls, None, None, None)
    return PostResult(None, failure.kind, failure.error, reached, duration, phases, None, b"")


def _phases(connection: Connection, dial: Dial | None) -> Phases:
    """Return the phases of an exchange; one that overtook the end of the request waited 0 ms for its first byte."""
    begun, sent, first, ended = connection.begun, connection.sent, connection.first, connection.ended
    dns, connect, tls = (dial.dns, dial.connect, dial.tls) if dial else (None, None, None)
    send = ((sent or ended) - begun) * 1000.0
    if not first:
        # What was waited for and did not come was waited for: a time-out then is that phase's.
        return Phases(dns, connect, tls, send, (ended - sent) * 1000.0 if sent else None, None)
    wait = (first - sent) * 1000.0 if 0.0 < sent < first else 0.0
    return _new(Phases, (dns, connect, tls, send, wait, (ended - first) * 1000.0))
