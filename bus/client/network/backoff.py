"""The time of the next try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_MOST_DOUBLINGS: Final = 30
LONGEST_RETRY_AFTER: Final = 600.0


class Backoff:
    """Exponential backoff with full jitter, without end; honours a Retry-After of up to 10 minutes.

    No wait is longer than ``first`` plus the time since the first failure. So after an outage the next attempt starts
    within the length of the outage plus ``first``.

    Parameters
    ----------
    first, longest
        Bounds in seconds of the waits after the first failure and after many.
    random
        Gives numbers in [0, 1).
    """

    def __init__(self, first: float, longest: float, random: Callable[[], float]) -> None:
        self._first = first
        self._longest = longest
        self._random = random
        self._asked = False
        self._since = 0.0
        self.failures = 0
        self.due = 0.0

    def fail(self, now: float, retry_after: float | None = None) -> None:
        """Count a failure and set when the next try is ``due``, in monotonic seconds."""
        if not self.failures:
            self._since = now
        doubled = self._first * 2.0 ** min(self.failures, _MOST_DOUBLINGS)
        bound = min(self._longest, doubled, self._first + now - self._since)
        self.failures += 1
        self._asked = retry_after is not None
        asked = min(retry_after or 0.0, LONGEST_RETRY_AFTER)
        self.due = now + asked + (self._first if self._asked else bound) * self._random()

    def succeed(self) -> None:
        """Forget the failures."""
        self.failures = 0
        self.due = 0.0
        self._asked = False

    def hurry(self) -> None:
        """Have the next try made now, unless the receiver asked to wait."""
        if not self._asked:
            self.due = 0.0
