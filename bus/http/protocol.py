"""How requests arrive: within a deadline and limits, and every refusal is a problem document."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, cast

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from bus.http.asgi import App, Event, Field, Receive, Refusal, Scope, Send
from bus.http.corked import Corked
from bus.http.endpoint import Endpoint, Exchange, Taker
from bus.http.heads import BAD_TARGET, SPOKEN, fault_of_codings, fault_of_hosts, fault_of_version, target_of
from bus.http.pacing import PacedFlow
from bus.http.policies import KNOWN, CallerPolicy, UpgradePolicy
from bus.http.problem import CONTENT_TYPE, Problem, fields_of, problem

_log = logging.getLogger(__name__)
LONGEST_HEAD: Final = 65_536
_LINGER: Final = 1.0  # seconds in which a peer that still sends may read its answer
_MOST_UNREAD: Final = 65_536  # bytes of a request that are read, and dropped, once it is answered
_FIRST_HEAD: Final = 4096  # bytes of a connection that are read at once, though its address sends too many
_GRACE: Final = 0.5  # seconds that a stop leaves a new connection for a request that may be on its way
_BETWEEN: Final = len(": \r\n")
_TOO_LONG: Final = problem(
    431, f"the request's line and headers are longer than {LONGEST_HEAD} bytes", hint="put what is long into the body"
)
_LONG_TRAILERS: Final = problem(
    431,
    f"what comes after the body is longer than {LONGEST_HEAD} bytes; nothing of it was stored",
    hint="put what is long into the body",
)
_LONG_TARGET: Final = problem(
    414, f"the target makes the head longer than {LONGEST_HEAD} bytes", hint="put what is long into the body"
)
_BAD_TRAILER: Final = problem(
    400, "a trailer is about the connection; nothing of the request was stored", hint="send Connection as a header"
)
MOST_BEHIND: Final = 16
"""Pipelined requests that may wait on a connection; after one more it is closed once these are answered."""
_TOO_MANY_BEHIND: Final = problem(
    429, f"more than {MOST_BEHIND} requests wait on this connection", hint="send it again once there are answers"
)
_SPACES: Final = (b" ", b"\t")
_OF_CONNECTION: Final = frozenset({b"connection", b"proxy-connection"})
_WEBSOCKET: Final = b"websocket"
_LONGEST_FIELD: Final = 8_000  # of a handshake, and of its target: the parser of WebSockets takes little more
_MOST_FIELDS: Final = 100
_LONG_HANDSHAKE: Final = problem(
    431,
    f"a WebSocket's handshake has at most {_MOST_FIELDS} headers, and at most {_LONGEST_FIELD} bytes in each",
    hint="have the browser forget cookies of other applications on this host",
)
_NO_HANDSHAKE: Final = problem(
    400, "a WebSocket is opened by a GET without a body, on a connection that answers nothing else", hint=SPOKEN
)


class Refused(Exception):
    """Ends the parsing of a request."""


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a deadline for receiving a request and a limit of its head, and with whole responses.

    Subclass it with the ``deadline`` in seconds, the policies for ``callers`` and for ``upgrades`` to WebSockets, and
    the ``endpoint`` that takes some requests before the application. A request that is refused before anybody sees it
    whole (400, 408, 414, 431) is answered, and its connection closed. What came before it on the connection is answered
    first; when that is not done yet, a request without a whole head gets no answer of its own. Nor is there one over
    the share of an address without a valid key.

    Of a request that is answered before it is whole, at most ``_MOST_UNREAD`` bytes more are read within ``_LINGER``
    seconds; if it is not whole then, its connection is closed. Trailers have the limit of a head and are dropped.

    What runs for every request calls its parent by name, which is half the cost of ``super()``.
    """

    deadline: float
    callers: CallerPolicy
    upgrades: UpgradePolicy
    endpoint: Endpoint | None = None
    transport: Corked  # type: ignore[assignment]
    already_read = b""  # what another process has read of this connection
    url = b""
    _version = "1.1"  # of the request whose head came last
    _hosts: list[bytes] | None = None  # of the last request, if its Host is valid
    _due: asyncio.TimerHandle | None = None
    _whole: object = False  # the scope of the request that ended last
    _head = 0  # bytes of a head that is not whole, or of pieces since the last one with a part of the body
    _has_body = False  # the last piece had a part of a body
    _is_chunked = False
    _is_long = False  # more of the request may come than is read once it is answered
    _unread = 0  # bytes that may still come of a request that is answered
    _is_large = False  # a piece came that may hold a head over the limit: from then on heads are measured
    _fault: Problem | None = None  # what is wrong with a head that the parser takes
    _is_refused = False
    _blocked_at = 0.0
    _piece = b""  # what came last
    _received = 0  # bytes of callers without a key
    _held: asyncio.TimerHandle | None = None
    _is_known = False  # a request had a valid key
    _is_left = False  # the connection ends by itself
    _is_last = False  # the request that comes is the last one of its connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect the first request."""
        super().connection_made(cast("asyncio.Transport", Corked(transport, self.loop, self._lingers)))
        self.flow = self._flow = PacedFlow(cast("asyncio.Transport", self.transport))
        self._expect()
        self.callers.add(self, self.client[0] if self.client else "")
        if self.already_read:
            self.data_received(self.already_read)

    def data_received(self, data: bytes) -> None:
        """Expect the rest when a request is not whole; one that came in one piece costs no timer."""
        if self._is_refused:
            self._drop(len(data))
            return
        before = self._whole
        if self._head + len(data) > LONGEST_HEAD:
            self._is_large = True
        self._piece = data
        HttpToolsProtocol.data_received(self, data)
        if not self._is_known:
            self._pace(len(data))
        if self._whole is before or self._whole is not self.scope:
            self._expect_rest(0 if self._whole is not before else len(data))
        elif self._due is not None:
            self._forget()
            self._keep_alive()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._is_left = True
        self._piece = b""
        self._forget()
        if self._held is not None:
            self._held.cancel()
        self.callers.remove(self)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """Give the connection to the protocol of WebSockets; until it ends it is counted as before."""
        if not self._take_request():
            self.drop()
            return
        ended = partial(self.callers.remove, self)
        self.ws_protocol_class = partial(cast("Any", self.ws_protocol_class), ended=ended)  # type: ignore[assignment]
        super().handle_websocket_upgrade()

    @property
    def idle_since(self) -> float | None:
        """Since when it waits for its peer; None while a request is answered."""
        if self._is_left:
            return 0.0
        if self.flow.write_paused:  # the peer does not read its answer
            return self._blocked_at
        if self.cycle is not None and not self.cycle.response_complete and not self._waits_for_body():
            return None
        if self._due is not None:
            return self._due.when() - self.deadline
        keeping = self.timeout_keep_alive_task
        return keeping.when() - self.timeout_keep_alive if keeping is not None else self.loop.time()

    def pause_writing(self) -> None:
        """Note when the peer stopped to read its answer."""
        self._blocked_at = self.loop.time()
        super().pause_writing()

    def drop(self) -> None:
        """Close at once."""
        self._is_refused = self._is_left = True
        self.transport.abort()

    def on_headers_complete(self) -> None:
        """Start the request, unless its head is too long or can be understood in two ways."""
        self._fault = self._fault_of_head()
        if self._fault is not None:
            raise Refused
        if self._is_offer():
            return  # it begins again without the offer
        self._head = 0
        self._begin(self._taker())
        if self._is_chunked:
            self.headers = []  # what comes after the body is no header of the request: RFC 9110, section 6.5

    def on_body(self, body: bytes) -> None:
        """Gather the body."""
        self._has_body = True
        cycle: object = self.cycle
        if isinstance(cycle, Exchange):
            cycle.add(body)
        else:
            HttpToolsProtocol.on_body(self, body)

    def on_message_complete(self) -> None:
        """End the request."""
        if self._is_offer():
            return
        if self._is_chunked:
            self._head = 0
            self._fault = self._fault_of_trailers()
            if self._fault is not None:
                raise Refused
        self._whole = self.scope
        cycle: object = self.cycle
        if isinstance(cycle, Exchange) and cycle.scope is self.scope:
            cycle.run()
        else:
            HttpToolsProtocol.on_message_complete(self)

    @property
    def usual_fields(self) -> Sequence[Field]:
        """Fields of every answer's head."""
        return self.server_state.default_headers

    def soon(self, refusing: Exchange, error: Exception) -> None:
        """Have a request refused in the next turn: what came with it waits behind it, as behind any other."""
        self.loop.call_soon(refusing.refuse, error)

    def respond(self, answer: bytes, *, keep_alive: bool) -> None:
        """Write a whole answer, and go on with what waits behind it."""
        self.transport.write_whole(answer)
        if not keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self._is_long and cycle.scope is self.scope:
            app = self._closing_early(cycle, app)
        if cycle.scope["http_version"] == "1.0":
            app = _unchunked(cycle, app)
        super()._start_asgi_task(cycle, app)

    def _closing_early(self, cycle: RequestResponseCycle, app: Any) -> App:
        """Return an application whose answer, if it comes before the whole request, says that the connection closes."""

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            async def say(event: Event) -> None:
                if event["type"] == "http.response.start" and self.scope is scope and self._waits_for_body():
                    cycle.keep_alive = False
                await send(event)

            await app(scope, receive, say)

        return application

    def on_response_complete(self) -> None:
        """Go on with the connection; a request that is not whole yet gets little time for the rest."""
        if self._is_left:
            return
        HttpToolsProtocol.on_response_complete(self)
        if self._waits_for_body() and self.cycle.response_complete and not self.transport.is_closing():
            self._unread = _MOST_UNREAD
            self._forget()
            self._due = self.loop.call_later(_LINGER, self.transport.abort)

    def shutdown(self) -> None:
        """Close when all is answered; a new connection, once its first request is, or when none comes soon."""
        cycle: object = self.cycle
        if cycle is not None or self._is_refused:
            super().shutdown()
            return
        self._is_last = True
        self.loop.call_later(_GRACE, super().shutdown)

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser did not take."""
        known = self._fault
        self._refuse(known or problem(400, f"{msg} Nothing of it was stored.", hint=SPOKEN))

    def _unsupported_upgrade_warning(self) -> None:
        """Go on without the protocol that was offered (RFC 9110, section 7.8).

        The parser takes all that follows the head for the other protocol, a body too, and is at its end. So another
        one reads the same head without the offer, and what follows.
        """
        end = sys.exc_info()[1]
        if not self._is_offer() or end is None:
            return
        fields = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade"]
        version = self.parser.get_http_version().encode()
        head = b"%b %b HTTP/%b\r\n%b\r\n" % (self.parser.get_method(), self.url, version, b"".join(fields))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        HttpToolsProtocol.data_received(self, head + self._piece[end.args[0] :])

    def _is_offer(self) -> bool:
        """Whether this request offers another protocol that is not spoken here."""
        return (
            self.parser.should_upgrade()
            and self.parser.get_method() != b"CONNECT"
            and (self._version == "1.0" or self._get_upgrade() != _WEBSOCKET)
        )

    def _should_upgrade(self) -> bool:
        return not self._is_offer() and super()._should_upgrade()

    def _begin(self, taker: Taker | None) -> None:
        is_known = taker is not None or self.callers.has_credentials(self.headers)
        if is_known and not self._is_known:
            self._is_known = True
            self.callers.mark_known(self)
        if taker is None:
            self.scope[KNOWN] = is_known  # type: ignore[typeddict-unknown-key]
            HttpToolsProtocol.on_headers_complete(self)
            if self._is_last:
                self.cycle.keep_alive = False
            return
        parser = self.parser
        keep_alive = not self._is_last and self._version != "1.0" and parser.should_keep_alive()
        self.cycle = Exchange(self, taker, self.scope, keep_alive=keep_alive)  # type: ignore[assignment]

    def _taker(self) -> Taker | None:
        """Return who takes this request instead of the application.

        What waits for answers before it, or for a peer that reads none, needs a task that waits.
        """
        if self.endpoint is None or self.expect_100_continue or self.flow.write_paused or not self._is_free():
            return None
        if self.parser.should_upgrade():
            return None
        try:
            return self.endpoint.begin(self.parser.get_method(), self.url, self.headers)
        except Exception:  # noqa: BLE001 - here it would pass for a fault of the request
            _log.exception("what takes requests failed at a head; the application has this one")
            return None

    def _is_free(self) -> bool:
        """Whether everything before this request was answered."""
        return self.cycle is None or self.cycle.response_complete

    def _fault_of_head(self) -> Problem | None:
        """Return why a whole head is refused, and bring its target and Host into the form that applications expect.

        As a rule because a proxy in front of the bus may have understood it otherwise.
        """
        if self._is_large and self._head_size() > LONGEST_HEAD:
            return self._too_long()
        if len(self.pipeline) >= MOST_BEHIND:
            return _TOO_MANY_BEHIND
        self._version = version = self.parser.get_http_version()
        fault = (fault_of_version(version) if version != "1.1" else None) or self._fault_of_fields()
        if fault is None and self.url[:1] != b"/":
            fault = self._fault_of_target()
        if fault is None and self.parser.should_upgrade():
            fault = self._fault_of_upgrade()
        return fault

    def _fault_of_fields(self) -> Problem | None:
        """Return why the fields of a head are refused.

        White space behind values is taken away, which the parser leaves (RFC 9110, section 5.5).
        """
        self._is_chunked = self._is_long = False
        hosts: list[bytes] = []
        codings: list[bytes] = []
        for place, (name, value) in enumerate(self.headers):
            if value[-1:] in _SPACES:
                value = value.rstrip(b" \t")  # noqa: PLW2901 - as it is from here on
                self.headers[place] = (name, value)
                self.expect_100_continue |= name == b"expect" and value.lower() == b"100-continue"
            if name == b"host":
                hosts.append(value)
            elif name == b"content-length":
                self._is_long = int(value) > _MOST_UNREAD
            elif name == b"transfer-encoding":
                codings.append(value)
        if self._version == "1.0":
            self.expect_100_continue = False  # RFC 9110, section 10.1.1
        fault = None
        if codings:
            self._is_chunked = self._is_long = True
            fault = fault_of_codings(codings)
        if hosts != self._hosts:
            fault = fault or fault_of_hosts(hosts, self._version)
            self._hosts = hosts if fault is None and hosts else None
        return fault

    def _fault_of_target(self) -> Problem | None:
        """Return why a target that is no path is refused; a host that it names replaces Host."""
        target = target_of(self.parser.get_method(), self.url)
        if target is None:
            return BAD_TARGET
        self.url = target.origin
        if target.host:
            self.headers[:] = [(b"host", target.host), *(field for field in self.headers if field[0] != b"host")]
        return None

    def _fault_of_trailers(self) -> Problem | None:
        """Return why what comes after a chunked body is refused; the parser obeys trailers about the connection."""
        if _size_of(self.headers) > LONGEST_HEAD:
            return _LONG_TRAILERS
        return _BAD_TRAILER if any(name in _OF_CONNECTION for name, _ in self.headers) else None

    def _fault_of_upgrade(self) -> Problem | None:
        """Return why a connection does not become a WebSocket; any other upgrade that is offered is ignored.

        What uvicorn hands over is out of the reach of this protocol's deadline, so that it must be a whole handshake.
        """
        if self._version == "1.0" or self._get_upgrade() != _WEBSOCKET:
            return None
        names = {name for name, _ in self.headers}
        if (
            not self._is_free()
            or self.parser.get_method() != b"GET"
            or names & {b"content-length", b"transfer-encoding"}
        ):
            return _NO_HANDSHAKE
        longest = max(len(self.url), *(len(name) + len(value) for name, value in self.headers))
        if longest > _LONGEST_FIELD or len(self.headers) > _MOST_FIELDS:
            return _LONG_HANDSHAKE
        return self.upgrades.refusal(self.url, self.headers, self.client[0] if self.client else "")

    def _keep_alive(self) -> None:
        """Have a connection closed that stays idle after a request that was answered before it was whole."""
        cycle = self.cycle
        if cycle is not None and cycle.scope is self.scope and cycle.response_complete:
            self._unset_keepalive_if_required()
            after = self.timeout_keep_alive
            self.timeout_keep_alive_task = self.loop.call_later(after, self.timeout_keep_alive_handler)

    def _pace(self, size: int) -> None:
        """Read no further while the address's share of bytes is used up; the first head of a connection is read."""
        self._received += size
        if self._received <= _FIRST_HEAD or self._held is not None:
            return
        if wait := self.callers.pace(self, size):
            self._flow.hold()
            self._held = self.loop.call_later(wait, self._read_on)

    def _read_on(self) -> None:
        self._held = None
        if not self._is_left:
            self._flow.let_go()

    def _expect_rest(self, size: int) -> None:
        """Put an unfinished request under the deadline, and its head under the limit; ``size`` is what came of it."""
        if self._is_refused:
            return
        if not size:
            self._forget()
        has_body, self._has_body = self._has_body, False
        is_body = self._waits_for_body()
        self._head = 0 if is_body and has_body else self._head + size
        if is_body and self.cycle.response_complete:
            self._drop(size)
        elif self._head > LONGEST_HEAD:
            self._refuse(_LONG_TRAILERS if is_body else self._too_long())
        else:
            self._expect()

    def _waits_for_head(self) -> bool:
        """Whether a request began whose head is not whole."""
        return self._is_begun() and (self.cycle is None or self.cycle.scope is not self.scope)

    def _waits_for_body(self) -> bool:
        """Whether a request began whose head is whole, and whose body is not."""
        return self._is_begun() and self.cycle is not None and self.cycle.scope is self.scope

    def _is_begun(self) -> bool:
        return self.scope is not None and self.scope is not self._whole

    def _too_long(self) -> Problem:
        """Return the refusal of a head over the limit: it is the target's where that is the larger part."""
        return _LONG_TARGET if self._is_begun() and len(self.url) > LONGEST_HEAD // 2 else _TOO_LONG

    def _head_size(self) -> int:
        return len(self.url) + _size_of(self.headers)

    def _expect(self) -> None:
        if self._due is None:
            self._due = self.loop.call_later(self.deadline, self._late)

    def _forget(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _late(self) -> None:
        """Refuse a request that is not whole; a connection on which none began is closed without a word."""
        self._due = None
        if self.flow.read_paused:  # it may well have been sent
            self._expect()
        elif self._is_begun():
            detail = f"the request was not whole within {self.deadline:g} s; nothing of it was stored"
            self._refuse(problem(408, detail, hint="send it again"))
        else:
            self.transport.close()

    def _refuse(self, answer: Problem) -> None:
        """Read no further, and answer with the problem unless an answer to this request has begun."""
        self._is_refused = True
        self._unread = _MOST_UNREAD
        self._forget()
        cycle = self.cycle
        if self._waits_for_body():
            if self.pipeline:
                cycle.keep_alive = False
                self.pipeline[0] = (cycle, Refusal(answer))
                return
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self._leave()
                return
        elif cycle is not None and not cycle.response_complete:
            cycle.keep_alive = False  # it closes the connection when it has answered
            return
        if not self._take_request():
            self.drop()
            return
        is_head = self._is_begun() and bool(self.url) and self.parser.get_method() == b"HEAD"
        self.transport.write(_raw(answer, self.usual_fields, has_content=not is_head))
        self._leave()

    def _take_request(self) -> bool:
        """Take what no application answers from the share of the address; False if that is used up."""
        headers = cast("Any", self.scope)["headers"] if self._waits_for_body() else self.headers or ()
        peer = self.client[0] if self.client else ""
        return self._is_known or self.callers.has_credentials(headers) or self.callers.take_request(headers, peer)

    def _lingers(self) -> bool:
        """Whether a connection that is to be closed now ends by itself, since its peer may still send."""
        if not self._is_left and (self._is_refused or self._waits_for_body()):
            self._leave()
        return self._is_left

    def _drop(self, size: int) -> None:
        self._unread -= size
        if self._unread < 0:
            self.transport.pause_reading()

    def _leave(self) -> None:
        """Say no more, read little, and close the connection soon.

        Closing with unread data would reset the connection before the peer has read its answer.
        """
        if self._is_left:
            return
        self._is_refused = self._is_left = True
        self._unread = _MOST_UNREAD
        self._forget()
        self._unset_keepalive_if_required()
        self.transport.write_eof()
        self.transport.resume_reading()
        self.loop.call_later(_LINGER, self.transport.abort)


def _size_of(fields: Sequence[Field]) -> int:
    return sum(len(name) + len(value) + _BETWEEN for name, value in fields)


def _unchunked(cycle: RequestResponseCycle, app: Any) -> App:
    """Return an application whose answer of an unknown length ends with its connection.

    A client of HTTP/1.0 does not know chunks (RFC 9112, section 6.1).
    """

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        is_framed = True

        async def say(event: Event) -> None:
            nonlocal is_framed
            if event["type"] == "http.response.start":
                is_framed = any(name.lower() == b"content-length" for name, _ in event.get("headers", ()))
                cycle.chunked_encoding = None if is_framed else False
            elif not is_framed:
                cycle.expected_content_length = len(event.get("body", b""))
            await send(event)

        await app(scope, receive, say)

    return application


def _raw(answer: Problem, usual_fields: Sequence[Field], *, has_content: bool) -> bytes:
    content = msgspec.json.encode(answer)
    own = (
        (b"content-type", CONTENT_TYPE.encode()),
        (b"content-length", b"%d" % len(content)),
        (b"connection", b"close"),
    )
    lines = [b"%b: %b\r\n" % field for field in (*usual_fields, *fields_of(answer), *own)]
    return b"%b%b\r\n%b" % (STATUS_LINE[answer.status], b"".join(lines), content if has_content else b"")
