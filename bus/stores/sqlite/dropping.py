"""Dropping one partition that somebody else keeps."""

from __future__ import annotations

import asyncio
from typing import Any

import apsw

from bus.domain.tracing.contents import Contents, Tally
from bus.domain.tracing.partition import PartitionLabel
from bus.stores.dropping import absent, changed, check_contents, unfinished
from bus.stores.sqlite import partition_sql as sql
from bus.stores.sqlite.connection import patiently
from bus.stores.sqlite.directory import Directory
from bus.stores.sqlite.failures import translating
from bus.stores.sqlite.keys import Label
from bus.stores.sqlite.locking import Turn
from bus.stores.sqlite.partition import Partition
from bus.stores.sqlite.reading import Reading
from bus.stores.sqlite.scanning import pieces_of
from bus.stores.sqlite.shelf import Shelf


class Dropping:
    """Looks at all of a partition while others write, then drops it unless one of them did.

    SQLite tells a connection whether any other one has changed the file since; it is asked inside a write transaction,
    in which nobody else can.
    """

    def __init__(self, shelf: Shelf, reading: Reading, directory: Directory, turn: Turn) -> None:
        self._shelf = shelf
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
        async with self._turn.held(), self._shelf.reading(label) as partition:
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
        await self._shelf.drop(label, partition)


def _counted(connection: apsw.Connection, label: Label) -> Tally:
    tally = Tally()
    for piece in pieces_of(connection, label, bodies=True):
        for scanned in piece:
            tally.add(scanned.trace, scanned.body or b"")
    return tally


def _version(connection: apsw.Connection) -> Any:
    return next(connection.execute(sql.DATA_VERSION))[0]
