"""Waits that grow with failed attempts, and end."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

_MOST_SUBJECTS: Final = 10_000
_FORGET: Final = 3600.0


class Limit(NamedTuple):
    """How many attempts are free, and the longest wait (s) after more; the first is a second, and each one doubles."""

    free: int
    longest: float


class _Failures(NamedTuple):
    number: int
    last: float


class Throttle:
    """Counts attempts by subject, in memory; what nobody attempts for an hour is forgotten.

    An attempt that is refused for its wait is not counted, so a wait has an end whoever else tries meanwhile.
    """

    def __init__(self, limit: Limit, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._failures: dict[Hashable, _Failures] = {}

    def wait(self, subject: Hashable) -> float:
        """Return the seconds until the subject may try again, 0 for now."""
        known = self._known(subject)
        over = known.number - self._limit.free
        if over < 0:
            return 0.0
        pause = min(2.0 ** min(over, 30), self._limit.longest)
        return max(0.0, known.last + pause - self._monotonic())

    def count(self, subject: Hashable) -> None:
        """Count an attempt as failed, before it is known to be, so that parallel attempts do not get around a wait."""
        known = self._known(subject)
        self._failures.pop(subject, None)
        if len(self._failures) >= _MOST_SUBJECTS:
            del self._failures[next(iter(self._failures))]
        self._failures[subject] = _Failures(known.number + 1, self._monotonic())

    def forgive(self, subject: Hashable) -> None:
        """Take back the count of one attempt, which did not fail."""
        known = self._known(subject)
        self._failures[subject] = _Failures(max(0, known.number - 1), known.last)

    def clear(self, subject: Hashable) -> None:
        """Forget a subject's failures."""
        self._failures.pop(subject, None)

    def _known(self, subject: Hashable) -> _Failures:
        known = self._failures.get(subject)
        if known is None or self._monotonic() - known.last > _FORGET:
            return _Failures(0, 0.0)
        return known
