"""Drops whole partitions: those that the pipeline archived, and those past their retention."""

from __future__ import annotations

import asyncio
from typing import Any

import apsw

from bus.domain.times import DAY
from bus.domain.tracing.contents import Contents, Tally
from bus.domain.tracing.partition import PartitionLabel
from bus.stores.dropping import absent, changed, check_contents, unfinished
from bus.stores.sqlite.connection import patiently
from bus.stores.sqlite.errors import translating
from bus.stores.sqlite.keys import Label
from bus.stores.sqlite.locking import WriteLock
from bus.stores.sqlite.partitions import trace_sql
from bus.stores.sqlite.partitions.directory import Directory
from bus.stores.sqlite.partitions.open_partitions import OpenPartitions
from bus.stores.sqlite.partitions.partition import Partition
from bus.stores.sqlite.partitions.scanning import pieces_of
from bus.stores.sqlite.reading import CommittedReader


class PartitionDrop:
    """Looks at all of a partition while others write, then drops it unless one of them did.

    SQLite reports to a connection whether another one has changed the file since; this is checked inside a write
    transaction, in which no other connection can change it.
    """

    def __init__(
        self, open_partitions: OpenPartitions, reading: CommittedReader, directory: Directory, turn: WriteLock
    ) -> None:
        self._open_partitions = open_partitions
        self._reading = reading
        self._directory = directory
        self._turn = turn

    async def drop(self, partition: PartitionLabel, contents: Contents) -> None:
        """Drop a partition that has exactly these contents; raises as the port says."""
        label = Label(*partition)
        opened = await asyncio.to_thread(self._directory.open_reader, label)
        if opened is None:
            raise absent(label.name)
        watcher, _ = opened
        try:
            version = _version(watcher)
            check_contents(label.name, await asyncio.to_thread(_counted, watcher, label), contents)
            await self._drop_unchanged(label, watcher, version)
        finally:
            await asyncio.to_thread(watcher.close)
        await self._reading.forget(label)

    async def _drop_unchanged(self, label: Label, watcher: apsw.Connection, version: Any) -> None:
        async with self._turn.held(), self._open_partitions.reading(label) as partition:
            if partition is None:
                raise absent(label.name)
            with translating(label.name):
                await patiently(partition.begin)
                try:
                    if not partition.present() or _version(watcher) != version:
                        raise changed(label.name)
                    await self._drop_begun(label, partition)
                finally:
                    partition.roll_back()

    async def _drop_begun(self, label: Label, partition: Partition) -> None:
        if partition.has_open():
            raise unfinished(label.name)
        await self._open_partitions.drop(label, partition)


def _counted(connection: apsw.Connection, label: Label) -> Tally:
    tally = Tally()
    for piece in pieces_of(connection, label, bodies=True):
        for scanned in piece:
            tally.add(scanned.trace, scanned.body or b"")
    return tally


def _version(connection: apsw.Connection) -> Any:
    return next(connection.execute(trace_sql.DATA_VERSION))[0]


class Expiry:
    """Drops inside a write transaction of the partition, so that every write is either seen or goes to a new file."""

    def __init__(self, open_partitions: OpenPartitions, reading: CommittedReader, turn: WriteLock) -> None:
        self._open_partitions = open_partitions
        self._reading = reading
        self._turn = turn

    async def expire(self, now: int) -> tuple[list[str], list[str]]:
        """Return the names that it dropped, and those past their retention (ms) that unfinished work keeps."""
        dropped: list[str] = []
        kept: list[str] = []
        for label in reversed(self._open_partitions.newest_first()):
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
        async with self._turn.held(), self._open_partitions.reading(label) as partition:
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
            await self._open_partitions.drop(label, partition)
        return verdict
