"""The WebSocket of a page; loaded when the first one is opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from bus.serving.sockets import Sockets


class PageSocket(WebSocketsSansIOProtocol):
    """uvicorn's protocol with a deadline until its handshake is done; it counts among the ``sockets`` till it ends.

    ``ended`` is called when the connection is gone.
    """

    def __init__(self, sockets: Sockets, deadline: float, ended: Callable[[], None], **fields: Any) -> None:
        super().__init__(**fields)
        self._ended = ended
        self._sockets = sockets
        self._deadline = deadline
        self._due: asyncio.TimerHandle | None = None
        self._holder: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Expect the handshake."""
        super().connection_made(transport)
        self._due = self.loop.call_later(self._deadline, self._late)

    def data_received(self, data: bytes) -> None:
        """Read on; close the connection when what came is no handshake, since uvicorn would not answer it."""
        super().data_received(data)
        if not self.handshake_initiated:
            self.transport.close()

    def handle_connect(self, event: Request) -> None:
        """Count the socket, and have it answered."""
        headers = [
            (name.lower().encode(), value.encode("latin-1", "replace")) for name, value in event.headers.raw_items()
        ]
        self._holder = self._sockets.holder(headers, self.client[0] if self.client else "")
        self._sockets.enter(self._holder)
        super().handle_connect(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline, and count the socket no more."""
        if self._due is not None:
            self._due.cancel()
        if self._holder is not None:
            self._sockets.leave(self._holder)
            self._holder = None
        self._ended()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the WebSocket in order once it has begun a handshake, else just the connection."""
        if self.handshake_initiated:
            super().shutdown()
        else:
            self.transport.close()

    def _late(self) -> None:
        self._due = None
        if not self.handshake_complete:
            self.transport.abort()
