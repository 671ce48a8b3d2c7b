"""Time, so that tests can simulate it."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall time, monotonic time and sleep from one source."""

    def now(self) -> int:
        """Milliseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
