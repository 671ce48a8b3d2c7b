"""The SDK for threads."""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from bus.client.network.direct_send import DirectSend
from bus.client.options import Options, PreparedMessage, WallAndMonotonic
from bus.client.outbox import STARTING, Leftovers, Outbox, record_of
from bus.client.producers.lease import LeaseRequest
from bus.client.producers.producer import Producer, take
from bus.client.spooling.home import orphans
from bus.client.spooling.line import Line, check_deliver_at, content_of, id_of, split_headers, text_of, typed
from bus.client.tracing import sending
from bus.clock import SystemClock
from bus.domain.identity import new_id
from bus.domain.message import DEFAULT_MAX_BYTES, check_destination, check_size
from bus.domain.texts import check_ascii
from bus.domain.times import format_time
from bus.errors import SpoolClosed, SpoolError, SpoolFailed

if TYPE_CHECKING:
    import httpx

CLOSE_SECONDS: Final = 5.0


class Bus:
    """Sends messages: durable on this machine when `send` returns, brought to the receiver by a daemon.

    Thread-safe and fork-safe. Making one starts nothing, unless ended processes left messages under
    ``spool``; the first `send` makes the process's spool directory there and starts the daemon thread, which also
    sends those messages. A forked child gets a directory and a daemon of its own at its first `send`.

    Parameters
    ----------
    url
        Where the receiver is, such as ``http://127.0.0.1:8700``.
    api_key
        Sent as a bearer token.
    spool
        Root of the spool directories, on a disk that outlives the process.
    source
        The name of the sending application, shown in traces.
    max_bytes
        The largest message, with its own headers.
    spool_limit, disk_reserve
        Bytes that the spool may take, and bytes of disk that it leaves free; beyond either `send` raises SpoolFull.
    timeout
        Seconds that the receiver has for an answer of the daemon; no `send` waits for it.
    fallback_timeout
        Seconds within which `send` has the receiver take a message that the disk refuses; 0 turns that off.
    backoff_first, backoff_longest
        Bounds in seconds of the wait after the first failed request and after many (exponential, full jitter); no
        wait is longer than ``backoff_first`` and the time for which requests have failed.
    sweep_seconds
        Seconds between two searches for orphaned directories.
    events
        Whether to report sent messages to the bus as events, kept in ``events/`` of the root and shipped.
    clock, random, transport
        For tests: time, numbers in [0, 1), and the ``httpx`` transport.

    Raises
    ------
    ConfigurationError
        A value is impossible.
    TypeError
        One is of another type.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        spool: str | PathLike[str] = "./spool",
        source: str = "",
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        spool_limit: int = 4 << 30,
        disk_reserve: int = 64 << 20,
        timeout: float = 30.0,
        fallback_timeout: float = 2.0,
        backoff_first: float = 0.25,
        backoff_longest: float = 30.0,
        sweep_seconds: float = 15.0,
        events: bool = True,
        clock: WallAndMonotonic | None = None,
        random: Callable[[], float] = random_module.random,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._options = Options(
            url=url,
            api_key=api_key,
            root=Path(spool).absolute(),
            source=text_of(source, "source"),
            max_bytes=max_bytes,
            spool_limit=spool_limit,
            disk_reserve=disk_reserve,
            timeout=timeout,
            fallback_timeout=fallback_timeout,
            backoff_first=backoff_first,
            backoff_longest=backoff_longest,
            sweep_seconds=sweep_seconds,
            events=events,
            clock=clock or SystemClock(),
            random=random,
            transport=transport,
        )
        self._outbox: Outbox | None = None
        self._closed = False
        self._left = Leftovers()
        self.straight = DirectSend(self._options, self._waits)
        self._resume()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self,
        destination: str,
        message: Any,
        *,
        biz_id: str | None = None,
        key: str | None = None,
        routing_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = None,
        deliver_at: datetime | str | None = None,
        id: str | None = None,  # noqa: A002 - as the receiver calls it
        idempotency_key: str | None = None,
    ) -> str:
        """Store a message and return its id; it is on disk (fsync) when this returns, and is sent from there.

        Does not wait for the network, and messages of one thread to one destination leave in the order of the calls.
        Only a message that the disk refuses goes at once to the receiver, past those that wait on disk: this returns
        when the receiver has it durably, within ``fallback_timeout`` seconds. One with a ``key`` passes none: it is
        refused while others to its destination wait.

        Parameters
        ----------
        message
            bytes as they are, str as UTF-8 text, anything else as JSON.
        biz_id, key
            What people search for, and what orders messages.
        routing_key
            What the routing patterns of subscriptions choose by.
        headers
            Delivered under the same names; ``traceparent`` and ``tracestate`` become the message's trace context
            (without them that of a span ``send CODE`` does, where the application uses OpenTelemetry).
        content_type
            Instead of ``application/octet-stream``, ``text/plain; charset=utf-8`` or ``application/json``.
        deliver_at
            Not before this time: a datetime with a zone, or RFC 3339 text.
        id
            A UUID of version 7 in place of a new one; the receiver accepts an id once, from whichever sender.
        idempotency_key
            What the receiver takes once within a day, whatever the ids: of what is sent again under it the first
            message stands, under its own id.

        Raises
        ------
        InvalidDestination
            The code is malformed. (One that the receiver does not have ends in the ``rejected`` stream.)
        MessageTooLarge
            The message is over ``max_bytes``.
        InvalidMessage
            Another argument is impossible; ``field`` names it. One of a wrong type is a ``TypeError`` too.
        SpoolFull
            The spool's limit or the disk's reserve is reached, and the receiver did not take this message either; it
            is not stored, those before are.
        SpoolFailed
            The disk failed, and the receiver did not take this message either. It may or may not be stored; the next
            call tries a new file.
        SpoolClosed
            The bus was closed.
        """
        with sending(destination, headers) as span:
            prepared = self.prepare(
                destination,
                message,
                biz_id=biz_id,
                key=key,
                routing_key=routing_key,
                headers=headers,
                content_type=content_type,
                deliver_at=deliver_at,
                id=id,
                idempotency_key=idempotency_key,
            )
            span.prepared(prepared)
            try:
                self.store([prepared])
            except SpoolClosed:
                raise
            except SpoolError as refusal:
                self.straight.send(prepared, refusal)
            return prepared.id

    def sender(self, destination: str, *, wait: float | None = 0.0, takeover_after: float | None = None) -> Producer:
        """Take the lease of a strictly ordered destination: no other producer sends to it until the sender is closed.

        Each process may have one sender for a destination; any number of threads use it. Meanwhile messages that `send`
        stores for the destination wait, in this process and in others. A process that dies keeps the lease until the
        next process with the same ``spool`` root, or a sweeper, has sent the messages that it left.

        Parameters
        ----------
        wait
            Seconds to wait for another producer to end, or a receiver to answer; None for no limit.
        takeover_after
            Seconds (2 to 3,600) without a sign of life of this process after which another sender gets the lease.
            Messages that this process's spool holds then are refused, and kept in the ``rejected`` stream; None: the
            lease ends only once these messages are sent.

        Raises
        ------
        NotLeader
            Another producer has the lease, or this process has it already.
        ReceiverUnavailable
            No receiver said who has it.
        AccessDenied
            The key may not send there.
        InvalidDestination, InvalidMessage
            There is no such destination, or it keeps no strict order.
        SpoolFailed, SpoolClosed
            The disk failed, or the bus was closed.
        """
        return Producer(self.prepare, take(lambda: self.asking(destination, takeover_after), wait))

    def asking(self, destination: str, takeover_after: float | None = None) -> LeaseRequest:
        """Return a request for a lease. Not for applications."""
        check_destination(destination)
        return LeaseRequest(self._opened(), self._options, destination, self._replace, takeover_after)

    def prepare(
        self,
        destination: str,
        message: Any,
        *,
        biz_id: str | None = None,
        key: str | None = None,
        routing_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = None,
        deliver_at: datetime | str | None = None,
        id: str | None = None,  # noqa: A002 - as the receiver calls it
        idempotency_key: str | None = None,
        producer: int = 0,
    ) -> PreparedMessage:
        """Validate the arguments of `send` and make the record; stores nothing. Not for applications."""
        check_destination(typed(destination, str, "destination"))
        content = content_of(message, text_of(content_type, "content_type", check_ascii))
        given = split_headers(headers)
        check_size(content.body, given.own, self._options.max_bytes)
        now = self._options.clock.now()
        line = Line(
            id=id_of(id) or new_id(now),
            destination=destination,
            sent_at=format_time(now),
            content_type=content.content_type,
            source=self._options.source,
            biz_id=text_of(biz_id, "biz_id"),
            key=text_of(key, "key"),
            routing_key=text_of(routing_key, "routing_key"),
            headers=given.own,
            deliver_at=check_deliver_at(deliver_at),
            idempotency_key=text_of(idempotency_key, "idempotency_key"),
            traceparent=given.traceparent,
            tracestate=given.tracestate,
            producer=producer,
            body=msgspec.Raw(content.body) if content.is_json else msgspec.UNSET,
            body_base64=msgspec.UNSET if content.is_json else content.body,
        )
        record = record_of(line, now)
        return PreparedMessage(line.id, record, destination, len(content.body), line.biz_id, line.source, line.key)

    def store(self, prepared: Sequence[PreparedMessage]) -> None:
        """Store prepared messages, all or none, durably on disk, or raise ``SpoolError``. Not for applications."""
        outbox = self._opened()
        try:
            outbox.append(prepared)
        except SpoolFailed:
            self._replace(outbox)
            raise
        self.straight.disk_is_well()

    def start(self) -> None:
        """Start the daemon before the first `send`, so that messages that earlier processes left are sent now."""
        self._opened()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the receiver has everything that was sent before this call.

        A message that the receiver rejected permanently no longer waits; it counts in `rejected`.

        Parameters
        ----------
        timeout
            Seconds; None waits for as long as it takes.

        Returns
        -------
        bool
            Whether it has; False after ``timeout`` seconds, with what is left still stored and being sent.
        """
        outbox = self.present()
        if outbox is None:
            return True
        outbox.hurry()
        return outbox.wait_sent(self.now(), timeout)

    def now(self) -> int:
        """Return the time of the bus's clock in milliseconds since the epoch."""
        return self._options.clock.now()

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Stop; may be called twice.

        Waits up to ``timeout`` seconds while the receiver takes what waits, and not at all when it does not answer.
        What is left stays on disk and is sent by the next process that uses the same ``spool`` root.
        """
        self._closed = True
        with STARTING.lock:
            outbox, self._outbox = self.present(), None
        if outbox is not None:
            self._left = outbox.close(timeout)
        self.straight.close()

    @property
    def pending(self) -> int:
        """How many messages of this process wait to be taken by the receiver; once closed, how many did then."""
        outbox = self.present()
        return self._left.pending if outbox is None else outbox.pending

    @property
    def rejected(self) -> int:
        """Number of messages that this process keeps after the receiver rejected them permanently (404, 413, 422)."""
        outbox = self.present()
        return self._left.rejected if outbox is None else outbox.rejected

    @property
    def sent_straight(self) -> int:
        """How many messages of this process the receiver took straight from `send`, since the disk refused them."""
        return self.straight.count

    def _waits(self, destination: str) -> bool:
        outbox = self.present()
        return outbox is not None and outbox.waits(destination)

    def present(self) -> Outbox | None:
        """Return the outbox when there is one and it is this process's own."""
        outbox = self._outbox
        return None if outbox is None or outbox.is_foreign else outbox

    def _resume(self) -> None:
        """Start at once when there is something to send that an earlier process left."""
        options = self._options
        with suppress(SpoolError):  # the first send says what is wrong with the disk
            if next(orphans(options.root, options.clock.now() / 1000), None) is not None:
                self._opened()

    def _opened(self) -> Outbox:
        outbox = self.present()
        if outbox is not None:
            return outbox
        with STARTING.lock:
            if self._closed:
                raise SpoolClosed("the bus was closed", hint="make a new Bus")
            outbox = self.present()
            if outbox is None:
                outbox = self._outbox = Outbox(self._options)
            return outbox

    def _replace(self, failed: Outbox) -> None:
        """Abandon a spool whose disk failed, so that the next message is written to a new file."""
        with STARTING.lock:
            if self._outbox is failed:
                self._outbox = None
        failed.abandon()
