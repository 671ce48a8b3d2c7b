"""Token buckets: so many a second, and so many at once."""

from __future__ import annotations


class TokenBucket:
    """Lets ``rate`` things a second through; None lets everything through. Times are monotonic seconds.

    ``burst`` is how many pass at once after a while without any, None for one second's worth.
    """

    def __init__(self, rate: float | None, burst: int | None = None) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = self._most(rate) if rate is not None else 0.0
        self._seen = 0.0

    @property
    def rate(self) -> float | None:
        """The rate in force."""
        return self._rate

    def change(self, rate: float | None, burst: int | None = None) -> None:
        """Set another rate; takes effect at the next call."""
        if (rate, burst) != (self._rate, self._burst):
            self._rate, self._burst = rate, burst
            self._tokens = min(self._tokens, self._most(rate)) if rate is not None else 0.0

    def available(self, now: float, most: int) -> int:
        """Return how many of ``most`` could pass now."""
        if self._rate is None:
            return most
        self._refill(now, self._rate)
        return max(0, min(most, int(self._tokens)))

    def take(self, count: int) -> None:
        """Spend tokens; more than are there makes later calls wait."""
        if self._rate is not None:
            self._tokens -= count

    def wait(self, now: float) -> float:
        """Return the seconds until at least one may pass."""
        if self._rate is None:
            return 0.0
        self._refill(now, self._rate)
        if self._tokens >= 1:
            return 0.0
        return (1 - self._tokens) / self._rate if self._rate > 0 else 1.0

    def _refill(self, now: float, rate: float) -> None:
        elapsed = max(0.0, now - self._seen) if self._seen else 0.0
        self._tokens = min(self._most(rate), self._tokens + elapsed * rate)
        self._seen = now

    def _most(self, rate: float) -> float:
        return max(1.0, rate) if self._burst is None else float(self._burst)
