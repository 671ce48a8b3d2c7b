"""A look into a spool directory without taking it: read-only, safe while its owner works."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

import apsw

from bus.errors import SpoolError
from bus.ports.spool import ConsumerStats, Record
from bus.spool.file import NAME, Contents, CursorRow, DamageRow, LaneRow, SpoolFile, TallyRow
from bus.spool.lock import is_live, owner
from bus.spool.record import LANE_SHIFT, SEQUENCE_MASK, intact
from bus.spool.recovery.salvage import EVIDENCE

_CHUNK = 100
_READ_BYTES = 1 << 20


class Overview(NamedTuple):
    """The state of a spool's directory, as ``bus spool ls`` shows it.

    Attributes
    ----------
    live
        Whether a process owns it now; ``owner`` is what that one, or the last one, wrote about itself.
    records, bytes
        In the file, as of its last commit.
    damaged
        Records set aside or lost so far; ``evidence`` are the damaged files that were kept.
    idle
        Seconds since the last commit.
    consumers
        Each one's backlog in each stream; ``oldest`` is a record's time in milliseconds since the epoch.
    """

    directory: Path
    live: bool
    owner: dict[str, object]
    records: int
    bytes: int
    damaged: int
    idle: float
    consumers: list[ConsumerStats]
    evidence: list[Path]


class Inspection:
    """A read-only connection to a spool's file.

    Nothing is recovered, salvaged or counted anew: what is shown is what the last commit said.

    Raises on construction
    ----------------------
    SpoolError
        There is no spool in the directory, or its file cannot be read as it is.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        path = self.directory / NAME
        if not path.exists():
            raise SpoolError(f"there is no spool in {self.directory}")
        try:
            self._file = SpoolFile.for_reading(path)
        except apsw.Error as error:
            raise _unreadable(self.directory, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the look."""
        self._file.close()

    def overview(self) -> Overview:
        """Return counts by stream and consumer; costs no scan of the records."""
        contents = self._load()
        tallies = {tally.lane: tally for tally in contents.tallies if tally.lane > 0}
        return Overview(
            directory=self.directory,
            live=is_live(self.directory),
            owner=owner(self.directory),
            records=sum(max(0, tally.records) for tally in tallies.values()),
            bytes=sum(tally.bytes for tally in tallies.values()),
            damaged=sum(contents.damaged.values()),
            idle=max(0.0, time.time() - _touched(self.directory)),
            consumers=list(self._consumers(contents, tallies)),
            evidence=sorted((self.directory / EVIDENCE).glob("*")),
        )

    def peek(self, lane: str, limit: int = 10) -> list[Record]:
        """Return the first intact records of a stream, also when another process owns the spool."""
        contents = self._load()
        no = next((row.no for row in contents.lanes if row.name == lane), None)
        if no is None:
            return []
        found: list[Record] = []
        first, end = (no << LANE_SHIFT) + 1, (no << LANE_SHIFT) | SEQUENCE_MASK
        while len(found) < limit:
            rows, whole = self._read(first, end, min(_CHUNK, limit - len(found)))
            found += [Record(row[0], lane, row[3], row[1]) for row in rows if intact(row)]
            if whole:
                break
            first = rows[-1][0] + 1
        return found

    def quarantine(self) -> list[DamageRow]:
        """Return the records that were set aside; a row without payload stands for records that are lost."""
        try:
            return self._file.quarantine()
        except apsw.Error as error:
            raise _unreadable(self.directory, error) from error

    def _load(self) -> Contents:
        try:
            return self._file.load()
        except apsw.Error as error:
            raise _unreadable(self.directory, error) from error

    def _read(self, first: int, end: int, limit: int) -> tuple[list[tuple[int, int, int, bytes]], bool]:
        try:
            return self._file.read(first, end, limit, _READ_BYTES)
        except apsw.Error as error:
            raise _unreadable(self.directory, error) from error

    def _consumers(self, contents: Contents, tallies: dict[int, TallyRow]) -> Iterator[ConsumerStats]:
        for lane in contents.lanes:
            cursors = [cursor for cursor in contents.cursors if cursor.lane == lane.no]
            tally = tallies.get(lane.no)
            for cursor in cursors:
                if not cursor.ending and tally is not None:
                    alone = len(cursors) == 1
                    records = tally.records if alone else (tally.last & SEQUENCE_MASK) - cursor.done
                    yield self._stats(lane, cursor, max(0, records), alone=alone)

    def _stats(self, lane: LaneRow, cursor: CursorRow, records: int, *, alone: bool) -> ConsumerStats:
        first = min((cursor.next, *cursor.holes)) if not alone else (lane.no << LANE_SHIFT) + 1
        oldest = self._file.first(first, (lane.no << LANE_SHIFT) | SEQUENCE_MASK) if records else None
        return ConsumerStats(lane.name, cursor.consumer, records, oldest[1] if oldest else None)


def spools(root: str | os.PathLike[str]) -> list[Path]:
    """Return the spool directories at or below a directory."""
    return sorted(path.parent for path in Path(root).rglob(NAME) if EVIDENCE not in path.parts)


def _touched(directory: Path) -> float:
    """Return the time of the last write to the spool's files, in seconds since the epoch."""
    paths = [directory / NAME, directory / f"{NAME}-wal"]
    return max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)


def _unreadable(directory: Path, error: apsw.Error) -> SpoolError:
    return SpoolError(
        f"the spool in {directory} cannot be read: {error}",
        hint="Opening it (bus spool drain) salvages what can be verified.",
    )
