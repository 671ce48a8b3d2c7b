"""The spool for threads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Condition
from typing import Self

import apsw

from bus.domain.delivery.quota import SpoolCapacity
from bus.errors import SpoolClosed
from bus.ports.spool import ConsumerStats, NewRecord, Record, SpoolStats, SpoolTotals
from bus.spool.cursors import WINDOW
from bus.spool.engine import Engine
from bus.spool.faults import full_error, outcome
from bus.spool.options import Options
from bus.spool.section import Cursor, Section
from bus.spool.transaction import Entry

RETRY = 0.25
"""Seconds between tries while the disk is full or another program holds the file."""
_INHERITED: list[Engine] = []


class BlockingSpool:
    """The same spool with calls that block, safe to share between threads; it has no thread of its own.

    The first caller of `append` becomes the leader: it takes what all others queued meanwhile, inserts, commits,
    and wakes them. An ack is memory until the next commit by any `append`, `wait`, `settle` or `close`.

    After a fork the child must not use the parent's spool: every call raises SpoolClosed there, and the parent's
    database handle is kept alive and never closed. Open another directory in the child.

    Parameters
    ----------
    directory
        Made when it does not exist.

    Raises
    ------
    SpoolLocked
        Another live process, or another spool of this one, owns the directory.
    SpoolFailed
        The disk failed while opening.
    """

    def __init__(self, directory: str | os.PathLike[str], options: Options | None = None) -> None:
        self._engine = Engine(Path(directory), options or Options())
        self._cursors = self._engine.cursors
        (self._section,) = self._cursors.sections.values()
        self._turn = Condition()
        self._busy = False
        self._retry_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def directory(self) -> Path:
        """The directory of the spool."""
        return self._engine.directory

    @property
    def inherited(self) -> bool:
        """Whether this process got the spool by a fork and must not use it."""
        return self._engine.pid != os.getpid()

    def append(self, records: Sequence[NewRecord], *, urgent: bool = False) -> list[int]:
        """Store the records, all or none, durably when it returns, and return their positions; see the port."""
        self._check()
        with self._turn:
            return self._commit_entry(self._engine.enter(self._section, records, urgent))

    def exchange(
        self, consumer: str, done: Sequence[Record], new: Sequence[NewRecord], *, urgent: bool = False
    ) -> list[int]:
        """Ack records and append others in one transaction: after a crash both happened or neither.

        Raises as `append` does; then ``done`` is still held by the consumer.
        """
        self._check()
        with self._turn:
            entry = self._engine.enter(self._section, new, urgent)
            entry.consumer, entry.done = consumer, done
            return self._commit_entry(entry)

    def _commit_entry(self, entry: Entry) -> list[int]:
        while entry.waiter is None:
            if self._busy:
                self._turn.wait()
            else:
                self._lead()
        if entry.error is not None:
            raise entry.error
        return entry.positions

    def lanes(self, consumer: str) -> Sequence[str]:
        """Streams in which this consumer could claim now, those that were claimed from longest ago first."""
        self._check()
        with self._turn:
            return self._section.ready(consumer)

    def wait(self, consumer: str, *lanes: str, timeout: float | None = None) -> bool:
        """Wait until this consumer could claim from one of these streams; from any where none is named.

        It waits for ``timeout`` seconds at most, and returns whether it could.

        Acks made so far are durable when it starts to wait.
        """
        self._check()
        end = None if timeout is None else time.monotonic() + timeout
        with self._turn:
            while True:
                self._engine.check()
                if self._section.is_ready(consumer, lanes):
                    return True
                if self._engine.gathered.pending and self._may_lead():
                    self._lead()
                    continue
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._turn.wait(min(left or RETRY, RETRY) if self._engine.gathered.pending else left)

    def claim(self, consumer: str, limit: int, lane: str) -> list[Record]:
        """Take up to ``limit`` durable records of a stream, in order; see the port."""
        self._check()
        with self._turn:
            while True:
                self._engine.check()
                cursor = self._section.find(lane, consumer)
                if cursor is None or limit <= 0:
                    return []
                if cursor.ahead >= WINDOW and not cursor.back:
                    self._cursors.mark(cursor)
                    self._settle()
                    continue
                records = self._claim(cursor, limit)
                if records is not None:
                    return records
                if self._busy:
                    self._turn.wait()

    def _claim(self, cursor: Cursor, limit: int) -> list[Record] | None:
        try:
            return self._engine.claim(cursor, limit, disk=not self._busy)
        except apsw.Error as error:
            self._on_error(error)
            return None

    def newest(self, consumer: str, limit: int, lane: str, before: int | None = None) -> list[Record]:
        """Return the newest records that this consumer has not acked, the newest first; see the port."""
        self._check()
        with self._turn:
            while self._busy:
                self._turn.wait()
            self._engine.check()
            cursor = self._section.find(lane, consumer)
            try:
                return self._engine.newest(cursor, limit, before) if cursor is not None else []
            except apsw.Error as error:
                self._on_error(error)
                return []

    def ack(self, consumer: str, records: Sequence[Record]) -> None:
        """Finish claimed records; durable with the next commit. May be called twice."""
        self._check()
        with self._turn:
            self._engine.ack(consumer, records)

    def release(self, consumer: str, records: Sequence[Record]) -> None:
        """Give claimed records back; they are the next to be claimed."""
        self._check()
        with self._turn:
            self._engine.check()
            self._cursors.release(consumer, records)
            self._turn.notify_all()

    def settle(self) -> None:
        """Return when all acks, attachments and detachments made so far are durable."""
        self._check()
        with self._turn:
            self._settle()

    def _settle(self) -> None:
        target = self._cursors.changes
        while True:
            self._engine.check()
            if self._engine.gathered.is_settled(target):
                return
            if self._may_lead():
                self._lead()
            else:
                self._turn.wait(None if self._busy else RETRY)

    def attach(self, lane: str, consumer: str) -> None:
        """Attach a consumer to a stream from the records appended next; `settle` makes it durable."""
        self._locked(self._cursors.attach, lane, consumer)

    def detach(self, lane: str, consumer: str) -> None:
        """Detach a consumer from a stream; records that waited only for it are removed with the next commits."""
        self._locked(self._cursors.detach, lane, consumer)

    def _locked(self, call: Callable[[Section, str, str], object], lane: str, consumer: str) -> None:
        self._check()
        with self._turn:
            self._engine.check()
            call(self._section, lane, consumer)

    def recovered(self, consumer: str, record: Record) -> bool:
        """Whether the record may have been claimed by this consumer before a crash or restart."""
        self._check()
        with self._turn:
            return self._engine.recovered(consumer, record)

    def acked(self, consumer: str, record: Record) -> bool:
        """Whether the consumer has acked the record; costs no disk access."""
        self._check()
        with self._turn:
            return self._cursors.acked(consumer, record)

    def pending(self, consumer: str, lane: str) -> int:
        """Return how many records of a stream wait for this consumer, or are claimed by it."""
        self._check()
        with self._turn:
            return self._section.pending(consumer, lane)

    def totals(self) -> SpoolTotals:
        """Return the totals of ``stats``."""
        self._check()
        with self._turn:
            return self._section.totals()

    def waiting(self) -> list[ConsumerStats]:
        """Return the consumers that have records to claim or to ack."""
        self._check()
        with self._turn:
            return self._section.waiting()

    def stats(self) -> SpoolStats:
        """Return counts kept in memory; ``oldest`` is the record's time, in milliseconds since the epoch."""
        self._check()
        with self._turn:
            return self._section.stats()

    def room(self, lane: str) -> SpoolCapacity:
        """Return the usage of a stream's destination, and the bytes that an append without urgency could add."""
        self._check()
        with self._turn:
            return self._engine.room(self._section, lane)

    def close(self) -> None:
        """Commit what is pending and give up the directory; waiting callers end with SpoolClosed.

        In a forked child it does nothing: the spool is the parent's.
        """
        if self.inherited:
            _INHERITED.append(self._engine)
            return
        with self._turn:
            while self._busy or (self._engine.gathered.entries and self._engine.failed is None):
                if self._busy:
                    self._turn.wait()
                else:
                    self._lead()
            if self._engine.failed is None and not self._engine.closed and self._engine.gathered.pending:
                self._lead()
            self._engine.end()()
            self._turn.notify_all()

    # Committing; the condition is held on entry and on return

    def _lead(self) -> None:
        engine = self._engine
        try:
            engine.write()
            self._outside(engine.commit)
        except apsw.Error as error:
            self._on_error(error)
            return
        self._answer(engine.committed().entries, None)
        if engine.checkpoint_due:
            self._checkpoint(engine.checkpoint)

    def _may_lead(self) -> bool:
        """Whether no commit runs, and the last try was not refused just now."""
        return not self._busy and time.monotonic() >= self._retry_at

    def _checkpoint(self, call: Callable[[], None]) -> None:
        try:
            self._outside(call)
        except apsw.Error as error:
            if outcome(error) not in ("full", "busy"):
                self._on_error(error)

    def _outside(self, call: Callable[[], None]) -> None:
        """Make a slow call with the condition released."""
        self._busy = True
        self._turn.release()
        try:
            call()
        finally:
            self._turn.acquire()
            self._busy = False
            self._turn.notify_all()

    def _answer(self, entries: list[Entry], error: Exception | None) -> None:
        for entry in entries:
            entry.waiter = True
            entry.error = error
        self._turn.notify_all()

    def _on_error(self, error: Exception) -> None:
        kind = outcome(error)
        engine = self._engine
        entries = engine.abort(keep=kind in ("busy", "corrupt"))
        if kind in ("full", "busy"):
            self._retry_at = time.monotonic() + (0 if entries else RETRY)  # acks alone may fit at once
            self._answer(entries, full_error(self.directory))
            self._checkpoint(engine.relieve)
        elif kind == "corrupt":
            self._salvage()
        else:
            self._give_up(entries, error)

    def _salvage(self) -> None:
        salvage = self._engine.salvage()
        try:
            self._outside(salvage.run)
        except Exception as error:  # noqa: BLE001
            self._give_up([], error)
        else:
            self._engine.salvaged(salvage)

    def _give_up(self, entries: list[Entry], error: Exception) -> None:
        failure = self._engine.fail(error)
        self._answer([*entries, *self._engine.gathered.take()], failure)

    def _check(self) -> None:
        if self._engine.pid != os.getpid():
            if self._engine not in _INHERITED:
                _INHERITED.append(self._engine)
            raise SpoolClosed(
                f"the spool {self.directory} belongs to process {self._engine.pid}, which this one was forked from",
                hint="Open a spool in another directory after the fork.",
            )
