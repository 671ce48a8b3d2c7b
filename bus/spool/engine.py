"""One spool without threads or waiting: cursors and file moved in step.

A driver calls ``write`` (memory and page cache only), then ``commit`` (slow, in any thread), then ``committed``;
or ``abort`` after an error. Reads need the file, so they are allowed only while no commit runs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import apsw

from bus.domain.delivery.quota import SpoolCapacity
from bus.error_texts import error_text
from bus.errors import SpoolClosed, SpoolError, SpoolFailed, SpoolFull
from bus.files import make_directory
from bus.localized_text import localized
from bus.ports.spool import NewRecord, Record
from bus.spool.cursors import WINDOW, Cursors
from bus.spool.damage import Damage
from bus.spool.lock import OwnerLock
from bus.spool.options import Options
from bus.spool.record import OVERHEAD, SEQUENCE_MASK, Row, intact
from bus.spool.recovery import restore
from bus.spool.recovery.synced import Mark
from bus.spool.section import Cursor, Section
from bus.spool.storage import drop_ballast, lay_ballast
from bus.spool.transaction import Batch, Entry, Transactions, cursor_row, tally_row

_log = logging.getLogger("bus.spool")

CHECKPOINT_PAGES = 1000
"""The log is copied into the file when it has so many pages (4 MiB), or so many more than at the last copy."""
BALLAST = 6 << 20
"""Bytes kept for a full disk, laid with the first checkpoint: enough to empty the log into the file."""
READ_BYTES = 4 << 20
ROOM_EVERY = 0.5
_LATEST = 1 << 62


class Engine:
    """An open spool directory; belongs to one driver, which serialises all calls.

    Raises on construction
    ----------------------
    SpoolLocked
        Another live process owns the directory.
    SpoolFailed
        The disk failed while opening.
    """

    def __init__(self, directory: Path, options: Options) -> None:
        self.directory = directory
        self.options = options
        self.pid = os.getpid()
        try:
            make_directory(directory)
            self._lock = OwnerLock.take(directory)
        except OSError as error:
            raise SpoolError(
                localized(
                    "the spool {directory} cannot be made: {error}", directory=str(directory), error=error_text(error)
                )
            ) from error
        self.failed: SpoolFailed | None = None
        self.closed = False
        self._room = 0
        self._room_at: float | None = None
        self._room_total = 0
        self._copied = 0
        try:
            self.cursors = Cursors(options.plan, options.cache_bytes)
            self._sections = tuple(self.cursors.sections.values())
            self.file, unmarked = restore.restore(directory, options, self.cursors)
            self.damage = Damage(self.cursors, options.now)
            self.gathered = Transactions(self.cursors, self.damage, unmarked=unmarked)
            self._mark = Mark(directory, self._appended())
        except BaseException:
            self._lock.release()
            raise

    def check(self) -> None:
        """Raise SpoolClosed or SpoolFailed when the spool cannot be used."""
        if self.failed is not None:
            raise SpoolFailed(self.failed.said, hint=self.failed.hint_said)
        if self.closed:
            raise SpoolClosed(localized("the spool {directory} is closed", directory=str(self.directory)))

    @property
    def checkpoint_due(self) -> bool:
        """Whether the log has grown enough since the last copy to be copied into the file.

        What was copied stays in the log as long as another process reads it.
        """
        pages = self.file.wal_pages
        return pages >= CHECKPOINT_PAGES and (pages < self._copied or pages - self._copied >= CHECKPOINT_PAGES)

    def room(self, section: Section, lane: str) -> SpoolCapacity:
        """Return the usage of a stream's destination in a section, and what an append without urgency could add."""
        if not self.options.reserve:
            return section.room(lane, None)
        # What was added since the disk was asked takes space as well.
        added = max(self._total() - self._room_total, 0)
        return section.room(lane, self._free() - self.options.reserve - added)

    def _total(self) -> int:
        total = 0
        for section in self._sections:  # for each message, several times
            total += section.bytes + section.queued
        return total

    def enter(self, section: Section, records: Sequence[NewRecord], urgent: bool) -> Entry:
        """Queue records for the next transaction; nothing is queued when this raises."""
        if self.closed or self.failed is not None:
            self.check()
        records = tuple(records)  # the caller may change its list while the commit gathers
        size = 0
        lanes = section.lanes
        for name, payload, when in records:
            if type(payload) is not bytes or type(when) is not int or type(name) is not str:
                raise TypeError("a record is the name of a stream, bytes, and a whole number of milliseconds")
            if not 0 <= when < _LATEST:
                raise ValueError("a record's time is in milliseconds since the epoch")
            lane = lanes.get(name)
            if lane is None or not lane.open:
                self.cursors.admit(section, name)
            size += len(payload) + OVERHEAD
        options = self.options
        if section.bytes + section.queued + size > section.limit:
            raise SpoolFull(
                localized(
                    "the spool {directory} is at its limit of {limit} bytes; what is stored stays stored",
                    directory=str(self.directory),
                    limit=section.limit,
                ),
                hint=localized("Wait until the receiver took some, or raise the limit."),
            )
        if options.reserve and not urgent and self._free() < options.reserve:
            raise SpoolFull(
                localized(
                    "less than {reserve} bytes are free on the disk of {directory}; nothing stored was lost",
                    reserve=options.reserve,
                    directory=str(self.directory),
                ),
                hint=localized("Free disk space."),
            )
        entry = Entry(section, records, size)
        self.gathered.add(entry)
        return entry

    def _free(self) -> int:
        now = self.options.now()
        if self._room_at is None or abs(now - self._room_at) >= ROOM_EVERY:
            self._room = self.options.free_space(self.directory)
            self._room_at = now
            self._room_total = self._total()
        return self._room

    # The transaction

    def write(self, *, synced: bool = True) -> None:
        """Put everything gathered into a transaction; raises apsw errors, after which `abort` must be called.

        Without ``synced`` its commit costs no fsync if it holds acks alone, and a crash of the host may undo it.
        """
        self.gathered.write(self.file, synced=synced)

    def commit(self) -> None:
        """Make the transaction durable; may run in another thread."""
        self.gathered.commit(self.file)

    def committed(self) -> Batch:
        """Take over what became durable; returns the batch, whose entries can be answered."""
        batch = self.gathered.committed()
        if batch.synced:
            self._mark.commit(self.file.wal_pages, len(batch.rows))
        return batch

    def _appended(self) -> int:
        return sum(lane.last & SEQUENCE_MASK for lane in self.cursors.lanes.values())

    def _empty_log(self) -> None:
        """Copy the log into the file, and note it before the log is written anew."""
        self._copied = self.file.checkpoint()
        if self.file.has_all:
            try:
                self._mark.empty()
            except OSError as error:
                raise apsw.IOError(str(error_text(error))) from error

    def abort(self, *, keep: bool = False) -> list[Entry]:
        """Undo the transaction under way, if any; acks wait for the next one.

        With ``keep`` the appends wait as well; else they are returned, and the caller answers them.
        """
        if self.gathered.batch is None:
            return []
        with suppress(apsw.Error):
            self.file.rollback()
        entries = self.gathered.abort(keep=keep).entries
        return [] if keep else entries

    def fail(self, error: Exception) -> SpoolFailed:
        """Give the spool up after a disk error: nothing is acknowledged any more, and the next opener copies."""
        if self.failed is None:
            self.failed = SpoolFailed(
                localized(
                    "the disk of the spool {directory} failed ({error}); nothing was acknowledged since",
                    directory=str(self.directory),
                    error=error_text(error),
                ),
                hint=localized("Check the disk; what was acknowledged before is read again at the next start."),
            )
            _log.error("spool %s failed: %s", self.directory, error_text(error))
            restore.mark_failed(self.directory, str(error))
        return self.failed

    def checkpoint(self) -> None:
        """Copy the log into the file, and see that there is a ballast; may run in another thread."""
        self._empty_log()
        lay_ballast(self.directory, BALLAST)

    def relieve(self) -> None:
        """After the disk was full, give up the ballast, so that the log can be emptied and acks find space in it."""
        drop_ballast(self.directory)
        self._empty_log()

    def salvage(self) -> restore.SalvageInUse:
        """Return the salvage of the damaged file: its ``run`` copies what can be read into a new one."""
        return restore.SalvageInUse(self.directory, self.options, self.file, self.cursors)

    def salvaged(self, salvage: restore.SalvageInUse) -> None:
        """Continue with the new file."""
        self.file = salvage.file
        salvage.take_over(self.cursors)
        self._mark.appended = self._appended()

    def claim(self, cursor: Cursor, limit: int, *, disk: bool) -> list[Record] | None:
        """Claim from the cache, or with ``disk`` from the file; None says that the file is needed."""
        rows: list[Row] = []
        try:
            self._take_back(cursor, limit, rows, disk=disk)
            if cursor.back and not disk and not rows:
                return None
            upto = self._take_next(cursor, limit, rows, disk=disk)
        except apsw.Error:
            for row in rows:
                cursor.give_back(row[0], row[1])
            raise
        if upto is None:
            return None
        records = self.cursors.hold(cursor, rows, upto)
        self._reconcile(cursor)
        return records

    def _reconcile(self, cursor: Cursor) -> None:
        """Find out about records that are counted but gone, once the consumer has had all there is."""
        if cursor.pending and cursor.finished:
            self.damage.reconcile(cursor)

    def _take_next(self, cursor: Cursor, limit: int, rows: list[Row], *, disk: bool) -> int | None:
        """Add what was never claimed; returns the cursor's new place, or None when the file is needed."""
        room = min(limit - len(rows), WINDOW - cursor.ahead)
        if room <= 0 or cursor.back or cursor.next > cursor.lane.committed:
            return cursor.next
        fresh = self.cursors.from_cache(cursor, room)
        upto = cursor.next + len(fresh)
        if not fresh and disk:
            fresh, upto = self._read(cursor, room)
        elif not fresh and not rows:
            return None
        rows += fresh
        return upto

    def newest(self, cursor: Cursor, limit: int, before: int | None) -> list[Record]:
        """Return the newest intact records that are not acked, the newest first, and claim none; reads the file."""
        last = cursor.lane.committed if before is None else min(before - 1, cursor.lane.committed)
        rows = self.file.newest(cursor.next, last, limit)
        for position in reversed(cursor.holes()):
            if len(rows) == limit:
                break
            if position <= last and (row := self.file.get(position)) is not None:
                rows.append(row)
        name = cursor.lane.name
        return [Record(position, name, payload, time) for position, time, _, payload in filter(intact, rows)]

    def ack(self, consumer: str, records: Sequence[Record]) -> None:
        """Finish claimed records; durable with the next commit."""
        self.check()
        self.cursors.ack(consumer, records)
        cursor = self.cursors.find(records[-1].position, consumer) if records else None
        if cursor is not None:
            self._reconcile(cursor)

    def recovered(self, consumer: str, record: Record) -> bool:
        """Whether the consumer may have claimed the record before the spool was opened."""
        cursor = self.cursors.find(record.position, consumer)
        return cursor is not None and (record.position < cursor.horizon or record.position in cursor.suspects)

    def _take_back(self, cursor: Cursor, limit: int, rows: list[Row], *, disk: bool) -> None:
        while cursor.back and len(rows) < limit:
            position, when = cursor.pop_back()
            row = self.cursors.cache.get(position)
            if row is None and not disk:
                cursor.give_back(position, when)
                break
            row = row or self._verified(cursor, position, when)
            if row is not None:
                rows.append(row)

    def _verified(self, cursor: Cursor, position: int, when: int) -> Row | None:
        cursor.give_back(position, when)
        row = self.file.get(position)
        if row is not None and intact(row):
            cursor.pop_back()
            return row
        if row is None and position < cursor.lane.whole:
            self.damage.forget(cursor.lane, position)
        else:
            self.damage.condemn(cursor.lane, position, row)
        return None

    def _read(self, cursor: Cursor, limit: int) -> tuple[list[Row], int]:
        """Read what comes next from the file, past any damage; the cursor stays before what is returned."""
        while True:
            good, upto = self._read_once(cursor, limit)
            if good or upto > cursor.lane.committed:
                break
            cursor.next = upto
        return good, upto

    def _read_once(self, cursor: Cursor, limit: int) -> tuple[list[Row], int]:
        lane = cursor.lane
        found, whole = self.file.read(cursor.next, lane.committed, limit + 1, READ_BYTES)
        if whole:
            upto = lane.committed + 1
        elif len(found) > 1:
            upto, cursor.oldest = found.pop()[:2]
        else:
            upto = found[-1][0] + 1
        positions = [row[0] for row in found]
        good = []
        for row in found:
            if intact(row):
                good.append(row)
            else:
                self.damage.condemn(lane, row[0], row)
        self.damage.check_gaps(self.file, max(cursor.next, lane.whole), upto, positions)
        return good, upto

    # The end

    def end(self) -> Callable[[], None]:
        """Take no more calls; return what stores a clean end, when the disk allows, and gives the directory up.

        That is slow, and may run in another thread. May be called twice.
        """
        if self.closed:
            return lambda: None
        self.closed = True
        return partial(self._finish, self._last_mark())

    def _finish(self, mark: Callable[[], None]) -> None:
        try:
            if self.failed is None:
                mark()
                self._empty_log()
                if self.file.has_all:
                    self.file.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            _log.warning("spool %s could not be closed in order: %s", self.directory, error)
        finally:
            self._give_up()

    def _give_up(self) -> None:
        self.file.close()
        self._mark.close()
        self._lock.release()

    def _last_mark(self) -> Callable[[], None]:
        """Return what stores where everybody is; clean unless a record may still have been claimed before a crash."""
        lanes = self.cursors.lanes.values()
        cursors = [cursor for lane in lanes for cursor in lane.cursors.values()]
        return partial(
            self.file.mark,
            clean=all(cursor.horizon <= cursor.next for cursor in cursors),
            cursors=[cursor_row(cursor) for cursor in self.cursors.moved()],
            tallies=[tally_row(lane) for lane in lanes if lane.stored],
        )

    def crash(self) -> None:
        """Give the directory up as a kill would, for tests; no effect after `end`."""
        if self.closed:
            return
        self.closed = True
        self._give_up()
