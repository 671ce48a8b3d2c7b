"""The machine's own time."""

from __future__ import annotations

import asyncio
import time
from typing import Final

# Goes on while the machine is suspended, where there is such a clock.
_STEADY: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The ``Clock`` of production."""

    def now(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that never go back; those count in which the machine was suspended."""
        return time.clock_gettime(_STEADY)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
