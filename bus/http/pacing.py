"""Reading that waits for two reasons: the application has enough, or the sender has used up its share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from uvicorn.protocols.http.flow_control import FlowControl

_FIRST_HEAD: Final = 4096  # bytes of a connection that are read at once, though its address sends too many


class PacedFlow(FlowControl):
    """Reading goes on when neither reason holds any more, unless the connection ``is_over``."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, is_over: Callable[[], bool]
    ) -> None:
        super().__init__(transport)
        self._loop = loop
        self._is_over = is_over
        self._is_full = False
        self._received = 0  # bytes of callers without a key
        self._held: asyncio.TimerHandle | None = None

    def pause_reading(self) -> None:
        """Wait for the application."""
        self._is_full = True
        super().pause_reading()

    def resume_reading(self) -> None:
        """Wait for the application no more."""
        self._is_full = False
        if self._held is None:
            super().resume_reading()

    def counts(self, size: int) -> bool:
        """Whether bytes of a caller without a key are of its share: the first head of a connection is not."""
        self._received += size
        return self._received > _FIRST_HEAD and self._held is None

    def hold(self, seconds: float) -> None:
        """Wait so long for the share."""
        if seconds:
            super().pause_reading()
            self._held = self._loop.call_later(seconds, self._let_go)

    def forget(self) -> None:
        """Wait for the share no more, and read nothing."""
        if self._held is not None:
            self._held.cancel()

    def _let_go(self) -> None:
        self._held = None
        if not self._is_full and not self._is_over():
            super().resume_reading()
