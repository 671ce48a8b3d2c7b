"""The spool for an event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import apsw

from bus.domain.delivery.quota import Room
from bus.errors import SpoolClosed
from bus.ports.spool import NewRecord, Record, SpoolStats
from bus.spool.committer import Committer
from bus.spool.cursors import WINDOW, Cursor
from bus.spool.engine import Engine
from bus.spool.faults import full_error, outcome
from bus.spool.options import Options
from bus.spool.transaction import Entry

LINGER = 0.005
"""Seconds that an ack waits for appends to share its commit."""
RETRY = 0.25
"""Seconds after which acks are written again when the disk was full."""


class AsyncSpool:
    """The `bus.ports.spool.Spool` port on one SQLite file; make it with `open`, use it on one event loop.

    Rows are inserted on the loop's thread (that is memory until the commit); only COMMIT runs in a thread,
    while the next batch gathers.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cursors = engine.cursors
        self._loop = asyncio.get_running_loop()
        self._committer = Committer(self._loop)
        self._busy = False
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._ready_waiters: list[tuple[str, str | None, asyncio.Future[None]]] = []
        self._closing = False
        self._pause: float = RETRY

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
        return cls(await asyncio.to_thread(Engine, Path(directory), options or Options()))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def directory(self) -> Path:
        """Where the spool lives."""
        return self._engine.directory

    async def append(self, records: Sequence[NewRecord], *, urgent: bool = False) -> list[int]:
        """Store the records, all or none, durably; see the port."""
        entry = self._engine.enter(records, urgent)
        waiter = entry.waiter = self._loop.create_future()
        if not (self._busy or self._scheduled):
            self._scheduled = True
            self._loop.call_soon(self._cycle)
        return await waiter  # type: ignore[no-any-return]

    def lanes(self, consumer: str) -> Sequence[str]:
        """Lanes in which this consumer could claim now, those that were claimed from longest ago first."""
        return self._cursors.ready(consumer)

    async def wait(self, consumer: str, lane: str | None = None) -> None:
        """Return when this consumer could claim, from ``lane`` or from any."""
        while True:
            self._engine.check()
            if self._cursors.is_ready(consumer, lane):
                return
            waiter: asyncio.Future[None] = self._loop.create_future()
            item = (consumer, lane, waiter)
            self._ready_waiters.append(item)
            try:
                await waiter
            finally:
                if item in self._ready_waiters:
                    self._ready_waiters.remove(item)

    async def claim(self, consumer: str, limit: int, lane: str) -> list[Record]:
        """Take up to ``limit`` durable records of a lane, in order; see the port."""
        while True:
            self._engine.check()
            cursor = self._cursors.find(lane, consumer)
            if cursor is None or limit <= 0:
                return []
            if cursor.ahead >= WINDOW and not cursor.back:
                self._cursors.mark(cursor)
                await self.settle()
                continue
            records = self._claim(cursor, limit)
            if records is not None:
                if self._engine.damage.found:
                    self._kick()
                return records
            await self._idle()

    def _claim(self, cursor: Cursor, limit: int) -> list[Record] | None:
        try:
            return self._engine.claim(cursor, limit, disk=not self._busy)
        except apsw.Error as error:
            self._on_error(error)
            return None

    def ack(self, consumer: str, records: Sequence[Record]) -> None:
        """Finish claimed records; durable with the next commit, a few milliseconds later at most."""
        self._engine.ack(consumer, records)
        self._linger()

    def release(self, consumer: str, records: Sequence[Record]) -> None:
        """Give claimed records back; they are the next to be claimed."""
        self._engine.check()
        self._cursors.release(consumer, records)
        self._wake_ready()

    async def settle(self) -> None:
        """Return when all acks, attachments and detachments made so far are durable and done."""
        target = self._cursors.changes
        while True:
            self._engine.check()
            if self._engine.gathered.is_settled(target):
                return
            self._kick()
            await self._idle(now=False)

    def attach(self, lane: str, consumer: str) -> None:
        """Let a consumer take part in a lane from the records appended next on; `settle` makes it durable."""
        self._engine.check()
        self._cursors.attach(lane, consumer)
        self._linger()

    def detach(self, lane: str, consumer: str) -> None:
        """End a consumer's part in a lane; records that waited only for it go bit by bit."""
        self._engine.check()
        self._cursors.detach(lane, consumer)
        self._linger()

    def recovered(self, consumer: str, record: Record) -> bool:
        """Whether the record may have been claimed by this consumer before a crash or restart."""
        return self._engine.recovered(consumer, record)

    def stats(self) -> SpoolStats:
        """Return counts kept in memory; ``oldest`` is the record's time, in milliseconds since the epoch."""
        return self._engine.stats()

    def room(self, lane: str) -> Room:
        """Return what a lane holds, with what is being appended, and what an append without urgency could add."""
        return self._engine.room(lane)

    async def close(self) -> None:
        """Commit what is pending and give up the directory. Waiting callers end with SpoolClosed."""
        if self._closing:
            return
        self._closing = True
        while self._busy or (self._engine.gathered.entries and self._engine.failed is None):
            self._cycle()
            await self._idle(now=False)
        await self._last_commit()
        self._cancel_timer()
        await asyncio.to_thread(self._engine.finish)
        self._committer.close()
        self._wake_all(SpoolClosed(f"the spool {self.directory} was closed"))

    async def _last_commit(self) -> None:
        for _ in range(3):
            if self._engine.failed is not None or not self._engine.gathered.pending or self._engine.cursors.ending:
                return
            self._cycle()
            while self._busy:
                await self._idle(now=False)

    # The cycle: write here, commit in the thread, answer here

    def _kick(self) -> None:
        if not (self._busy or self._scheduled):
            self._scheduled = True
            self._loop.call_soon(self._cycle)

    def _linger(self) -> None:
        if self._timer is None and not (self._busy or self._scheduled):
            self._timer = self._loop.call_later(LINGER, self._cycle)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cycle(self) -> None:
        self._cancel_timer()
        self._scheduled = False
        engine = self._engine
        if self._busy or engine.closed or engine.failed is not None or not engine.gathered.pending:
            return
        try:
            engine.write()
        except apsw.Error as error:
            self._on_error(error)
            return
        self._busy = True
        self._committer.run(engine.commit, self._on_commit)

    def _on_commit(self, error: Exception | None) -> None:
        self._busy = False
        if error is not None:
            self._on_error(error)
            return
        engine = self._engine
        for entry in engine.committed().entries:
            waiter: Any = entry.waiter
            if not waiter.done():
                waiter.set_result(entry.positions)
        self._wake_ready()
        if engine.checkpoint_due:
            self._busy = True
            self._committer.run(engine.checkpoint, self._on_checkpoint)
            return
        self._proceed()

    def _on_checkpoint(self, error: Exception | None) -> None:
        self._busy = False
        if error is not None and outcome(error) not in ("full", "busy"):
            self._on_error(error)
        else:
            self._proceed()

    def _proceed(self) -> None:
        self._wake_idle()
        engine = self._engine
        if engine.gathered.entries or engine.cursors.ending or self._closing:
            self._kick()
        elif engine.gathered.pending:
            self._linger()

    def _on_error(self, error: Exception) -> None:
        kind = outcome(error)
        engine = self._engine
        entries = engine.abort(keep=kind in ("busy", "corrupt"))
        if kind == "full":
            self._refuse(entries, full_error(self.directory))
        if kind in ("full", "busy"):
            self._busy = True
            self._pause = 0 if entries else RETRY  # acks alone may fit at once
            self._committer.run(engine.relieve, self._on_relief)
        elif kind == "corrupt":
            self._busy = True
            self._committer.run(engine.salvage, self._on_salvage)
        else:
            self._give_up(entries, error)

    def _on_relief(self, error: Exception | None) -> None:
        self._busy = False
        if error is not None and outcome(error) not in ("full", "busy"):
            self._on_error(error)
            return
        self._wake_idle()
        self._cancel_timer()
        self._timer = self._loop.call_later(self._pause, self._cycle)

    def _on_salvage(self, error: Exception | None) -> None:
        self._busy = False
        if error is not None:
            self._give_up([], error)
            return
        self._proceed()

    def _give_up(self, entries: list[Entry], error: Exception) -> None:
        failure = self._engine.fail(error)
        waiting, self._engine.gathered.entries = self._engine.gathered.entries, []
        self._refuse([*entries, *waiting], failure)
        self._wake_all(failure)

    def _refuse(self, entries: list[Entry], error: Exception) -> None:
        for entry in entries:
            waiter: Any = entry.waiter
            if not waiter.done():
                waiter.set_exception(error)

    async def _idle(self, *, now: bool = True) -> None:
        """Wait until no commit runs; with ``now=False`` until the next one ended."""
        if now and not self._busy:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._idle_waiters.append(waiter)
        await waiter

    def _wake_idle(self) -> None:
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _wake_ready(self) -> None:
        if not self._ready_waiters:
            return
        for item in list(self._ready_waiters):
            consumer, lane, waiter = item
            if self._cursors.is_ready(consumer, lane):
                self._ready_waiters.remove(item)
                if not waiter.done():
                    waiter.set_result(None)

    def _wake_all(self, error: Exception) -> None:
        self._wake_idle()
        waiters, self._ready_waiters = self._ready_waiters, []
        for _, _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)
