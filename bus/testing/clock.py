"""Simulated time: it stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Final

NOON: Final = 1_795_262_400_000
"""2026-11-21T12:00:00Z, where a clock begins."""
_MOST_TURNS: Final = 100_000
_MICROSECONDS: Final = 1_000_000


class ManualClock:
    """The ``Clock`` that a test moves; nothing waits for real.

    Sleepers wake in the order of their times, and each has the loop to itself before the next one wakes. What waits
    for something else than this clock (a thread, a socket) is not waited for: use it with adapters in memory.

    Parameters
    ----------
    now
        Milliseconds since the epoch at the start.
    """

    def __init__(self, now: int = NOON) -> None:
        self._wall = now * 1000
        self._elapsed = 1000 * _MICROSECONDS
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return self._wall // 1000

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._elapsed / _MICROSECONDS

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved that far; a wait above zero takes a microsecond at least."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due = self._elapsed + max(1, round(seconds * _MICROSECONDS))
        heapq.heappush(self._sleepers, (due, next(self._order), wake))
        await wake

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock forward or back, as an operator does; monotonic time goes on as it was."""
        self._wall += milliseconds * 1000

    def suspend(self, seconds: float) -> None:
        """Let time pass while nobody runs, as for a process that is suspended; who slept wakes late."""
        self._elapsed += round(seconds * _MICROSECONDS)
        self._wall += round(seconds * _MICROSECONDS)

    async def settle(self) -> None:
        """Let every task run as far as it comes without time moving.

        Raises
        ------
        AssertionError
            Some task never comes to rest: it is busy doing nothing.
        """
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        if ready is None:
            raise RuntimeError("simulated time needs the event loop of asyncio itself")
        for _ in range(_MOST_TURNS):
            await asyncio.sleep(0)
            if not ready:
                return
        raise AssertionError("a task spins: the event loop never comes to rest")

    async def advance(self, seconds: float) -> None:
        """Move on; whoever sleeps until then wakes at his time."""
        end = self._elapsed + round(seconds * _MICROSECONDS)
        await self.settle()
        while (due := self._next()) is not None and due <= end:
            await self._wake(due)
        self._move(end)
        await self.settle()

    async def until(self, condition: Callable[[], object], *, within: float = 3600.0) -> None:
        """Move on from sleeper to sleeper until the condition is true.

        Raises
        ------
        AssertionError
            It is not true after ``within`` simulated seconds, or nobody sleeps any more.
        """
        end = self._elapsed + round(within * _MICROSECONDS)
        await self.settle()
        while not condition():
            due = self._next()
            if due is None or due > end:
                raise AssertionError(f"not true within {within:g} simulated seconds")
            await self._wake(due)

    @property
    def sleepers(self) -> int:
        """How many sleep now."""
        self._next()
        return sum(not wake.done() for _, _, wake in self._sleepers)

    def _next(self) -> int | None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    async def _wake(self, due: int) -> None:
        self._move(due)
        heapq.heappop(self._sleepers)[2].set_result(None)
        await self.settle()

    def _move(self, elapsed: int) -> None:
        self._wall += max(0, elapsed - self._elapsed)
        self._elapsed = max(self._elapsed, elapsed)
