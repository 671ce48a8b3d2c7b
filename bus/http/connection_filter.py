"""Filters new connections before a parser is made for them."""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

import uvicorn
from uvicorn.server import ServerState

from bus.http.asgi import Field
from bus.http.protocol import HttpProtocol

_PATIENCE: Final = 1.0
_LOOKED_AT: Final = 8192


class ConnectionFilter(asyncio.Protocol):
    """Passes a connection to the HTTP protocol if its address may open one more, or if its first piece has a valid key.

    It closes all others: when the first piece has no valid key, after a second without a piece, or when too many
    connections wait. ``already_read`` has the bytes that another process read from the connection; the other parameters
    are those of ``serving``.
    """

    def __init__(
        self,
        serving: type[HttpProtocol],
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        already_read: bytes = b"",
    ) -> None:
        self._serving = serving
        self._given = config, server_state, app_state, _loop
        self._already_read = already_read
        self._transport: asyncio.Transport
        self._due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve the connection, or wait for its first piece."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if peer is None:  # the peer has reset the connection
            self._transport.abort()
        elif self._serving.callers.admits(peer[0] if peer else ""):
            self._serve(self._already_read, is_known=False)
        elif self._already_read:
            self.data_received(self._already_read)
        else:
            self._due = asyncio.get_running_loop().call_later(_PATIENCE, self.drop)
            self._serving.callers.wait(self)

    def data_received(self, data: bytes) -> None:
        """Serve the connection if its first piece has a valid key."""
        self._forget()
        if self._serving.callers.has_credentials(_fields_of(data)):
            self._serve(data, is_known=True)
        else:
            self._transport.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Stop the wait."""
        self._forget()

    def drop(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def _serve(self, already_read: bytes, *, is_known: bool) -> None:
        protocol = self._serving(*self._given)
        protocol.already_read, protocol.is_known = already_read, is_known
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)

    def _forget(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
            self._serving.callers.leave(self)


def _fields_of(piece: bytes) -> list[Field]:
    """Return the header fields in the first piece of a request."""
    lines = piece[:_LOOKED_AT].partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    parts = (line.partition(b":") for line in lines)
    return [(name.lower(), value.strip()) for name, _, value in parts]
