"""Questions to nsqds about topics: all that are open at once, to each nsqd by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from collections.abc import Set as AbstractSet

from bus.transports.nsq.partitions.layout import Place


class Rounds:
    """Asks each nsqd in rounds; requests during a round make the next one, so that one that hangs delays no other.

    Parameters
    ----------
    ask
        Asks an nsqd about topics; never raises for the network.
    """

    def __init__(self, ask: Callable[[Place, AbstractSet[str]], Awaitable[None]]) -> None:
        self._ask = ask
        self._wanted: dict[Place, set[str]] = {}
        self._ended: dict[Place, asyncio.Event] = {}
        self._noted = asyncio.Event()

    def want(self, topic: str, places: Iterable[Place]) -> list[asyncio.Event]:
        """Have nsqds asked about a topic; return an event for each, which is set once it was asked."""
        ended = []
        for place in places:
            self._wanted.setdefault(place, set()).add(topic)
            ended.append(self._ended.setdefault(place, asyncio.Event()))
        self._noted.set()
        return ended

    async def run(self) -> None:
        """Ask until cancelled."""
        asked: set[Place] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                self._noted.clear()
                for place in self._wanted.keys() - asked:
                    asked.add(place)
                    group.create_task(self._ask_on(place, asked))
                await self._noted.wait()

    async def _ask_on(self, place: Place, asked: set[Place]) -> None:
        """Ask one nsqd, round after round, until no topic is left for it."""
        try:
            while topics := self._wanted.pop(place, None):
                ended = self._ended.pop(place)
                try:
                    await self._ask(place, topics)
                finally:
                    ended.set()
        finally:
            asked.discard(place)
