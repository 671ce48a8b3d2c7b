"""The spool for an event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import apsw

from bus.domain.delivery.quota import SpoolCapacity
from bus.ports.spool import ConsumerStats, NewRecord, Record, SpoolStats, SpoolTotals, Waiter
from bus.spool.cursors import WINDOW
from bus.spool.driver import Driver
from bus.spool.options import Options
from bus.spool.section import Cursor, Section


class AsyncSpool:
    """The `bus.ports.spool.Spool` port on one SQLite file, or on a section of one; make it with `open`."""

    def __init__(self, driver: Driver, section: Section) -> None:
        self._driver = driver
        self._engine = driver.engine
        self._cursors = driver.engine.cursors
        self._section = section

    @classmethod
    async def open(cls, directory: str | os.PathLike[str], options: Options | None = None) -> Self:
        """Open or make the spool in a directory.

        Raises
        ------
        SpoolLocked
            Another live process, or another spool of this one, owns the directory.
        SpoolFailed
            The disk failed while opening.
        """
        driver = await Driver.open(Path(directory), options or Options())
        (section,) = driver.engine.cursors.sections.values()
        return cls(driver, section)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def directory(self) -> Path:
        """The directory of the spool."""
        return self._engine.directory

    async def append(self, records: Sequence[NewRecord], *, urgent: bool = False) -> list[int]:
        """Store the records, all or none, durably; see the port."""
        waiter: asyncio.Future[list[int]] = self._driver.loop.create_future()
        self.append_with(records, waiter, urgent=urgent)
        return await waiter

    def append_with(
        self,
        records: Sequence[NewRecord],
        waiter: Waiter[list[int]],
        *,
        urgent: bool = False,
        lingers: bool = False,
        consumer: str = "",
        done: Sequence[Record] = (),
    ) -> None:
        """Store the records as `append` does, and call the waiter; see the port."""
        entry = self._engine.enter(self._section, records, urgent)
        entry.waiter, entry.consumer, entry.done = waiter, consumer, done
        if lingers:
            self._driver.linger()
        else:
            self._driver.kick()

    def lanes(self, consumer: str) -> Sequence[str]:
        """Streams in which this consumer could claim now, those that were claimed from longest ago first."""
        return self._section.ready(consumer)

    async def wait(self, consumer: str, *lanes: str) -> None:
        """Return when this consumer could claim from one of these streams; from any where none is named."""
        await self._driver.wait_ready(self._section, consumer, lanes)

    async def claim(self, consumer: str, limit: int, lane: str) -> list[Record]:
        """Take up to ``limit`` durable records of a stream, in order; see the port."""
        while True:
            self._engine.check()
            cursor = self._section.find(lane, consumer)
            if cursor is None or limit <= 0:
                return []
            if cursor.ahead >= WINDOW and not cursor.back:
                self._cursors.mark(cursor)
                await self.settle()
                continue
            records = self._claim(cursor, limit)
            if records is not None:
                if self._engine.damage.found:
                    self._driver.kick()
                return records
            await self._driver.idle()

    def _claim(self, cursor: Cursor, limit: int) -> list[Record] | None:
        try:
            return self._engine.claim(cursor, limit, disk=not self._driver.busy)
        except apsw.Error as error:
            self._driver.on_error(error)
            return None

    async def newest(self, consumer: str, limit: int, lane: str, before: int | None = None) -> list[Record]:
        """Return the newest records that this consumer has not acked, the newest first; see the port."""
        while self._driver.busy:
            await self._driver.idle()
        self._engine.check()
        cursor = self._section.find(lane, consumer)
        try:
            return self._engine.newest(cursor, limit, before) if cursor is not None else []
        except apsw.Error as error:
            self._driver.on_error(error)
            return []

    def ack(self, consumer: str, records: Sequence[Record], *, synced: bool = True) -> None:
        """Finish claimed records; durable with the next commit, a few milliseconds later at most; see the port."""
        self._engine.ack(consumer, records)
        self._driver.linger(synced=synced)

    def release(self, consumer: str, records: Sequence[Record]) -> None:
        """Give claimed records back; they are the next to be claimed."""
        self._engine.check()
        self._cursors.release(consumer, records)
        self._driver.wake(self._section, consumer)

    async def settle(self) -> None:
        """Return when all acks, attachments and detachments made so far are durable."""
        await self._driver.settle()

    def attach(self, lane: str, consumer: str) -> None:
        """Attach a consumer to a stream from the records appended next; `settle` makes it durable."""
        self._engine.check()
        self._cursors.attach(self._section, lane, consumer)
        self._driver.linger()

    def detach(self, lane: str, consumer: str) -> None:
        """Detach a consumer from a stream; records that waited only for it are removed step by step."""
        self._engine.check()
        self._cursors.detach(self._section, lane, consumer)
        self._driver.linger()

    def recovered(self, consumer: str, record: Record) -> bool:
        """Whether the record may have been claimed by this consumer before a crash or restart."""
        return self._engine.recovered(consumer, record)

    def acked(self, consumer: str, record: Record) -> bool:
        """Whether the consumer has acked the record; costs no disk access."""
        return self._cursors.acked(consumer, record)

    def pending(self, consumer: str, lane: str) -> int:
        """Return how many records of a stream wait for this consumer, or are claimed by it."""
        return self._section.pending(consumer, lane)

    def totals(self) -> SpoolTotals:
        """Return the totals of the spool."""
        return self._section.totals()

    def waiting(self) -> list[ConsumerStats]:
        """Return the consumers that have records to claim or to ack."""
        return self._section.waiting()

    def stats(self) -> SpoolStats:
        """Return counts kept in memory; ``oldest`` is the record's time, in milliseconds since the epoch."""
        return self._section.stats()

    def room(self, lane: str) -> SpoolCapacity:
        """Return the usage of a stream's destination, and the bytes that an append without urgency could add."""
        return self._engine.room(self._section, lane)

    async def close(self) -> None:
        """Commit what is pending and give up the directory. Waiting callers end with SpoolClosed."""
        await self._driver.close()
