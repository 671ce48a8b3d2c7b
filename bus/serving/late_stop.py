"""Tells what a stop waits for when it takes too long: a process that hangs without a word cannot be mended."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

_log = logging.getLogger(__name__)


def tell_when_late(after: float) -> None:
    """Log the tasks that are left, and where each of them stands, should the loop still run in so many seconds."""
    asyncio.get_running_loop().call_later(after, _tell, after)


def _tell(after: float) -> None:
    left = sorted(_place(task.get_coro()) for task in asyncio.all_tasks())
    _log.warning("the stop takes more than %g s; nothing accepted is lost if it is killed; it waits at %s", after, left)


def _place(awaited: Any) -> str:
    """Return where a coroutine is suspended, from the outside in."""
    places: list[str] = []
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        places.append(f"{frame.f_globals.get('__name__')}:{frame.f_lineno}")
        awaited = awaited.cr_await
    return " > ".join(places)
