"""The time by which things are given up."""

from __future__ import annotations

from collections import deque

from bus.ports.clock import Clock


class BelievedTime:
    """Wall time in which a jump ahead is believed only once it has lasted for ``patience`` seconds.

    It is the earliest that any reading within that time allows, so that a clock that is put ahead by mistake, and
    back again, has nothing fresh taken for old. It is read more often than once in ``patience`` seconds.

    A process that starts may find the clock ahead, as a host does before it has asked for the time: nothing is
    believed for ``at_start`` seconds, which are fewer, so that processes that are restarted often come to believe too.
    """

    def __init__(self, clock: Clock, patience: float, at_start: float) -> None:
        self._clock = clock
        self._patience = patience
        self._believes_from = clock.monotonic() + at_start
        self._readings: deque[tuple[float, int]] = deque()  # when, and how far the wall clock was before the other one
        self.now()

    def now(self) -> int | None:
        """Milliseconds since the epoch; None while no time is believed yet."""
        read_at = self._clock.monotonic()
        offset = self._clock.now() - round(read_at * 1000)
        while self._readings and self._readings[-1][1] >= offset:
            self._readings.pop()
        self._readings.append((read_at, offset))
        while self._readings[0][0] < read_at - self._patience:
            self._readings.popleft()
        return round(read_at * 1000) + self._readings[0][1] if read_at >= self._believes_from else None
