"""Reading that waits for two reasons: the application has enough, or the sender has used up its share."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl


class PacedFlow(FlowControl):
    """Reading goes on when neither reason holds any more."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._is_full = self._is_held = False

    def pause_reading(self) -> None:
        """Wait for the application."""
        self._is_full = True
        super().pause_reading()

    def resume_reading(self) -> None:
        """Wait for the application no more."""
        self._is_full = False
        if not self._is_held:
            super().resume_reading()

    def hold(self) -> None:
        """Wait for the share."""
        self._is_held = True
        super().pause_reading()

    def let_go(self) -> None:
        """Wait for the share no more."""
        self._is_held = False
        if not self._is_full:
            super().resume_reading()
