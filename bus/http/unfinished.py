"""The time and the bytes that the rest of a request may take, before it is answered and after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from bus.http.corked_transport import CorkedTransport

MOST_UNREAD: Final = 65_536
"""Bytes of a request that are read, and dropped, once it is answered."""
_LINGER: Final = 1.0  # seconds in which a peer that still sends may read its answer


class UnfinishedRequest:
    """The request of a connection that is not whole; ``late`` is called at its deadline, whose timer is ``due``."""

    __slots__ = ("_deadline", "_late", "_loop", "_transport", "_unread", "due")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: CorkedTransport, deadline: float, late: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._deadline = deadline
        self._late = late
        self._unread = MOST_UNREAD
        self.due: asyncio.TimerHandle | None = None

    def expect(self) -> None:
        """Let the deadline run, if none does."""
        if self.due is None:
            self.due = self._loop.call_later(self._deadline, self._late)

    def forget(self) -> None:
        """Expect nothing more."""
        self._unread = MOST_UNREAD
        if self.due is not None:
            self.due.cancel()
            self.due = None

    def linger(self) -> None:
        """Close the connection soon: at once, unread data would reset it before the peer has read its answer."""
        self.forget()
        self.due = self._loop.call_later(_LINGER, self._transport.abort)

    def drop(self, size: int) -> None:
        """Drop bytes that came after the answer; read no further when they are too many."""
        self._unread -= size
        if self._unread < 0:
            self._transport.pause_reading()
