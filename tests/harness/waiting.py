"""Waiting for a condition with a deadline, instead of sleeping and hoping."""

from __future__ import annotations

import asyncio
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


async def until(
    check: Callable[[], object], *, within: float = 60.0, what: str, state: Callable[[], object] | None = None
) -> None:
    """Wait until ``check`` is true while the event loop goes on; parameters and error as of ``wait_until``."""
    deadline = time.monotonic() + within
    while not check():
        if time.monotonic() >= deadline:
            raise TooLate(f"not within {within:g} s: {what}" + (f"\n{state()}" if state else ""))
        await asyncio.sleep(0.01)
