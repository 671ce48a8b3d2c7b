"""Tells how long the event loop was held up, by whatever did not let it turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Self

_BUSY_EVERY: Final = 0.02
_IDLE_EVERY: Final = 0.25
_BUSY: Final = 0.05
"""The part of the time that the loop's thread computes beyond which it is looked at often."""
NOTED: Final = 0.005
"""Seconds; what holds the loop up for less is its usual work."""


class Watchdog:
    """A timer that tells how late it is, for as long as its block runs.

    It looks 50 times a second while the loop works, and 4 times while it rests, so that an idle bus stays idle. What
    holds the loop up for longer than the time between two looks is always seen, and told short by less than that time.

    Parameters
    ----------
    told
        Hears of seconds by which the timer was late, if they are ``NOTED`` or more.
    clock, cpu
        Seconds that pass, and seconds that this thread computes.
    """

    def __init__(
        self,
        told: Callable[[float], object],
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._told = told
        self._clock = clock
        self._cpu = cpu
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._looked_at = self._computed = 0.0

    def __enter__(self) -> Self:
        self._looked_at, self._computed = self._clock(), self._cpu()
        self._look_in(_BUSY_EVERY)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_in(self, seconds: float) -> None:
        self._due = self._looked_at + seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        now, computed = self._clock(), self._cpu()
        late = now - self._due
        if late >= NOTED:
            self._told(late)
        is_busy = computed - self._computed > _BUSY * (now - self._looked_at)
        self._looked_at, self._computed = now, computed
        self._look_in(_BUSY_EVERY if is_busy else _IDLE_EVERY)
