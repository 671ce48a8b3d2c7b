"""The HTTP protocol: requests arrive within a deadline and limits; every refusal is a problem document."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from bus.http import heads
from bus.http.asgi import Field, Refusal
from bus.http.corked_transport import CorkedTransport
from bus.http.endpoint import Endpoint, Exchange, RequestHandler, refusal_of
from bus.http.framing import closing, unchunked
from bus.http.pacing import PacedFlow
from bus.http.policies import KNOWN, CallerPolicy, UpgradePolicy
from bus.http.problem import Problem, problem
from bus.http.unfinished import MOST_UNREAD, UnfinishedRequest

_log = logging.getLogger(__name__)
_GRACE: Final = 0.5  # seconds that a stop leaves a new connection for a request that may be on its way
MOST_BEHIND: Final = 16
"""Pipelined requests that may wait on a connection; after one more it is closed once these are answered."""
_TOO_MANY_BEHIND: Final = problem(
    429, f"more than {MOST_BEHIND} requests wait on this connection", hint="send it again once there are answers"
)


class ParsingRefused(Exception):
    """Ends the parsing of a request."""


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a deadline for receiving a request and a limit of its head, and with whole responses.

    Subclass it with the ``deadline`` in seconds, the policies for ``callers`` and for ``upgrades`` to WebSockets, and
    the ``endpoint`` that takes some requests before the application. A request that is refused before anybody sees it
    whole (400, 408, 414, 431) is answered behind those before it, and its connection closed. There is no answer to one
    without a whole head while those are not answered, nor over the share of an address without a valid key.

    Of a request that is answered before it is whole, little more is read; if it is not whole soon, its connection is
    closed. Trailers have the limit of a head and are dropped.

    What runs for every request calls its parent by name, which is half the cost of ``super()``.
    """

    deadline: float
    callers: CallerPolicy
    upgrades: UpgradePolicy
    endpoint: Endpoint | None = None
    transport: CorkedTransport  # type: ignore[assignment]
    flow: PacedFlow
    cycle: Any  # uvicorn's, or an Exchange
    already_read = b""  # bytes of this connection that were read before this protocol was made
    is_known = False  # a request had a valid key
    url = b""
    _version = "1.1"  # of the request whose head came last
    _unfinished: UnfinishedRequest
    _peer = ""  # its address
    _whole: object = None  # the scope of the request that ended last
    _head = 0  # bytes of a head that is not whole, or of pieces since the last one with a part of the body
    _has_body = False  # the last piece had a part of a body
    _length: int | None = 0  # of the body that the last head tells of; None when it is chunked
    _is_offer = False  # the last head offers another protocol that is not spoken here
    _is_large = False  # a piece came that may hold a head over the limit: from then on heads are measured
    _fault: Problem | None = None  # what is wrong with a head that the parser takes
    _is_refused = False
    _blocked_at = 0.0
    _piece = b""  # what came last
    _is_left = False  # the connection ends by itself
    _is_last = False  # the request that comes is the last one of its connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect the first request."""
        super().connection_made(cast("asyncio.Transport", CorkedTransport(transport, self.loop, self._lingers)))
        self.flow = PacedFlow(cast("asyncio.Transport", self.transport), self.loop, lambda: self._is_left)
        self._peer = self.client[0] if self.client else ""
        self._unfinished = UnfinishedRequest(self.loop, self.transport, self.deadline, self._late)
        self._unfinished.expect()
        self.callers.add(self, self._peer, is_known=self.is_known)
        if self.already_read:
            self.data_received(self.already_read)

    def data_received(self, data: bytes) -> None:
        """Expect the rest when a request is not whole; one that came in one piece costs no timer."""
        if self._is_refused:
            self._unfinished.drop(len(data))
            return
        if self.scope is not None and not self._is_begun() and not data.strip(b"\r\n"):
            self._pace(len(data))
            return  # empty lines between requests are ignored (RFC 9112, section 2.2)
        before = self._whole
        if self._head + len(data) > heads.LONGEST_HEAD:
            self._is_large = True
        self._piece = data
        HttpToolsProtocol.data_received(self, data)
        self._piece = b""
        self._pace(len(data))
        if self._whole is before or self._whole is not self.scope:
            self._expect_rest(len(data) if self._whole is before else 0)
        elif self._unfinished.due is not None:
            self._unfinished.forget()
            self._keep_alive()

    def _pace(self, size: int) -> None:
        if not (self.is_known or self._is_left) and self.flow.counts(size):
            self.flow.hold(self.callers.pace(self, size))

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._is_left = True
        self._unfinished.forget()
        self.flow.forget()
        self.callers.remove(self)
        super().connection_lost(exc)
        self._drop_body()
        self.pipeline.clear()
        self.headers = []

    def handle_websocket_upgrade(self) -> None:
        """Give the connection to the protocol of WebSockets; until it ends it is counted as before."""
        if self._is_admitted():
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
        if self._unfinished.due is not None:
            return self._unfinished.due.when() - self.deadline
        keeping = self.timeout_keep_alive_task
        return keeping.when() - self.timeout_keep_alive if keeping is not None else self.loop.time()

    def pause_writing(self) -> None:
        """Note when the peer stopped to read its answer."""
        self._blocked_at = self.loop.time()
        super().pause_writing()

    def drop(self) -> None:
        """Close at once."""
        self._is_refused = self._is_left = True
        self._unfinished.forget()
        self.transport.abort()

    def on_headers_complete(self) -> None:
        """Start the request, unless its head is too long or can be understood in two ways."""
        self._fault = self._fault_of_head()
        if self._fault is not None:
            raise ParsingRefused
        if self._is_offer:
            return  # it begins again without the offer
        self._head = 0
        self._begin(self._taker())
        if self._length is None:
            self.headers = []  # what comes after the body is no header of the request: RFC 9110, section 6.5

    def on_body(self, body: bytes) -> None:
        """Gather the body."""
        self._has_body = True
        if isinstance(self.cycle, Exchange):
            self.cycle.add(body)
        else:
            HttpToolsProtocol.on_body(self, body)

    def on_message_complete(self) -> None:
        """End the request."""
        if self._is_offer:
            return
        if self._length is None:
            self._head = 0
            self._fault = heads.fault_of_trailers(self.headers)
            if self._fault is not None:
                raise ParsingRefused
        self._whole = self.scope
        if isinstance(self.cycle, Exchange) and self.cycle.scope is self.scope:
            self.cycle.run()
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
        if cycle.scope["http_version"] == "1.0":
            app = unchunked(app, cycle)
        elif cycle.scope is self.scope and (self._length is None or self._length > MOST_UNREAD):
            app = closing(app, cycle, lambda: self.cycle is cycle and self._waits_for_body())
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Go on with the connection; a request that is not whole yet gets little time for the rest."""
        if self._is_free():
            self._drop_body()
        if self._is_left:
            return
        HttpToolsProtocol.on_response_complete(self)
        if self._waits_for_body() and self.cycle.response_complete and not self.transport.is_closing():
            self._unfinished.linger()

    def _drop_body(self) -> None:
        """Release the body: a closed connection stays in memory until the garbage collector runs."""
        if self.cycle is not None:
            self.cycle.body = bytearray()

    def shutdown(self) -> None:
        """Close when all is answered; a new connection, once its first request is, or when none comes soon."""
        if self.cycle is not None or self._is_refused:
            super().shutdown()
            return
        self._is_last = True
        self.loop.call_later(_GRACE, super().shutdown)

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser did not take."""
        self._refuse(self._fault or problem(400, f"{msg} Nothing of it was stored.", hint=heads.SPOKEN))

    def _unsupported_upgrade_warning(self) -> None:
        """Go on without the protocol that was offered (RFC 9110, section 7.8).

        The parser takes all that follows the head for the other protocol, a body too, and is at its end. So another
        one reads the same head without the offer, and what follows.
        """
        end = sys.exc_info()[1]
        if not self._is_offer or end is None:
            return
        head = heads.without_upgrade(self.parser.get_method(), self.url, self._version, self.headers)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._piece = head + self._piece[end.args[0] :]
        HttpToolsProtocol.data_received(self, self._piece)

    def _should_upgrade(self) -> bool:
        return not self._is_offer and super()._should_upgrade()

    def _begin(self, taker: RequestHandler | None) -> None:
        is_known = taker is not None or self.callers.has_credentials(self.headers)
        if is_known and not self.is_known:
            self.is_known = True
            self.callers.mark_known(self)
        if taker is None:
            self.scope[KNOWN] = is_known  # type: ignore[typeddict-unknown-key]
            HttpToolsProtocol.on_headers_complete(self)
            if self._is_last and self.cycle is not None:  # it is for a WebSocket
                self.cycle.keep_alive = False
            return
        keep_alive = not self._is_last and self._version != "1.0" and self.parser.should_keep_alive()
        self.cycle = Exchange(self, taker, self.scope, keep_alive=keep_alive)

    def _taker(self) -> RequestHandler | None:
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
        if self._is_large and heads.size_of(self.headers) + len(self.url) > heads.LONGEST_HEAD:
            return heads.too_long(self.url)
        if len(self.pipeline) >= MOST_BEHIND:
            return _TOO_MANY_BEHIND
        self._is_offer = False
        self._version = self.parser.get_http_version()
        fault, self._length, self.expect_100_continue = heads.read_fields(self.headers, self._version)
        if fault is None and self.url[:1] != b"/":
            self.url, fault = heads.origin_of(self.parser.get_method(), self.url, self.headers)
        if fault is None and self.parser.should_upgrade():
            fault = self._fault_of_upgrade()
        return fault

    def _fault_of_upgrade(self) -> Problem | None:
        """Return why a connection does not become a WebSocket; any other upgrade that is offered is ignored.

        What uvicorn hands over is out of the reach of this protocol's deadline, so that it must be a whole handshake.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            return heads.NO_TUNNEL
        if self._version == "1.0" or self._get_upgrade() != b"websocket":
            self._is_offer = True
            return None
        fault = heads.fault_of_handshake(method, self.url, self.headers) if self._is_free() else heads.NO_HANDSHAKE
        return fault or self.upgrades.refusal(self.url, self.headers, self._peer)

    def _keep_alive(self) -> None:
        """Have a connection closed that stays idle after a request that was answered before it was whole."""
        cycle = self.cycle
        if cycle is not None and cycle.scope is self.scope and cycle.response_complete:
            self._unset_keepalive_if_required()
            after = self.timeout_keep_alive
            self.timeout_keep_alive_task = self.loop.call_later(after, self.timeout_keep_alive_handler)

    def _expect_rest(self, size: int) -> None:
        """Put an unfinished request under the deadline, and its head under the limit; ``size`` is what came of it."""
        if self._is_refused:
            return
        if not size:
            self._unfinished.forget()
            self._is_large = True  # how much of the piece belongs to the head is not known
        has_body, self._has_body = self._has_body, False
        is_body = self._waits_for_body()
        self._head = 0 if is_body and has_body else self._head + size
        if is_body and self.cycle.response_complete:
            self._unfinished.drop(size)
        elif self._head > heads.LONGEST_HEAD:
            self._refuse(heads.LONG_TRAILERS if is_body else heads.too_long(self.url if self._is_begun() else b""))
        else:
            self._unfinished.expect()

    def _waits_for_body(self) -> bool:
        """Whether a request began whose head is whole, and whose body is not."""
        return self._is_begun() and self.cycle is not None and self.cycle.scope is self.scope

    def _is_begun(self) -> bool:
        return self.scope is not self._whole

    def _late(self) -> None:
        """Refuse a request that is not whole; a connection on which none began is closed without a word."""
        self._unfinished.forget()
        if self.flow.read_paused:  # it may well have been sent
            self._unfinished.expect()
        elif self._is_begun():
            detail = f"the request was not whole within {self.deadline:g} s; nothing of it was stored"
            self._refuse(problem(408, detail, hint="send it again"))
        else:
            self.transport.close()

    def _refuse(self, answer: Problem) -> None:
        """Read no further, and answer with the problem unless an answer to this request has begun."""
        self._is_refused = True
        self._unfinished.forget()
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
        if not self._is_admitted():
            return
        # The parser reads the method first; how much of the rest it has read depends on where a piece ends.
        is_head = self._is_begun() and self.parser.get_method() == b"HEAD"
        self.transport.write(refusal_of(answer, self.usual_fields, has_content=not is_head))
        self._leave()

    def _is_admitted(self) -> bool:
        """Take what no application answers from the share of the address; drop the connection if that is used up."""
        headers = cast("Any", self.scope)["headers"] if self._waits_for_body() else self.headers or ()
        if self.is_known or self.callers.has_credentials(headers) or self.callers.take_request(headers, self._peer):
            return True
        self.drop()
        return False

    def _lingers(self) -> bool:
        """Whether a connection that is to be closed now ends by itself, since its peer may still send."""
        if not self._is_left and (self._is_refused or self._waits_for_body()):
            self._leave()
        return self._is_left

    def _leave(self) -> None:
        """Say no more, read little, and close the connection soon."""
        self.headers = []
        self._is_refused = self._is_left = True
        self._unset_keepalive_if_required()
        self.transport.write_eof()
        self.transport.resume_reading()
        self._unfinished.linger()
