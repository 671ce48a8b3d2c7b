"""Waiting for whichever comes first, and work that must not end before its time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

_log = logging.getLogger(__name__)
_PAUSE: Final = 1.0
Value = TypeVar("Value")


async def cancelled_once(work: Coroutine[Any, Any, Value], *, within: float) -> Value:
    """Return what comes of work within so many seconds; it is cancelled at most once, and has ended when this returns.

    For libraries that use ``asyncio.wait_for``, which before Python 3.12 does not survive two cancellations, as of two
    deadlines: at the second it leaves while what it waits for still takes a lock back, which nobody gives up then. And
    when a result and a cancellation come in one turn of the loop, it loses the cancellation (CPython issue 86296).

    Raises
    ------
    TimeoutError
        It took longer. What the work raises is raised as it is.
    """
    task = asyncio.create_task(work)
    task.add_done_callback(noticed)
    try:
        await asyncio.wait({task}, timeout=within)
    finally:
        if not task.done():
            await _cancelled(task)
    if task.cancelled():
        raise TimeoutError
    return task.result()


def noticed(task: asyncio.Task[Any]) -> None:
    """Take notice of an error: whoever was cancelled meanwhile does not, and the loop would log it."""
    if not task.cancelled():
        task.exception()


async def _cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end, however often the caller is cancelled meanwhile; raise that after it."""
    task.cancel()
    interrupted: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted


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
