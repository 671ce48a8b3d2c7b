"""Waiting for a condition with a deadline, instead of sleeping and hoping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


class TooLate(AssertionError):
    """A condition did not come true before its deadline."""


def wait_until(
    check: Callable[[], Found | None],
    *,
    within: float,
    what: str,
    every: float = 0.05,
    state: Callable[[], object] | None = None,
) -> Found:
    """Return the first true result of ``check``.

    Parameters
    ----------
    within
        Seconds.
    what
        What is waited for, for the error.
    state
        Gives what to add to the error, so that it says how far things got.

    Raises
    ------
    TooLate
        The deadline passed.
    """
    deadline = time.monotonic() + within
    while not (found := check()):
        if time.monotonic() >= deadline:
            raise TooLate(f"not within {within:g} s: {what}" + (f"\n{state()}" if state else ""))
        time.sleep(every)
    return found
