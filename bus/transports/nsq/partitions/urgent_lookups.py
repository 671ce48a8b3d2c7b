"""Topics to look up at once, since a partition or channel was not where it was expected."""

from __future__ import annotations

import asyncio

from bus.async_helpers import first_of


class UrgentLookups:
    """A set of urgent lookups: added where an error shows a stale route, taken by the task that looks up.

    Attributes
    ----------
    demanding
        Topics that refused consumers for requirements which only lookups with metadata return.
    """

    def __init__(self) -> None:
        self.demanding: set[str] = set()
        self._topics: set[str] = set()
        self._noted = asyncio.Event()

    def add(self, topic: str) -> None:
        """Have a topic looked up at once."""
        self._topics.add(topic)
        self._noted.set()

    async def take(self, within: float) -> set[str]:
        """Return the topics that were noted, as soon as there is one; none after so many seconds."""
        await first_of(self._noted.wait(), within=within)
        taken, self._topics = self._topics, set()
        self._noted.clear()
        return taken
