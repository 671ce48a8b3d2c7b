"""Acknowledged records behind a damaged place in the write-ahead log.

SQLite stops reading its log at the first frame that fails its checksum; whatever was committed after it would be
gone without a word. The pages there are still read, and their records verified one by one. Only transactions that
others followed are trusted: those were durable before the next began. The last one may be a call that never ended.
"""

from __future__ import annotations

import logging
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from bus.files import make_directory, open_private
from bus.spool.file import NAME, Contents, CursorRow, DamageRow, LaneRow, SpoolFile, TallyRow
from bus.spool.record import LANE_SHIFT, OVERHEAD, SEQUENCE_MASK, Row
from bus.spool.recovery import pages
from bus.spool.recovery.pages import FRAME_BYTES
from bus.spool.recovery.salvage import evidence_directory
from bus.spool.recovery.synced import Extent

_log = logging.getLogger("bus.spool")


@dataclass
class Tail:
    """Verified rows behind the damage, and how many transactions there are."""

    transactions: int = 0
    lanes: dict[int, LaneRow] = field(default_factory=dict)
    tallies: dict[int, TallyRow] = field(default_factory=dict)
    records: dict[int, Row] = field(default_factory=dict)

    def take(self, row: pages.Found) -> None:
        """Keep a row; of several versions of a tally the one with the highest position."""
        if isinstance(row, LaneRow):
            self.lanes[row.no] = row
        elif isinstance(row, TallyRow):
            if row.lane not in self.tallies or row.last >= self.tallies[row.lane].last:
                self.tallies[row.lane] = row
        elif not isinstance(row, CursorRow):
            self.records[row[0]] = row


def read_tail(path: Path, valid: int) -> Tail:
    """Read what follows the ``valid`` first frames of the log; nothing when the log is whole."""
    tail = Tail()
    if not path.exists() or path.stat().st_size == 0:
        return tail
    salt = pages.wal_salt(path)
    found = [frame for frame in pages.frames(path, valid) if frame.salt == salt]
    trusted = max((index for index, frame in enumerate(found[:-1]) if frame.commit), default=-1)
    tail.transactions = sum(frame.commit for frame in found[: trusted + 1])
    images = {frame.page: frame.data for frame in found[: trusted + 1]}
    for frame in found[: trusted + 1]:
        for row in pages.rows(frame.data, lambda number: images.get(number, b""), first=frame.page == 1):
            tail.take(row)
    return tail


def keep_log(directory: Path, tail: Tail) -> None:
    """Keep a copy of the damaged log as evidence."""
    evidence = evidence_directory(directory)
    make_directory(evidence)
    with (directory / f"{NAME}-wal").open("rb") as damaged, open_private(evidence / f"{NAME}-wal") as copy:
        shutil.copyfileobj(damaged, copy)
    _log.error(
        "spool %s: its log is damaged before %d transaction(s); a copy is kept in %s, and what they removed may return",
        directory,
        tail.transactions,
        evidence,
    )


def append_tail(file: SpoolFile, tail: Tail) -> None:
    """Store the records that are newer than the file's bookkeeping, and count those that may be lost.

    Durable when it returns. A record that was appended and acked behind the damage is counted as well.
    """
    contents = file.load()
    known = {row.lane: row for row in contents.tallies}
    names = {row.no: row for row in contents.lanes}
    lanes = {no: lane for no, lane in {**tail.lanes, **names}.items() if no not in contents.broken}
    fresh: dict[int, list[Row]] = {no: [] for no in lanes}
    for position in sorted(tail.records):
        no = position >> LANE_SHIFT
        if no in lanes and (no not in known or position > known[no].last):
            fresh[no].append(tail.records[position])
    file.begin()
    file.save_lanes(lane for no, lane in tail.lanes.items() if no not in names)
    for no, lane in lanes.items():
        _extend(file, lane, known.get(no) or TallyRow(no, no << LANE_SHIFT, 0, 0, 0), tail.tallies.get(no), fresh[no])
        file.save_cursors(
            row._replace(done=row.done + _skipped(known.get(no), tail.tallies.get(no), fresh[no]))
            for row in contents.cursors
            if row.lane == no
        )
    file.commit()
    count = sum(len(found) for found in fresh.values())
    _log.error("%s: %d record(s) behind the damage in the log were recovered", file.path, count)


def count_cut(file: SpoolFile, extent: Extent, frames: int, *, is_told: bool) -> None:
    """Count what a log has lost that is shorter than it was on disk; durable when it returns.

    Parameters
    ----------
    extent
        What the log and the file had.
    frames
        How far the log can be read.
    is_told
        Whether the log is known to be damaged, and its tail was read.
    """
    if frames >= extent.frames:
        return
    missing = extent.appended - appended(file.load())
    if missing > 0:
        row = DamageRow(0, "", 0, b"", "lost with the end of the log, unless acked before", _now(), missing)
        file.begin()
        file.set_aside([row])
        file.commit()
        _log.error(
            "%s-wal was cut while nobody had it open: %d of %d bytes that were on disk are gone, and with them at most "
            "%d record(s); what is in the rest, and in %s, is whole; what was acked of it in the lost part is "
            "delivered again. Look for what cut the file, and have the producers, or the store, asked for what is "
            "missing",
            file.path,
            (extent.frames - frames) * FRAME_BYTES,
            extent.frames * FRAME_BYTES,
            missing,
            file.path,
        )
    elif not is_told:
        _log.warning(
            "%s-wal is shorter than it was: it was cut, or an earlier version of the bus had it meanwhile; no record "
            "is missing, and what was acked in a lost part is delivered again",
            file.path,
        )


def appended(contents: Contents) -> int:
    """Return how many records were ever appended, according to the file."""
    return sum(tally.last & SEQUENCE_MASK for tally in contents.tallies if tally.lane > 0)


def _now() -> int:
    return int(time.time() * 1000)


def _extend(file: SpoolFile, lane: LaneRow, old: TallyRow, later: TallyRow | None, found: list[Row]) -> None:
    """Add the recovered records to a stream, and count the missing ones between them."""
    last = _last(old, later, found)
    if last == old.last:
        return
    size = sum(len(row[3]) + OVERHEAD for row in found)
    file.insert(found)
    file.save_tallies([TallyRow(lane.no, last, old.records + len(found), old.bytes + size, last + 1)])
    missing = last - old.last - len(found)
    if missing:
        reason = "lost in the log, unless acked before"
        file.set_aside([DamageRow(lane.no << LANE_SHIFT, lane.name, 0, b"", reason, _now(), missing)])


def _last(old: TallyRow | None, later: TallyRow | None, found: list[Row]) -> int:
    return max(old.last if old else 0, later.last if later else 0, found[-1][0] if found else 0)


def _skipped(old: TallyRow | None, later: TallyRow | None, found: list[Row]) -> int:
    """Return how many positions of the tail have no record, so that consumers need not claim them."""
    return _last(old, later, found) - old.last - len(found) if old else 0
