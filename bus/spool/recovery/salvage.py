"""A new file out of a damaged one: every record that can be verified is kept, the rest is counted.

The new file is complete and durable before the old one is moved, so a restart after a crash in between continues it.
"""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from bus.files import make_directory, sync_directory, write_whole
from bus.spool.file import NAME, PAGE_SIZE, UNCOUNTED, CursorRow, DamageRow, LaneRow, SpoolFile, TallyRow
from bus.spool.record import LANE_SHIFT, OVERHEAD, SEQUENCE_MASK, Row, intact
from bus.spool.recovery import pages

_log = logging.getLogger("bus.spool")

BUILDING = "spool.db.salvaging"
READY = "spool.db.salvaged"
EVIDENCE = "damaged"
SKIP = 1 << 20
"""Positions left out after a stream's count was lost, so that none is used again."""
_CHUNK = 500
_READ_BYTES = 8 << 20
_END = (1 << 63) - 1


@dataclass
class DamagedFile:
    """The contents of a damaged file besides its records; the newest of several versions counts.

    ``unread`` are ranges of positions that SQLite could not read, ``spoiled`` counts records by stream that failed
    their checksum, ``broken`` are streams whose bookkeeping is incomplete, and ``torn`` says that all of
    it may be.
    """

    lanes: dict[int, LaneRow] = field(default_factory=dict)
    tallies: dict[int, TallyRow] = field(default_factory=dict)
    cursors: dict[tuple[int, str], CursorRow] = field(default_factory=dict)
    damage: list[DamageRow] = field(default_factory=list)
    unread: list[tuple[int, int]] = field(default_factory=list)
    spoiled: dict[int, int] = field(default_factory=dict)
    broken: set[int] = field(default_factory=set)
    torn: bool = False

    def take(self, row: LaneRow | TallyRow | CursorRow) -> None:
        """Keep a row of bookkeeping."""
        if isinstance(row, LaneRow):
            self.lanes[row.no] = row
        elif isinstance(row, TallyRow):
            known = self.tallies.get(row.lane)
            if known is None or row.last >= known.last:
                self.tallies[row.lane] = row
        else:
            other = self.cursors.get((row.lane, row.consumer))
            if other is None or (row.next, row.done) >= (other.next, other.done):
                self.cursors[row.lane, row.consumer] = row

    def wanted(self) -> Callable[[int], bool]:
        """Return a test whether a record may still be needed, as far as is known."""
        cursors: dict[int, list[tuple[int, frozenset[int]]]] = {}
        for cursor in self.cursors.values():
            cursors.setdefault(cursor.lane, []).append((cursor.next, frozenset(cursor.holes)))

        def test(position: int) -> bool:
            own = cursors.get(position >> LANE_SHIFT)
            return own is None or any(position >= start or position in holes for start, holes in own)

        return test


def interrupted(directory: Path) -> bool:
    """Whether a salvage was complete but its file not yet in place."""
    return (directory / READY).exists()


def salvage(directory: Path, reason: str, vfs: str | None = None) -> Path:
    """Copy what can be verified into a new file and put it in place; return where the evidence is.

    May be repeated after a crash at any moment.
    """
    evidence = evidence_directory(directory)
    if not interrupted(directory):
        _log.error("spool %s is salvaged (%s); the damaged file is kept in %s", directory, reason, evidence)
        _build(directory, vfs)
        (directory / BUILDING).rename(directory / READY)
        sync_directory(directory)
    make_directory(evidence)
    write_whole(evidence / "reason.json", json.dumps({"reason": reason}).encode())
    for name in (f"{NAME}-wal", f"{NAME}-shm", NAME):  # the log first: it must never meet the new file
        with suppress(FileNotFoundError):
            (directory / name).rename(evidence / name)
    sync_directory(evidence)
    sync_directory(directory)
    (directory / READY).rename(directory / NAME)
    sync_directory(directory)
    return evidence


def evidence_directory(directory: Path) -> Path:
    """Return a new place for a damaged file; nothing is made yet."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    candidates = (directory / EVIDENCE / (f"{stamp}-{number}" if number else stamp) for number in itertools.count())
    return next(candidate for candidate in candidates if not candidate.exists())


def _build(directory: Path, vfs: str | None) -> None:
    for suffix in ("", "-wal", "-shm"):
        (directory / f"{BUILDING}{suffix}").unlink(missing_ok=True)
    target = SpoolFile(directory / BUILDING, vfs=vfs, exclusive=vfs is not None)
    try:
        _copy(directory / NAME, target, vfs)
        target.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        target.close()
    for suffix in ("-wal", "-shm"):
        (directory / f"{BUILDING}{suffix}").unlink(missing_ok=True)


def _copy(source: Path, target: SpoolFile, vfs: str | None) -> None:
    wreck = DamagedFile()
    wreck.torn = not _copy_by_sql(source, target, wreck, vfs)
    if not wreck.torn:
        wreck.unread += _misplaced(target, wreck)
    if wreck.torn or wreck.unread:
        _copy_raw(source, target, wreck)
    _finish(target, wreck)


# Through SQLite, as far as it goes


def _copy_by_sql(source: Path, target: SpoolFile, wreck: DamagedFile, vfs: str | None) -> bool:
    """Copy by SQL; ranges that cannot be read are left in ``wreck.unread``. False when even less can be read."""
    try:
        file = SpoolFile(source, vfs=vfs, exclusive=vfs is not None)
    except apsw.Error:
        return False
    try:
        contents = file.load()
        for lane in contents.lanes:
            wreck.take(lane)
        for tally in contents.tallies:
            wreck.take(tally)
        for cursor in contents.cursors:
            wreck.take(cursor)
        wreck.broken = contents.broken
        with suppress(apsw.Error):
            wreck.damage += file.quarantine()
        _copy_records(file, target, wreck)
    except apsw.Error:
        return False
    finally:
        file.close()
    return True


def _copy_records(file: SpoolFile, target: SpoolFile, wreck: DamagedFile) -> None:
    first = 0
    while True:
        try:
            found, whole = file.read(first, _END, _CHUNK, _READ_BYTES)
        except apsw.Error:
            if first < (first := _copy_singly(file, target, wreck, first)):
                continue
            return
        _keep(target, found, wreck)
        if whole or found[-1][0] >= _END:
            return
        first = found[-1][0] + 1


def _copy_singly(file: SpoolFile, target: SpoolFile, wreck: DamagedFile, first: int) -> int:
    """Copy one by one up to the first unreadable place and return where reading works again."""
    while True:
        try:
            found, _ = file.read(first, _END, 1, 1)
        except apsw.Error:
            break
        if not found or found[0][0] >= _END:
            return first
        _keep(target, found, wreck)
        first = found[0][0] + 1
    again = _next_readable(file, first)
    wreck.unread.append((first, again - 1))
    return again if again <= _END else first


def _next_readable(file: SpoolFile, first: int) -> int:
    """Find the lowest position from which a read works, by doubling steps and then halving them."""

    def works(position: int) -> bool:
        try:
            file.read(position, _END, 1, 1)
        except apsw.Error:
            return False
        return True

    low, step = first, 1
    while not works(min(low + step, _END)):
        low, step = low + step, step * 2
        if low >= _END:
            return _END + 1
    high = low + step
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def _keep(target: SpoolFile, found: list[Row], wreck: DamagedFile) -> None:
    good = [row for row in found if intact(row)]
    now = int(time.time() * 1000)
    for row in found:
        if not intact(row) and isinstance(row[0], int):
            payload = row[3] if isinstance(row[3], bytes) else b""
            wreck.damage.append(DamageRow(row[0], "", 0, payload, "checksum", now, 1))
            lane = row[0] >> LANE_SHIFT
            wreck.spoiled[lane] = wreck.spoiled.get(lane, 0) + 1
    target.begin()
    target.db.executemany("INSERT OR IGNORE INTO record VALUES(?,?,?,?)", good)
    target.commit()


def _misplaced(target: SpoolFile, wreck: DamagedFile) -> list[tuple[int, int]]:
    """Return ranges in which SQLite did not find records that must be there: its tree is damaged, not its leaves."""
    ranges = []
    for tally in wreck.tallies.values():
        first = (tally.lane << LANE_SHIFT) + 1
        records = target.count(first, first | SEQUENCE_MASK)[0] + wreck.spoiled.get(tally.lane, 0)
        starts = [cursor.next for cursor in wreck.cursors.values() if cursor.lane == tally.lane]
        if tally.lane > 0 and records < tally.records and starts:
            ranges.append((max(first, tally.whole, min(starts)), tally.last))
    return ranges


# Page by page


def _copy_raw(source: Path, target: SpoolFile, wreck: DamagedFile) -> None:
    if wreck.torn:
        for _ in _raw_rows(source, wreck):  # first the bookkeeping, which says what is still wanted
            pass
    wanted = wreck.wanted()
    records: list[Row] = []
    for row in _raw_rows(source, wreck):
        if wanted(row[0]) if wreck.torn else any(low <= row[0] <= high for low, high in wreck.unread):
            records.append(row)
        if len(records) >= _CHUNK:
            _keep(target, records, wreck)
            records = []
    _keep(target, records, wreck)


def _raw_rows(source: Path, wreck: DamagedFile) -> Iterator[Row]:
    for page, read, first in _images(source):
        for row in pages.rows(page, read, first=first):
            if isinstance(row, (LaneRow, TallyRow, CursorRow)):
                wreck.take(row)
            else:
                yield row


def _images(source: Path) -> Iterator[tuple[bytes, Callable[[int], bytes], bool]]:
    """Yield every page image: the log's current generation, and the file's."""
    log_path = source.with_name(f"{source.name}-wal")
    salt = pages.wal_salt(log_path) if log_path.exists() else b""
    latest = {frame.page: frame.data for frame in pages.frames(log_path) if frame.salt == salt}
    with source.open("rb") as file:

        def read(number: int) -> bytes:
            return latest.get(number) or pages.page_of(file, number)

        for frame in pages.frames(log_path):
            if frame.salt == salt:
                yield frame.data, read, frame.page == 1
        for number in range(1, source.stat().st_size // PAGE_SIZE + 1):
            yield pages.page_of(file, number), read, number == 1


# The new file's bookkeeping


def _finish(target: SpoolFile, wreck: DamagedFile) -> None:
    used = [no for (no,) in target.db.execute(f"SELECT DISTINCT position >> {LANE_SHIFT} FROM record")]  # noqa: S608
    for no in used:
        wreck.lanes.setdefault(no, LaneRow(no, f"lost-lane-{no}"))
    tallies, cursors = [], []
    for lane in wreck.lanes.values():
        own = [cursor for cursor in wreck.cursors.values() if cursor.lane == lane.no]
        tally = _tally(target, lane, own, wreck)
        tallies.append(tally)
        cursors += [_recount(target, cursor, tally) for cursor in own]
    if wreck.torn and not wreck.tallies:
        wreck.damage.append(DamageRow(0, "", 0, b"", "unreadable, at least one", int(time.time() * 1000), 1))
    target.begin()
    target.save_lanes(wreck.lanes.values())
    target.save_tallies(tallies)
    target.save_cursors(cursors)
    names = {row.no: row.name for row in wreck.lanes.values()}
    target.set_aside(row._replace(lane=row.lane or names.get(row.position >> LANE_SHIFT, "")) for row in wreck.damage)
    target.commit()


def _tally(target: SpoolFile, lane: LaneRow, cursors: list[CursorRow], wreck: DamagedFile) -> TallyRow:
    first, end = (lane.no << LANE_SHIFT) + 1, (lane.no << LANE_SHIFT) | SEQUENCE_MASK
    records, size, newest = target.count(first, end)
    known = wreck.tallies.get(lane.no)
    last = max(newest, first - 1, *(cursor.next - 1 for cursor in cursors), known.last if known else 0)
    if known is None or wreck.torn:
        last = min(last + SKIP, end)
    lost = known.records - records - wreck.spoiled.get(lane.no, 0) if known else 0
    if lost > 0:
        _log.error("spool lane %s lost %d record(s) that could not be read", lane.name, lost)
        wreck.damage.append(DamageRow(first - 1, lane.name, 0, b"", "unreadable", int(time.time() * 1000), lost))
    return TallyRow(
        lane.no,
        last,
        UNCOUNTED if wreck.torn or lane.no in wreck.broken else records,
        size + records * OVERHEAD,
        last + 1,
    )


def _recount(target: SpoolFile, cursor: CursorRow, tally: TallyRow) -> CursorRow:
    first = max(cursor.next, (cursor.lane << LANE_SHIFT) + 1)
    waiting = target.count(first, (cursor.lane << LANE_SHIFT) | SEQUENCE_MASK)[0]
    holes = [position for position in cursor.holes if target.first(position, position)]
    done = (tally.last & SEQUENCE_MASK) - waiting - len(holes)
    return cursor._replace(holes=holes, done=done)
