"""The partitions that this process has open."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from bus.stores.sqlite.keys import Label
from bus.stores.sqlite.partitions.directory import Directory
from bus.stores.sqlite.partitions.partition import Partition

_MOST_OPEN: Final = 8


class OpenPartitions:
    """Opens partitions as they are needed, and closes those that were not used for longest or that are dropped."""

    def __init__(self, directory: Directory, executor: Executor) -> None:
        self._directory = directory
        self._executor = executor
        self._opening = asyncio.Lock()
        self._open: OrderedDict[Label, Partition] = OrderedDict()

    def newest_first(self) -> list[Label]:
        """Return all partitions, the newest day first."""
        return sorted(self._directory.labels(), reverse=True)

    def of_day(self, day: int) -> list[Label]:
        """Return the partitions of a day."""
        return [label for label in self._directory.labels() if label.day == day]

    @asynccontextmanager
    async def reading(self, label: Label) -> AsyncIterator[Partition | None]:
        """Give a partition that stays open meanwhile; None when there is no such one, or no longer."""
        partition = await self._pinned(label, make=False)
        try:
            yield partition
        finally:
            if partition is not None:
                await self.unpin(partition)

    async def pin(self, label: Label) -> Partition:
        """Return a partition, opened or made; it stays open until the caller unpins it."""
        partition = await self._pinned(label, make=True)
        assert partition is not None  # noqa: S101 - it is made when it is not there
        return partition

    async def unpin(self, partition: Partition) -> None:
        """Give a partition back."""
        partition.pins -= 1
        if partition.retired and not partition.pins:
            await asyncio.get_running_loop().run_in_executor(self._executor, partition.close)

    def discard(self, partition: Partition) -> None:
        """Have a pinned partition closed, as its connection or its file is gone; it is opened anew when needed."""
        partition.retired = True
        for label, present in list(self._open.items()):
            if present is partition:
                del self._open[label]

    async def drop(self, label: Label, partition: Partition) -> None:
        """Remove the file of a pinned partition; the caller is in a write transaction of it."""
        await asyncio.get_running_loop().run_in_executor(self._executor, self._directory.drop, label)
        self.discard(partition)

    async def close(self) -> None:
        """Close all files."""
        async with self._opening:
            for label in list(self._open):
                await self._retire(label)

    async def _pinned(self, label: Label, *, make: bool) -> Partition | None:
        partition = self._open.get(label)
        if partition is None or not partition.present():
            async with self._opening:
                partition = await self._opened(label, make=make)
            if partition is None:
                return None
        self._open.move_to_end(label)
        partition.pins += 1
        return partition

    async def _opened(self, label: Label, *, make: bool) -> Partition | None:
        await self._trim(keep=label)
        if label in self._open:
            return self._open[label]
        opening = partial(self._directory.open, label, make=make)
        partition = await asyncio.get_running_loop().run_in_executor(self._executor, opening)
        if partition is not None:
            self._open[label] = partition
        return partition

    async def _trim(self, *, keep: Label) -> None:
        """Close dropped partitions, and unused ones of the rest until there is capacity for one more."""
        for label in [label for label, partition in self._open.items() if not partition.present()]:
            await self._retire(label)
        idle = [label for label, partition in self._open.items() if not partition.pins and label != keep]
        for label in idle[: max(0, len(self._open) - _MOST_OPEN + 1)]:
            await self._retire(label)

    async def _retire(self, label: Label) -> None:
        partition = self._open.pop(label, None)
        if partition is None:
            return
        partition.retired = True
        if not partition.pins:
            await asyncio.get_running_loop().run_in_executor(self._executor, partition.close)
