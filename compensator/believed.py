"""The time by which data is dropped and deliveries count as stuck, robust against a clock that jumps ahead."""

from __future__ import annotations

from collections import deque

from bus.ports.clock import Clock


class BelievedTime:
    """Wall time in which a jump ahead is accepted only once it has lasted for ``patience`` seconds.

    It uses the lowest offset between wall clock and monotonic clock within that time, so that nothing fresh is taken
    for old when the clock is put ahead by mistake and back again. ``now`` must be called more often than once in
    ``patience`` seconds.

    The clock may be ahead when a process starts, as on a host that has not yet synchronized it, so no time is accepted
    for ``at_start`` seconds; these are fewer, so that a process that is often restarted gets a time too.
    """

    def __init__(self, clock: Clock, patience: float, at_start: float) -> None:
        self._clock = clock
        self._patience = patience
        self._believes_from = clock.monotonic() + at_start
        self._readings: deque[tuple[float, int]] = deque()  # monotonic seconds, and the wall clock's offset to it (ms)
        self.now()

    def now(self) -> int | None:
        """Milliseconds since the epoch; None while no time is accepted yet."""
        read_at = self._clock.monotonic()
        offset = self._clock.now() - round(read_at * 1000)
        while self._readings and self._readings[-1][1] >= offset:
            self._readings.pop()
        self._readings.append((read_at, offset))
        while self._readings[0][0] < read_at - self._patience:
            self._readings.popleft()
        return round(read_at * 1000) + self._readings[0][1] if read_at >= self._believes_from else None
