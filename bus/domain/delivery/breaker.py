"""The circuit breaker of one subscription: stops spending attempts on a subscriber that is down."""

from __future__ import annotations

import enum
from collections import deque
from typing import Final

WINDOW: Final = 10.0
MINIMUM: Final = 20
FAILED_SHARE: Final = 0.9
REFUSED_IN_A_ROW: Final = 5
FIRST_PROBE: Final = 1.0
LONGEST_PROBE: Final = 30.0


class BreakerState(enum.IntEnum):
    """The values of the ``bus_breaker_state`` metric."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Breaker:
    """Opens at 20 results in 10 s of which 90 % failed, or at 5 refused connections in a row.

    A result is one of the endpoint, not of a message: an answer that refuses a message is a success. While the breaker
    is open one probe is let through after 1 s, then after waits that double to 30 s; a success closes it. A probe
    without a result delays the next one by 30 s at most. Once closed it judges shares only after as long as a first
    probe waits: an endpoint that fails with some messages and takes others is not held up longer than it is tried.
    Times are seconds of a monotonic clock, given by the caller.

    Attributes
    ----------
    opened_at
        Since when it has not been closed; of no meaning while it is.
    answered
        The status of the last failure; None when there was no answer.
    """

    def __init__(self) -> None:
        self.state = BreakerState.CLOSED
        self._results: deque[tuple[float, bool]] = deque()
        self._failed = 0
        self._refused = 0
        self._wait = FIRST_PROBE
        self._probe_at = 0.0
        self._judged_from = 0.0
        self.opened_at = 0.0
        self.answered: int | None = None

    def allows(self, now: float) -> bool:
        """Whether a request may start; taking the permission of a due probe makes the breaker half open."""
        if self.state is BreakerState.CLOSED:
            return True
        if now < self._probe_at:
            return False
        self.state = BreakerState.HALF_OPEN
        self._probe_at = now + LONGEST_PROBE
        return True

    def probe_in(self, now: float) -> float:
        """Return the seconds until a probe may start; 0 when the breaker is closed."""
        return 0.0 if self.state is BreakerState.CLOSED else max(0.0, self._probe_at - now)

    def succeeded(self, now: float) -> None:
        """Count a success; a success of the probe closes the breaker."""
        self._refused = 0
        if self.state is not BreakerState.CLOSED:
            self._close(now)
            return
        self._count(now, failed=False)

    def failed(self, now: float, *, refused: bool, status: int | None = None) -> None:
        """Count a failure; a failure of the probe doubles the wait.

        Parameters
        ----------
        refused
            Whether the connection was refused.
        status
            Status of the answer; None without an answer.
        """
        self.answered = status
        if self.state is BreakerState.HALF_OPEN:
            self._wait = min(self._wait * 2, LONGEST_PROBE)
            self._open(now)
            return
        if self.state is BreakerState.OPEN:
            return
        self._refused = self._refused + 1 if refused else 0
        self._count(now, failed=True)
        if self._refused >= REFUSED_IN_A_ROW or (now >= self._judged_from and self._mostly_failed()):
            self._open(now)

    def abandoned(self, now: float) -> None:
        """Take back a probe that ended without a result (a shutdown, a message that needed no POST)."""
        if self.state is BreakerState.HALF_OPEN:
            self.state = BreakerState.OPEN
            self._probe_at = now

    def _mostly_failed(self) -> bool:
        return len(self._results) >= MINIMUM and self._failed >= FAILED_SHARE * len(self._results)

    def _count(self, now: float, *, failed: bool) -> None:
        self._results.append((now, failed))
        self._failed += failed
        while self._results[0][0] < now - WINDOW:
            self._failed -= self._results.popleft()[1]

    def _open(self, now: float) -> None:
        if self.state is BreakerState.CLOSED:
            self.opened_at = now
        self.state = BreakerState.OPEN
        self._probe_at = now + self._wait
        self._results.clear()
        self._failed = self._refused = 0

    def _close(self, now: float) -> None:
        self.state = BreakerState.CLOSED
        self._judged_from = now + FIRST_PROBE
        self._wait = FIRST_PROBE
        self._results.clear()
        self._failed = self._refused = 0
