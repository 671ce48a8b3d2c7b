"""A transport whose writes of one turn of the event loop leave together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class CorkedTransport:
    """A transport that joins all writes of one turn of the event loop into one.

    uvicorn writes a response's head and its body apart, which costs a system call and a packet more. ``lingers`` is
    asked before it is closed: whether somebody else will close it.
    """

    __slots__ = ("_lingers", "_loop", "_pieces", "_transport")

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, lingers: Callable[[], bool]
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._lingers = lingers
        self._pieces: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write at the end of this turn."""
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)

    def write_whole(self, data: bytes) -> None:
        """Write what is waiting, and this behind it, without another callback."""
        self._pieces.append(data)
        self._flush()

    def write_eof(self) -> None:
        """Write what is waiting, then close the one direction."""
        self._flush()
        self._transport.write_eof()

    def close(self) -> None:
        """Write what is waiting, then close, unless the connection lingers."""
        self._flush()
        if not self._lingers():
            self._transport.close()

    def is_written(self) -> bool:
        """Whether the system has all that was written; what waits for the end of this turn has to wait no more."""
        self._flush()
        return self._transport.get_write_buffer_size() == 0

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces and not self._transport.is_closing():  # a peer may be gone since
            self._transport.write(b"".join(pieces))
