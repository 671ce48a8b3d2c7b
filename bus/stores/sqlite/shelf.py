"""The partition files of a directory: which there are, and which are open."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bus.domain.times import DAY, day_start
from bus.stores.sqlite.keys import partition_name
from bus.stores.sqlite.partition import Partition

_MOST_OPEN: Final = 8
_FILE: Final = re.compile(r"traces-(\d{8})-(\d+)d\.db")
_DROPPED: Final = ".dropped"


class Label(NamedTuple):
    """What names a partition: its day, counted from the epoch, and its retention class."""

    day: int
    retention_days: int

    @property
    def name(self) -> str:
        """The name that people see."""
        return partition_name(*self)

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"traces-{self.name}.db"


class Shelf:
    """Opens partitions as they are needed and closes those that were not used for longest."""

    def __init__(self, directory: Path, executor: Executor) -> None:
        self._directory = directory
        self._executor = executor
        self._opening = asyncio.Lock()
        self._open: OrderedDict[Label, Partition] = OrderedDict()
        self._labels = {_label_of(path) for path in directory.glob("traces-*.db") if _FILE.fullmatch(path.name)}
        for path in directory.glob(f"*{_DROPPED}"):
            path.unlink(missing_ok=True)

    def newest_first(self) -> list[Label]:
        """Return all partitions, the newest day first."""
        return sorted(self._labels, reverse=True)

    def of_day(self, day: int) -> list[Label]:
        """Return the partitions of a day."""
        return [label for label in self._labels if label.day == day]

    def path(self, label: Label) -> Path:
        """Return where a partition's file is."""
        return self._directory / label.file

    @asynccontextmanager
    async def reading(self, label: Label) -> AsyncIterator[Partition | None]:
        """Give a partition that stays open meanwhile; None when there is no such one, or no longer."""
        partition = await self._pinned(label, make=False)
        try:
            yield partition
        finally:
            if partition is not None:
                partition.pins -= 1

    async def pin(self, label: Label) -> Partition:
        """Return a partition, opened or made; it stays open until the caller lowers its ``pins``."""
        partition = await self._pinned(label, make=True)
        assert partition is not None  # noqa: S101 - it is made when it is not there
        return partition

    async def discard(self, partition: Partition) -> None:
        """Close a partition whose connection is of no more use; the next one who needs it opens it again."""
        for label, present in list(self._open.items()):
            if present is partition:
                del self._open[label]
        await asyncio.get_running_loop().run_in_executor(self._executor, partition.close)

    async def drop(self, label: Label) -> None:
        """Remove a partition that nobody writes to; what is left of it after a crash goes at the next start."""
        loop = asyncio.get_running_loop()
        async with self._opening:
            partition = self._open.pop(label, None)
            self._labels.discard(label)
            if partition is not None:
                await loop.run_in_executor(self._executor, partition.close)
            path = self.path(label)
            dropped = path.rename(path.with_name(path.name + _DROPPED))
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        await loop.run_in_executor(self._executor, dropped.unlink)

    async def close(self) -> None:
        """Close all files."""
        async with self._opening:
            while self._open:
                _, partition = self._open.popitem()
                await asyncio.get_running_loop().run_in_executor(self._executor, partition.close)

    async def _pinned(self, label: Label, *, make: bool) -> Partition | None:
        partition = self._open.get(label)
        if partition is None:
            async with self._opening:
                if not make and label not in self._labels:
                    return None
                partition = self._open.get(label) or await self._in_thread_open(label)
        self._open.move_to_end(label)
        partition.pins += 1
        return partition

    async def _in_thread_open(self, label: Label) -> Partition:
        loop = asyncio.get_running_loop()
        await self._trim()
        partition = await loop.run_in_executor(self._executor, Partition, self.path(label))
        self._labels.add(label)
        self._open[label] = partition
        return partition

    async def _trim(self) -> None:
        idle = [label for label, partition in self._open.items() if not partition.pins]
        for label in idle[: max(0, len(self._open) - _MOST_OPEN + 1)]:
            partition = self._open.pop(label)
            await asyncio.get_running_loop().run_in_executor(self._executor, partition.close)


def _label_of(path: Path) -> Label:
    match = _FILE.fullmatch(path.name)
    assert match is not None  # noqa: S101 - the caller filtered by the same pattern
    return Label(day_start(match[1]) // DAY, int(match[2]))
