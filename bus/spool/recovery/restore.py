"""Opening a spool directory: the file, its bookkeeping, and what to do when they are not as they should be."""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from pathlib import Path

import apsw

from bus.error_texts import error_text
from bus.errors import SpoolError, SpoolFailed
from bus.files import sync_directory
from bus.spool.cursors import WINDOW, Cursors
from bus.spool.file import NAME, UNCOUNTED, Contents, CursorRow, SpoolFile, TallyRow
from bus.spool.options import Options
from bus.spool.record import OVERHEAD, SEQUENCE_MASK, runs
from bus.spool.recovery import salvage, synced
from bus.spool.recovery.tail import append_tail, appended, count_cut, keep_log, read_tail
from bus.spool.section import Cursor, Lane

_log = logging.getLogger("bus.spool")

FAILED = "spool.failed"
_PASSING = (apsw.FullError, apsw.BusyError)
_DISK = (apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.NoMemError)


def mark_failed(directory: Path, reason: str) -> None:
    """Leave word for the next opener that the file cannot be trusted; on a disk that fails this may fail too."""
    with suppress(OSError):
        descriptor = os.open(directory / FAILED, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, json.dumps({"reason": reason}).encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_directory(directory)


def restore(directory: Path, options: Options, cursors: Cursors) -> tuple[SpoolFile, bool]:
    """Open the file and fill the cursors.

    Returns the file, how many records are known as damaged, and whether the mark of an unclean end must still
    be stored (the disk was full). A corrupt file, or one whose fsync failed, is copied first.

    Raises
    ------
    SpoolFailed
        The disk failed.
    """
    try:
        return _restore(directory, options, cursors)
    except apsw.MismatchError as error:
        raise SpoolError(str(error), hint="Use the version of the bus that wrote it.") from error
    except (apsw.Error, OSError) as error:
        if isinstance(error, apsw.IOError):
            mark_failed(directory, str(error))
        raise SpoolFailed(
            f"the spool {directory} cannot be opened: {error_text(error)}", hint="Check the disk."
        ) from error


def _restore(directory: Path, options: Options, cursors: Cursors) -> tuple[SpoolFile, bool]:
    fresh = not (directory / NAME).exists()
    file = _open(directory, options)
    try:
        try:
            contents, lanes, unmarked = _read(file, cursors)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            file.close()
            file = salvaged(directory, options, str(error))
            contents, lanes, unmarked = _read(file, cursors)
    except BaseException:
        file.close()
        raise
    if fresh:
        sync_directory(directory)
    for lane in lanes:
        cursors.restore(lane)
    for lane in lanes:
        _settle_consumers(cursors, lane)
    cursors.count_damage(contents.damaged)
    return file, unmarked


def _read(file: SpoolFile, cursors: Cursors) -> tuple[Contents, list[Lane], bool]:
    contents = file.load()
    lanes = _lanes(file, contents, cursors)
    return contents, lanes, _mark(file, contents)


def _open(directory: Path, options: Options) -> SpoolFile:
    if (directory / FAILED).exists() and (directory / NAME).exists():
        return salvaged(directory, options, "the disk failed under it")
    if salvage.interrupted(directory):
        return salvaged(directory, options, "an earlier salvage did not end")
    try:
        return _checked(directory, options)
    except (apsw.MismatchError, *_PASSING, *_DISK):
        raise
    except apsw.Error as error:
        _log.error("spool %s is corrupt: %s", directory, error)
        return salvaged(directory, options, str(error))


def _checked(directory: Path, options: Options) -> SpoolFile:
    """Open the file, read its bookkeeping once, and copy its log into it, as no earlier fsync is trusted."""
    file = open_file(directory, options)
    try:
        file.load()
        with suppress(*_PASSING):
            frames = file.checkpoint(apsw.SQLITE_CHECKPOINT_RESTART)
            tail = read_tail(directory / f"{NAME}-wal", frames)
            if tail.transactions:
                keep_log(directory, tail)
                append_tail(file, tail)
            count_cut(file, synced.read(directory), frames, is_told=bool(tail.transactions))
            if file.has_all:
                synced.empty(directory, appended(file.load()))
    except BaseException:
        file.close()
        raise
    return file


def open_file(directory: Path, options: Options) -> SpoolFile:
    """Open the file as it is."""
    return options.file_class(directory / NAME, vfs=options.vfs, exclusive=options.vfs is not None)


def salvaged(directory: Path, options: Options, reason: str) -> SpoolFile:
    """Set the file aside as evidence, copy all that can be verified into a new one, and open that."""
    synced.empty(directory, 0)  # the log that it described is set aside with the file
    salvage.salvage(directory, reason, options.vfs)
    with suppress(FileNotFoundError):
        (directory / FAILED).unlink()
    sync_directory(directory)
    return open_file(directory, options)


def _mark(file: SpoolFile, contents: Contents) -> bool:
    if not contents.clean:
        return False
    try:
        file.mark(clean=False)
    except (apsw.FullError, apsw.BusyError):
        file.rollback()
        return True
    return False


def _lanes(file: SpoolFile, contents: Contents, known: Cursors) -> list[Lane]:
    tallies = {tally.lane: tally for tally in contents.tallies}
    cursors: dict[int, list[CursorRow]] = {}
    for cursor in contents.cursors:
        cursors.setdefault(cursor.lane, []).append(cursor)
    lanes = []
    for row in contents.lanes:
        own = cursors.get(row.no, [])
        section, name = known.section_of(row.name)
        lane = _filled(file, Lane(row.no, name, section), tallies.get(row.no), own, broken=row.no in contents.broken)
        lane.stored = True
        for cursor_row in own:
            lane.add(_cursor(file, lane, cursor_row, clean=contents.clean))
        _count_pending(file, lane, own)
        if lane.sole is not None:  # a sole consumer's acks just delete records, so gaps up to the horizon are no damage
            lane.whole = max(lane.whole, lane.sole.horizon)
        lanes.append(lane)
    return lanes


def _filled(file: SpoolFile, lane: Lane, tally: TallyRow | None, cursors: list[CursorRow], *, broken: bool) -> Lane:
    """Return a stream with its bookkeeping from the file."""
    if tally is not None:
        lane.last, lane.records, lane.bytes, lane.whole = tally[1:]
    lane.suspect = broken or tally is None or lane.records == UNCOUNTED or (lane.records > 0 and not cursors)
    if lane.suspect:
        records, size, newest = file.count(lane.first, lane.end)
        lane.last = max(lane.last, newest, *(cursor.next - 1 for cursor in cursors))
        lane.last = lane.last if tally else min(lane.last + salvage.SKIP, lane.end)
        lane.records, lane.bytes, lane.whole = records, size + records * OVERHEAD, lane.last + 1
    lane.committed = lane.last
    return lane


def _cursor(file: SpoolFile, lane: Lane, row: CursorRow, *, clean: bool) -> Cursor:
    cursor = Cursor(lane, row.consumer, min(max(row.next, lane.first), lane.last + 1))
    cursor.ending = bool(row.ending)
    for position in row.holes:
        found = file.first(position, position)
        if found is not None:
            cursor.give_back(*found)
    cursor.suspects = frozenset(cursor.back)
    cursor.horizon = 0 if clean else min(cursor.next + WINDOW, lane.last + 1)
    found = file.first(cursor.next, lane.end)
    cursor.oldest = found[1] if found else 0
    return cursor


def _count_pending(file: SpoolFile, lane: Lane, rows: list[CursorRow]) -> None:
    for row in rows:
        cursor = lane.cursors[row.consumer]
        if lane.suspect:
            cursor.pending = file.count(cursor.next, lane.end)[0] + len(cursor.back)
        elif lane.sole is not None:
            cursor.pending = lane.records
        else:
            cursor.pending = (lane.last & SEQUENCE_MASK) - row.done


def _settle_consumers(cursors: Cursors, lane: Lane) -> None:
    cursors.attach_defaults(lane)
    for cursor in list(lane.cursors.values()):
        if cursor.ending:
            cursors.ending[cursor] = None
            cursors.mark(cursor)
        else:
            lane.section.refresh(cursor)
        if lane.suspect:
            cursors.touch(lane)
            cursors.mark(cursor)


class SalvageInUse:
    """The salvage of a file whose spool stays in use: appends are gathered, records in memory are claimed and acked.

    So ``run``, which may be called in another thread, uses the cursors as they were when the salvage was made.
    """

    def __init__(self, directory: Path, options: Options, file: SpoolFile, cursors: Cursors) -> None:
        self._directory = directory
        self._options = options
        self._doomed, cursors.doomed = cursors.doomed, []
        lanes = list(cursors.lanes.values())
        self._lanes = [(lane, lane.records, lane.bytes) for lane in lanes]
        self._cursors = [
            (cursor, cursor.next, len(cursor.held) + len(cursor.back) - cursor.pending)
            for lane in lanes
            for cursor in lane.cursors.values()
        ]
        self._sizes: list[tuple[int, int, int]] = []
        self._left: list[int] = []
        self._damaged: dict[str, int] = {}
        self.file = file

    def run(self) -> None:
        """Copy what can be read into a new file, and count that; slow."""
        self.file.close()
        self.file = salvaged(self._directory, self._options, "damaged in use")
        if self._doomed:
            self.file.begin()
            self.file.delete(runs(self._doomed))
            self.file.commit()
        self._sizes = [self.file.count(lane.first, lane.end) for lane, _, _ in self._lanes]
        self._left = [self.file.count(place, cursor.lane.end)[0] for cursor, place, _ in self._cursors]
        self._damaged = self.file.damaged()

    def take_over(self, cursors: Cursors) -> None:
        """Fit the cursors to the new file, and have all bookkeeping stored anew."""
        for (lane, records, size), (found, payload, _) in zip(self._lanes, self._sizes, strict=True):
            lane.section.count(lane, found - records, payload + found * OVERHEAD - size)
            lane.whole = lane.last + 1
            lane.stored = False
            cursors.touch(lane)
        for (cursor, _, claimed), left in zip(self._cursors, self._left, strict=True):
            cursor.pending += left + claimed
            cursors.mark(cursor)
        cursors.count_damage(self._damaged)
