"""Whether this process runs without a break: one that stood still may have been taken for gone."""

from __future__ import annotations

from typing import Final

from bus.ports.clock import Clock

BEAT: Final = 0.25
"""Seconds between two beats."""
# Less than a probe waits for an answer, so that a process that was declared gone has noticed that it stood still.
_GAP: Final = 0.9


class Pulse:
    """Notices when this process was stopped for longer than others wait for an answer; says so until ``forgive``.

    Standing still is a suspended process or machine, or an event loop that was held up.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._beaten_at = clock.monotonic()
        self._doubts = self._forgiven = 0

    @property
    def is_steady(self) -> bool:
        """Whether it has run without a break since ``forgive``."""
        return self._forgiven == self._doubts and self._clock.monotonic() - self._beaten_at <= _GAP

    def beat(self) -> int:
        """Note that it runs; return how often it stood still so far."""
        now = self._clock.monotonic()
        self._doubts += now - self._beaten_at > _GAP
        self._beaten_at = now
        return self._doubts

    def doubt(self) -> None:
        """Take it for one that stood still, as the others did."""
        self._doubts += 1

    def forgive(self, doubts: int) -> None:
        """Forget that it stood still so often: whether the others took it for gone is known by now."""
        self._forgiven = max(self._forgiven, doubts)
