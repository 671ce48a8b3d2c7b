"""The wait of a connection to a broker before the next try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_MOST_DOUBLINGS: Final = 30


class Backoff:
    """Waits that double from ``first`` to ``longest`` seconds, each shortened by up to a half, without end.

    Parameters
    ----------
    noise
        Gives numbers in [0, 1).
    """

    def __init__(self, first: float, longest: float, noise: Callable[[], float]) -> None:
        self._first = first
        self._longest = longest
        self._noise = noise
        self._failures = 0

    def fail(self) -> float:
        """Count a failure, and return the seconds to wait."""
        bound = min(self._longest, self._first * 2.0 ** min(self._failures, _MOST_DOUBLINGS))
        self._failures += 1
        return bound * (1 - self._noise() / 2)

    def succeed(self) -> None:
        """Forget the failures."""
        self._failures = 0
