"""Has something done again when the reason that held it up is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from bus.ports.clock import Clock


class Reminder:
    """Calls back at the end of a wait, of several at the first one's.

    Parameters
    ----------
    again
        What is called.
    """

    def __init__(self, clock: Clock, again: Callable[[], None]) -> None:
        self._clock = clock
        self._again = again
        self._group: asyncio.TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None
        self._at = 0.0

    def start(self, group: asyncio.TaskGroup) -> None:
        """Wait in tasks of this group; before, nothing is remembered."""
        self._group = group

    def stop(self) -> None:
        """Call back no more for what was asked before."""
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """Call back no more, whatever is asked."""
        self.stop()
        self._group = None

    def after(self, now: float, seconds: float) -> None:
        """Call back after some seconds; ``now`` is monotonic."""
        self.when(now + seconds, partial(self._clock.sleep, seconds))

    def when(self, at: float, wait: Callable[[], Awaitable[None]]) -> None:
        """Call back when the wait is over, at about ``at`` (monotonic), unless it is called back earlier anyway."""
        if self._group is None or (self._task is not None and not self._task.done() and self._at <= at):
            return
        self.stop()
        self._at = at
        self._task = self._group.create_task(self._wait(wait))

    async def _wait(self, wait: Callable[[], Awaitable[None]]) -> None:
        await wait()
        self._task = None
        self._again()
