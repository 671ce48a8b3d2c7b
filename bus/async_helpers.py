"""Waiting for the first of several, and work that must not end before its time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

_log = logging.getLogger(__name__)
_PAUSE: Final = 1.0


async def first_of(*waits: Awaitable[object], within: float | None = None) -> None:
    """Return once one of these has ended, or after so many seconds; the others are cancelled and have ended by then."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def lasting(doing: str, work: Callable[[], Awaitable[None]], sleep: Callable[[float], Awaitable[None]]) -> None:
    """Do work until it returns or this task is cancelled, and again when it ends by anything else.

    Whatever ends it is a defect, and must not silence a subscription or a cluster for good; a cancellation that
    nobody asked for, as the client library passes on, would even do so without a word.
    """
    task = asyncio.current_task()
    while True:
        try:
            return await work()
        except asyncio.CancelledError:
            if task is None or task.cancelling():
                raise
            _log.warning("%s was cancelled, and nobody asked for that; it goes on", doing)
        except Exception:  # noqa: BLE001 - whatever it is, it is logged and the work goes on
            _log.exception("%s failed; it goes on", doing)
        await sleep(_PAUSE)
