"""The commit driver of an event loop: rows are inserted here, COMMIT runs in a thread, callers are answered here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Self

import apsw

from bus.errors import SpoolClosed
from bus.ports.spool import tell
from bus.spool.committer import Committer
from bus.spool.engine import Engine
from bus.spool.faults import full_error, outcome
from bus.spool.options import Options
from bus.spool.recovery.restore import SalvageInUse
from bus.spool.section import Lane, Section
from bus.spool.transaction import Entry

LINGER = 0.05
"""Seconds that an ack waits for appends to share its commit."""
RETRY = 0.25
"""Seconds after which acks are written again when the disk was full."""
_Waiter = tuple[Sequence[str], "asyncio.Future[None]"]


class Driver:
    """Commits what the sections of one spool gather; make it with `open`, use it on one event loop.

    Rows are inserted on the loop's thread (that is memory until the commit); only COMMIT runs in a thread,
    while the next batch gathers.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.loop = asyncio.get_running_loop()
        self._committer = Committer(self.loop)
        self.busy = False
        self._scheduled = False
        self._hurries = False
        self._syncs = False
        self._timer: asyncio.TimerHandle | None = None
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._ready_waiters: dict[tuple[Section, str], list[_Waiter]] = {}
        self.is_closed = False
        self._pause: float = RETRY

    @classmethod
    async def open(cls, directory: Path, options: Options) -> Self:
        """Open or make the spool in a directory; raises as ``Engine`` does."""
        return cls(await asyncio.to_thread(Engine, directory, options))

    async def wait_ready(self, section: Section, consumer: str, lanes: Sequence[str]) -> None:
        """Return when a consumer could claim from one of these streams; from any of the section where none is named."""
        while True:
            self.engine.check()
            if section.is_ready(consumer, lanes):
                return
            item: _Waiter = (lanes, self.loop.create_future())
            waiters = self._ready_waiters.setdefault((section, consumer), [])
            waiters.append(item)
            try:
                await item[1]
            finally:
                self._leave(section, consumer, item)

    def _leave(self, section: Section, consumer: str, item: _Waiter) -> None:
        waiters = self._ready_waiters.get((section, consumer), [])
        if item in waiters:
            waiters.remove(item)
        if not waiters:
            self._ready_waiters.pop((section, consumer), None)

    async def settle(self) -> None:
        """Return when all changes made so far are durable."""
        target = self.engine.cursors.changes
        while True:
            self.engine.check()
            if self.engine.gathered.is_settled(target):
                return
            self.kick()
            await self.idle(now=False)

    async def close(self) -> None:
        """Commit what is pending and give up the directory. Waiting callers end with SpoolClosed."""
        if self.is_closed:
            return
        self.is_closed = True
        await self._quiet()
        while self.engine.gathered.entries and self.engine.failed is None:
            self._cycle()
            await self._quiet()
        await self._last_commit()
        self._cancel_timer()
        self.busy = True  # no commit, and no read, while a thread ends the file
        await asyncio.to_thread(self.engine.end())
        self._committer.close()
        closed = SpoolClosed(f"the spool {self.engine.directory} was closed")
        self._refuse(self.engine.gathered.take(), closed)
        self._wake_all(closed)

    async def _last_commit(self) -> None:
        for _ in range(3):
            if self.engine.failed is not None or not self.engine.gathered.pending or self.engine.cursors.ending:
                return
            self._cycle()
            await self._quiet()

    async def _quiet(self) -> None:
        """Wait until no commit runs, nor what follows from one; returns at once when the last one failed."""
        while self.busy:
            await self.idle()

    def kick(self) -> None:
        """Commit as soon as the loop has gathered what is ready now."""
        self._hurries = self._syncs = True
        if not (self.busy or self._scheduled):
            self._scheduled = True
            self.loop.call_soon(self._cycle)

    def linger(self, *, synced: bool = True) -> None:
        """Commit in a moment, unless something urgent does so earlier; without an fsync if all ask for none."""
        self._syncs |= synced
        if self._timer is None and not (self.busy or self._scheduled):
            self._timer = self.loop.call_later(LINGER, self._cycle)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cycle(self) -> None:
        self._cancel_timer()
        self._scheduled = False
        engine = self.engine
        if self.busy or engine.closed or engine.failed is not None:
            return
        if not (engine.gathered.pending or (self._syncs and not engine.gathered.is_synced)):
            return
        synced, self._hurries, self._syncs = self._syncs, False, False
        try:
            engine.write(synced=synced)
        except apsw.Error as error:
            self.on_error(error)
            return
        self.busy = True
        self._committer.run(engine.commit, self._on_commit)

    def _on_commit(self, error: Exception | None) -> None:
        self.busy = False
        if error is not None:
            self.on_error(error)
            return
        engine = self.engine
        batch = engine.committed()
        for entry in batch.entries:
            tell(entry.waiter, entry.positions)
        self._wake_consumers(batch.lanes)
        if engine.checkpoint_due:
            self.busy = True
            self._committer.run(engine.checkpoint, self._on_checkpoint)
            return
        self._proceed()

    def _on_checkpoint(self, error: Exception | None) -> None:
        self.busy = False
        if error is not None and outcome(error) not in ("full", "busy"):
            self.on_error(error)
        else:
            self._proceed()

    def _proceed(self) -> None:
        self._wake_idle()
        engine = self.engine
        if self._hurries or engine.cursors.ending or self.is_closed:
            self.kick()
        elif engine.gathered.pending:
            self.linger(synced=False)

    def on_error(self, error: Exception) -> None:
        """React to a failure of SQLite: wait, relieve a full disk, salvage the file, or give up."""
        kind = outcome(error)
        engine = self.engine
        self._syncs = True
        entries = engine.abort(keep=kind in ("busy", "corrupt"))
        if kind == "full":
            self._refuse(entries, full_error(self.engine.directory))
        if kind in ("full", "busy"):
            self.busy = True
            self._pause = 0 if entries else RETRY  # acks alone may fit at once
            self._committer.run(engine.relieve, self._on_relief)
        elif kind == "corrupt":
            self.busy = True
            salvage = engine.salvage()
            self._committer.run(salvage.run, partial(self._on_salvage, salvage))
        else:
            self._give_up(entries, error)

    def _on_relief(self, error: Exception | None) -> None:
        self.busy = False
        if error is not None and outcome(error) not in ("full", "busy"):
            self.on_error(error)
            return
        self._wake_idle()
        self._cancel_timer()
        self._timer = self.loop.call_later(self._pause, self._cycle)

    def _on_salvage(self, salvage: SalvageInUse, error: Exception | None) -> None:
        self.busy = False
        if error is not None:
            self._give_up([], error)
            return
        self.engine.salvaged(salvage)
        self._proceed()

    def _give_up(self, entries: list[Entry], error: Exception) -> None:
        failure = self.engine.fail(error)
        self._refuse([*entries, *self.engine.gathered.take()], failure)
        self._wake_all(failure)

    def _refuse(self, entries: list[Entry], error: Exception) -> None:
        for entry in entries:
            tell(entry.waiter, error)

    async def idle(self, *, now: bool = True) -> None:
        """Wait until no commit runs; with ``now=False`` until the next one ended."""
        if now and not self.busy:
            return
        waiter: asyncio.Future[None] = self.loop.create_future()
        self._idle_waiters.append(waiter)
        await waiter

    def _wake_idle(self) -> None:
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def wake(self, section: Section, consumer: str) -> None:
        """Wake who waits for what this consumer could claim now."""
        waiters = self._ready_waiters.get((section, consumer))
        if waiters is None:
            return
        for lanes, waiter in waiters:
            if section.is_ready(consumer, lanes) and not waiter.done():
                waiter.set_result(None)

    def _wake_consumers(self, lanes: Iterable[Lane]) -> None:
        if self._ready_waiters:
            for lane in lanes:
                for consumer in lane.cursors:
                    self.wake(lane.section, consumer)

    def _wake_all(self, error: Exception) -> None:
        self._wake_idle()
        for waiters in self._ready_waiters.values():
            for _, waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(error)
