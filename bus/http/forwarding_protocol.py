"""The protocol of a process that serves a part of its port's requests: other connections go where they are served."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from bus.http.problem import problem
from bus.http.protocol import HttpProtocol, ParsingRefused

_ELSEWHERE: Final = problem(
    421, "this request is served by another process of the bus", hint="send it on a connection of its own"
)
_AWAY: Final = problem(503, "the process that serves pages and admin is being started", hint="send it again")


class PeerForwarder(Protocol):
    """Where connections go whose request is not served here."""

    def serves(self, target: bytes) -> bool:
        """Whether a request is served here."""
        ...

    def pass_on(self, connection: int, read: bytes) -> bool:
        """Give a connection away, by its descriptor, with what was read of it; False when that cannot be."""
        ...


class ForwardingProtocol(HttpProtocol):
    """``HttpProtocol`` on the port that several processes share; on any other it is that and nothing more.

    A connection is given away at the head of the first request that is not served here, and stays there. One whose
    request came in one piece with another is refused (421), as a client that sends ahead expects of its requests.
    """

    elsewhere: PeerForwarder
    shared_port: int
    _is_shared = False
    _read: list[bytes] | None = None  # all of the request that is being read; None when it began within a piece
    _begun = 0  # requests that have begun since
    _moves = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Find out on which port the peer has come."""
        here = transport.get_extra_info("sockname")
        self._is_shared = bool(here) and here[1] == self.shared_port
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Keep what a request began with until it is known who serves it."""
        if self._is_shared:
            if not self._is_begun():
                self._read, self._begun = [data], 0
            elif self._waits_for_body():
                self._read = None
            elif self._read is not None:
                self._read.append(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Count requests that came in one piece."""
        self._begun += 1
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Serve the request, or end the parsing here."""
        if self._is_shared and not self.elsewhere.serves(self.url):
            self._moves = True
            raise ParsingRefused
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Give the connection away, if that is why the parsing has ended."""
        if not self._moves:
            super().send_400_response(msg)
        elif self._read is None or self._begun != 1 or not self._is_free() or not self.transport.is_written():
            self._refuse(_ELSEWHERE)
        elif self._give_away(b"".join(self._read)):
            if self.callers.has_credentials(self.headers):
                self.callers.mark_known(self)
            self.drop()
        else:
            self._refuse(_AWAY)

    def _give_away(self, read: bytes) -> bool:
        self.transport.pause_reading()
        connection = self.transport.get_extra_info("socket").fileno()
        return self.elsewhere.pass_on(connection, read)
