"""The length of a lease of due work, and the time until which its holder may start it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_TIMEOUTS: Final = 3
_MARGIN: Final = 30_000
_SLACK: Final = 10_000


def lease_time(timeouts: Iterable[int]) -> int:
    """Return how long (ms) to lease: it outlasts two rounds of time-outs in a full worker and the POST itself."""
    return _TIMEOUTS * max(timeouts, default=0) + _MARGIN


def retries_of(owner: str) -> str:
    """Return the owner's name in the leases of deliveries that a process retries by itself."""
    return f"{owner}/retries"


def starting(owner: str) -> str:
    """Return an owner's name in the leases of its start, until those of its earlier run are ended."""
    return f"{owner}/start"


def start_within(timeout: int) -> int:
    """Return how long (ms) after it was taken a POST may start, so that it ends while the lease lasts."""
    return (_TIMEOUTS - 1) * timeout + _MARGIN - _SLACK
