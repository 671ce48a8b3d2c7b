"""Quarantines in memory."""

from __future__ import annotations

from bus.errors import SpoolFull
from bus.ports.quarantine import ForeignRecord


class MemoryQuarantine:
    """Keeps what is set aside in a list.

    Attributes
    ----------
    is_full
        It refuses everything, as a full disk makes the real one do.
    tries
        How often something was to be kept, refused or not.
    """

    def __init__(self, *, is_full: bool = False) -> None:
        self.kept: list[ForeignRecord] = []
        self.is_full = is_full
        self.tries = 0

    async def keep(self, foreign: ForeignRecord) -> None:
        """Keep a record. Raises ``SpoolFull`` while it is full."""
        self.tries += 1
        if self.is_full:
            raise SpoolFull("the quarantine is full")
        self.kept.append(foreign)


class ForbiddenQuarantine:
    """One into which nothing may come."""

    async def keep(self, foreign: ForeignRecord) -> None:
        """Fail the test or the measurement."""
        raise AssertionError(foreign)
