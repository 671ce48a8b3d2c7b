"""Dropping whole partitions that are past their retention."""

from __future__ import annotations

from bus.domain.times import DAY
from bus.stores.sqlite.connection import patiently
from bus.stores.sqlite.failures import translating
from bus.stores.sqlite.keys import Label
from bus.stores.sqlite.locking import Turn
from bus.stores.sqlite.partition import Partition
from bus.stores.sqlite.reading import Reading
from bus.stores.sqlite.shelf import Shelf


class Expiry:
    """Drops inside a write transaction of the partition, so that every write is either seen or goes to a new file."""

    def __init__(self, shelf: Shelf, reading: Reading, turn: Turn) -> None:
        self._shelf = shelf
        self._reading = reading
        self._turn = turn

    async def expire(self, now: int) -> tuple[list[str], list[str]]:
        """Return the names that it dropped, and those past their retention (ms) that unfinished work keeps."""
        dropped: list[str] = []
        kept: list[str] = []
        for label in reversed(self._shelf.newest_first()):
            if (label.day - 1 + label.retention_days) * DAY > now:
                continue
            verdict = await self._drop(label, now - label.retention_days * DAY)
            if verdict:
                await self._reading.forget(label)
                dropped.append(label.name)
            elif verdict is None:
                kept.append(label.name)
        return dropped, kept

    async def _drop(self, label: Label, before: int) -> bool | None:
        """Drop a partition if all of it was received before a time (ms); None when unfinished work keeps it."""
        async with self._turn.held(), self._shelf.reading(label) as partition:
            if partition is None:
                return False
            with translating(partition.name):
                await patiently(partition.begin)
                try:
                    return await self._drop_begun(label, partition, before)
                finally:
                    partition.roll_back()

    async def _drop_begun(self, label: Label, partition: Partition, before: int) -> bool | None:
        verdict = partition.droppable(before) if partition.present() else False
        if verdict:
            await self._shelf.drop(label, partition)
        return verdict
