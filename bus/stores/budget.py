"""The rate of writes to the store: in all, and of each destination."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bus.domain.delivery.rate import TokenBucket

StoreRates = Callable[[str], float | None]


class Budget:
    """Both rates are asked for whenever something is about to be claimed, so that they can be changed meanwhile.

    Parameters
    ----------
    total
        Writes a second for this process; None for no limit.
    rate_of
        Writes a second for a destination; None for no limit.
    """

    def __init__(self, total: Callable[[], float | None], rate_of: StoreRates) -> None:
        self._total = total
        self._rate_of = rate_of
        self._bucket = TokenBucket(None)
        self._buckets: dict[str, TokenBucket] = {}

    def allowance(self, destination: str, now: float, most: int) -> int:
        """Return how many of ``most`` records of a destination may be claimed now (monotonic seconds)."""
        self._bucket.change(self._total())
        bucket = self._of(destination)
        bucket.change(self._rate_of(destination))
        return bucket.available(now, self._bucket.available(now, most))

    def take(self, destination: str, count: int) -> None:
        """Spend what was claimed."""
        self._bucket.take(count)
        self._of(destination).take(count)

    def wait(self, destinations: Iterable[str], now: float) -> float:
        """Return the seconds until a record of one of these destinations may be claimed."""
        soonest = min((self._of(destination).wait(now) for destination in destinations), default=0.0)
        return max(self._bucket.wait(now), soonest)

    def _of(self, destination: str) -> TokenBucket:
        bucket = self._buckets.get(destination)
        if bucket is None:
            bucket = self._buckets[destination] = TokenBucket(None)
        return bucket
