"""One connection to a subscriber, carrying one exchange at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, cast

from bus.error_texts import Phase, closed_early, error_text, timed_out
from bus.localized_text import AnyText, localized
from bus.ports.poster import PostFailure
from bus.posters.answer import Answer, AnswerLimits, BadAnswer

_SLICE: Final = 64 * 1024
_EARLY: Final = 0.001  # a timer may ring this many seconds before it is due

Clock = Callable[[], float]


class Failure(NamedTuple):
    """Kind of a failure, and its text for people."""

    kind: PostFailure
    error: str


class Waiter(Protocol):
    """Who waits for the end of an exchange; an `asyncio.Future` is one."""

    def done(self) -> bool:
        """Whether it is not to be told any more."""
        ...

    def set_result(self, failure: Failure | None, /) -> None:
        """Learn that the answer's status counts, or why there is none."""
        ...


class Limits(NamedTuple):
    """Seconds that a phase may take; None leaves only the whole deadline.

    The whole deadline is shared by the addresses of a host that are still to be tried, so that one
    address which does not answer never uses up the time of the next.
    """

    dns: float | None = None
    connect: float | None = None
    tls: float | None = None
    first_byte: float | None = None  # from the start of the request
    receive: float | None = None  # from the first byte to the last


class Connection(asyncio.Protocol):
    """Writes a request and reads its answer.

    The request's future ends with None once an answer's status counts, or with the failure; it never raises. A
    status counts when its head is whole: a body that is cut off, late or broken only costs the connection.
    Between exchanges any byte from the peer closes the connection.

    Parameters
    ----------
    clock
        Seconds that never go back.
    limits
        Of the phases of an exchange.
    answer_limits
        Of what is read.
    open_connections
        Holds the connection from when it is made until it is gone.
    on_lost
        Called once, when the connection is gone.
    peer
        ``HOST:PORT``, for the texts of failures.

    Attributes
    ----------
    answer
        The answer to the last request.
    closed
        No exchange can begin any more.
    reusable
        After an exchange: another may follow.
    born, begun, sent, first, ended
        When the connection was made; when the last exchange began, was handed over to the
        system completely, got its first byte, and ended. 0 for what did not happen.
    """

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        answer_limits: AnswerLimits,
        open_connections: set[Connection],
        on_lost: Callable[[Connection], None],
        peer: str,
    ) -> None:
        self._clock = clock
        self._first_byte = limits.first_byte
        self._receive = limits.receive
        self._open = open_connections
        self._on_lost = on_lost
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._transport = cast("asyncio.Transport", None)
        self._waiter: Waiter | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings = self._due = self._deadline = self._within = 0.0
        self._rest = memoryview(b"")
        self._blocked = False
        self.answer = Answer(answer_limits)
        self.closed = True
        self.reusable = False
        self.born = self.begun = self.sent = self.first = self.ended = 0.0

    @property
    def certificate(self) -> Mapping[str, object]:
        """The peer's, as it was verified in the handshake; empty for a connection without one."""
        return self._transport.get_extra_info("peercert") or {}

    # What the poster calls.

    def exchange(
        self, data: bytes, rest: bytes, now: float, deadline: float, within: float
    ) -> asyncio.Future[Failure | None]:
        """Write a request, ``data`` and then ``rest``; the future ends at ``deadline`` at the latest.

        ``within`` is the limit in seconds that the deadline came from: the text of a time-out names it.
        """
        waiter: asyncio.Future[Failure | None] = self._loop.create_future()
        self.exchange_with(waiter, data, rest, now, deadline, within)
        return waiter

    def exchange_with(
        self, waiter: Waiter, data: bytes, rest: bytes, now: float, deadline: float, within: float
    ) -> None:
        """Write a request as ``exchange`` does; the waiter is told at ``deadline`` at the latest."""
        self.begun = now
        self.sent = self.first = 0.0
        self.reusable = False
        if self.closed:
            self.ended = now
            text = localized("connection closed by {peer} before the request", peer=self._peer)
            waiter.set_result(Failure(PostFailure.PROTOCOL, str(text)))
            return
        self._waiter = waiter
        self._deadline = deadline
        self._within = within
        self.answer.reset()
        limit = self._first_byte
        self._due = due = deadline if limit is None else min(deadline, now + limit)
        if self._timer is None or self._rings > due:
            self._arm(now)
        self._transport.write(data)
        if rest or self._blocked:
            self._rest = memoryview(rest)
            self._pump()
        else:
            self.sent = self._clock()

    def rest_until(self, due: float) -> None:
        """Wait idle after an exchange, and close then."""
        self._due = due
        if self._rings > due:
            self._arm(self.ended)

    def close(self) -> None:
        """Close; in order when idle. An exchange under way ends with the status that it has, or as RESET."""
        if self._waiter is not None:
            self._give_up(PostFailure.RESET, "this process closed the connection: it stops")
        self.closed = True
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self.closed = True
        self._rest = memoryview(b"")
        self._transport.abort()

    def waits_since(self) -> tuple[bool, float]:
        """Return a sort key by which idle connections are before others, and then those that wait longest."""
        if self._waiter is None and self.ended:
            return False, self.ended
        return True, self.begun or self.born

    def close_for_another(self) -> None:
        """Close for another one; an exchange under way ends as a failure."""
        if self._waiter is None:
            self.close()
        else:
            self._give_up(PostFailure.TIMEOUT, "connection closed for other requests: too many wait for responses")

    def abandon(self) -> None:
        """Close at once, and be gone even if the event loop never says so."""
        if self in self._open:
            self.abort()
            self.connection_lost(None)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; from now on `pause_writing` tells when not all was handed to the system."""
        self._transport = cast("asyncio.Transport", transport)
        encrypted = transport.get_extra_info("sslcontext") is not None
        self._transport.set_write_buffer_limits(high=1 if encrypted else 0, low=0)  # TLS pauses *at* the mark
        self._open.add(self)
        self.closed = False
        self.born = self._clock()

    def data_received(self, data: bytes) -> None:
        """Read the answer; close when nothing was asked."""
        if self._waiter is None:
            self.abort()
            return
        now = 0.0
        if not self.first:
            self.first = now = self._clock()
        try:
            if self.answer.feed(data):
                self._complete(now or self._clock())
            elif now and self._receive is not None:
                self._due = min(self._deadline, now + self._receive)
                self._arm(now)
        except BadAnswer as error:
            self._give_up(PostFailure.PROTOCOL, f"invalid response: {error}")

    def eof_received(self) -> None:
        """End what is under way."""
        if self._waiter is not None:
            self.answer.end()
        self._end_of_input(None)
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is under way; not again for a connection that was abandoned."""
        if self not in self._open:
            return
        self.closed = True
        if exc is not None and self._waiter is not None:
            self._read_rest()
        self._end_of_input(exc)
        if self._timer is not None:
            self._timer.cancel()
        self._open.discard(self)
        self._on_lost(self)

    def pause_writing(self) -> None:
        """Stop writing until the system has taken everything."""
        self._blocked = True

    def resume_writing(self) -> None:
        """Go on writing."""
        self._blocked = False
        if self._waiter is not None and not self.sent:
            self._pump()

    # An exchange.

    def _pump(self) -> None:
        """Write slices while the peer takes them, and note when the last one is gone."""
        while self._rest and not self._blocked and not self._transport.is_closing():
            piece, self._rest = self._rest[:_SLICE], self._rest[_SLICE:]
            self._transport.write(piece)
        if not self._rest and not self._blocked:
            self.sent = self._clock()

    def _complete(self, now: float) -> None:
        if self.answer.keep_alive and self.sent:
            self.reusable = True
        else:
            self.abort()
        self._settle(None, now)

    def _give_up(self, kind: PostFailure, error: AnyText) -> None:
        """Read no further: the exchange failed unless its status counts already."""
        self.abort()
        self._settle(None if self.answer.status else Failure(kind, str(error)), self._clock())

    def _settle(self, outcome: Failure | None, now: float) -> None:
        waiter, self._waiter = self._waiter, None
        self.ended = now
        if waiter is not None and not waiter.done():
            waiter.set_result(outcome)

    def _read_rest(self) -> None:
        """Read what came before the peer reset the connection: it may have answered without reading the whole request.

        The event loop drops that when it learns of the reset by writing. Over TLS it stays lost.
        """
        if self._transport.get_extra_info("sslcontext") is not None:
            return
        descriptor = self._transport.get_extra_info("socket").fileno()
        with suppress(OSError, BadAnswer):
            while data := os.read(descriptor, _SLICE):
                self.first = self.first or self._clock()
                if self.answer.feed(data):
                    return

    def _end_of_input(self, exc: Exception | None) -> None:
        if self._waiter is not None:
            is_reset = isinstance(exc, ConnectionResetError) and not self.first
            text = error_text(exc, self._peer) if exc and is_reset else closed_early(self._phase(), self._peer)
            self._give_up(PostFailure.RESET, text)

    def _phase(self) -> Phase:
        if not self.sent:
            return Phase.SEND
        return Phase.READ if self.first else Phase.WAIT

    # One timer per connection: it is armed anew only when it rang or is too late, not with each request.

    def _arm(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings = self._due
        self._timer = self._loop.call_later(self._due - now, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._clock()
        if now < self._due - _EARLY:
            self._arm(now)
        elif self._waiter is None:
            self.close()
        else:
            self._give_up(PostFailure.TIMEOUT, timed_out(self._phase(), self._limit(), self._peer))

    def _limit(self) -> float:
        """Return the limit in seconds that was reached: the phase's own, or that of the whole POST."""
        own = self._receive if self.first else self._first_byte
        return own if own is not None and self._due < self._deadline else self._within
