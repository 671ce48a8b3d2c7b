"""The SQLite file of a spool: SQL and nothing else.

One connection, WAL, synchronous=FULL but for transactions that hold acks alone. Nothing here decides anything; the
cursors do. Checkpoints are explicit, because SQLite's automatic ones hide a failed fsync, and closing never
checkpoints, because that would retry one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import apsw

from bus.files import make_private
from bus.spool.record import Row, seal

NAME = "spool.db"
VERSION = 1
APPLICATION = 0x50494552
PAGE_SIZE = 4096
BUSY_TIMEOUT = 2000
UNCOUNTED = -1
"""A tally's ``records`` when its stream must be counted anew; consumers it lacks begin with its first record."""
_NEWEST_PLAUSIBLE = 99

_SCHEMA = """
CREATE TABLE IF NOT EXISTS record(position INTEGER PRIMARY KEY, time INTEGER, checksum INTEGER, payload BLOB);
CREATE TABLE IF NOT EXISTS lane(no INTEGER PRIMARY KEY, name TEXT UNIQUE, checksum INTEGER);
CREATE TABLE IF NOT EXISTS lane_copy(no INTEGER PRIMARY KEY, name TEXT, checksum INTEGER);
CREATE TABLE IF NOT EXISTS tally(
    lane INTEGER PRIMARY KEY, last INTEGER, records INTEGER, bytes INTEGER, whole INTEGER, checksum INTEGER);
CREATE TABLE IF NOT EXISTS cursor(
    lane INTEGER, consumer TEXT, next INTEGER, done INTEGER, ending INTEGER, holes BLOB, checksum INTEGER,
    PRIMARY KEY(lane, consumer)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS quarantine(
    position INTEGER PRIMARY KEY, lane TEXT, time INTEGER, payload BLOB, reason TEXT, found_at INTEGER,
    records INTEGER);
"""


_SET_ASIDE = (
    "INSERT INTO quarantine VALUES(?,?,?,?,?,?,?)"
    " ON CONFLICT(position) DO UPDATE SET records = records + excluded.records, found_at = excluded.found_at"
)


class LaneRow(NamedTuple):
    """A stream's number and name, stored twice on different pages since no record can be routed without it."""

    no: int
    name: str


class TallyRow(NamedTuple):
    """A stream's last position, its records and bytes in the file, and the position from which each gap is recorded."""

    lane: int
    last: int
    records: int
    bytes: int
    whole: int


class CursorRow(NamedTuple):
    """A consumer in a stream: below ``next`` all is done but ``holes``; ``done`` counts what it will not claim again.

    ``done`` is counted over all positions ever given out, so that an append need not touch the row.
    ``ending`` says that it was detached and its records are being removed.
    """

    lane: int
    consumer: str
    next: int
    done: int
    ending: int
    holes: Sequence[int]


class DamageRow(NamedTuple):
    """A record set aside (or a run of ``records`` missing ones, with no payload)."""

    position: int
    lane: str
    time: int
    payload: bytes
    reason: str
    found_at: int
    records: int


class Contents(NamedTuple):
    """The bookkeeping that an opener needs; its size does not depend on the backlog.

    A stream that is missing from ``tallies``, or is in ``broken``, had bookkeeping that failed its checksum.
    """

    lanes: list[LaneRow]
    tallies: list[TallyRow]
    cursors: list[CursorRow]
    broken: set[int]
    damaged: dict[str, int]
    clean: bool


class SpoolFile:
    """One open file; not thread-safe, but may be used from one thread after another.

    ``has_all`` says that the last checkpoint copied all of the log.

    Parameters
    ----------
    path
        Created when it does not exist.
    vfs, exclusive
        For tests: another VFS, which as a rule has no shared memory and needs exclusive locking.
    """

    synchronous = "FULL"

    def __init__(self, path: Path, *, vfs: str | None = None, exclusive: bool = False) -> None:
        self.path = path
        self.wal_pages = 0
        self.has_all = False
        self._mode = self.synchronous
        if vfs is None:
            make_private(path)
        self.db = apsw.Connection(str(path), vfs=vfs)
        try:
            self._configure(exclusive)
        except BaseException:
            self.close()
            raise

    @classmethod
    def for_reading(cls, path: Path) -> Self:
        """Open a file that may be another process's, to look at it; nothing can be written."""
        file = cls.__new__(cls)
        file.path = path
        file.wal_pages = 0
        file.has_all = False
        file.db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        file.db.set_busy_timeout(BUSY_TIMEOUT)
        file.db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        return file

    def _configure(self, exclusive: bool) -> None:
        db = self.db
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.set_busy_timeout(BUSY_TIMEOUT)
        if exclusive:
            db.pragma("locking_mode", "EXCLUSIVE")
        db.pragma("page_size", PAGE_SIZE)
        if db.pragma("journal_mode", "wal") != "wal":
            raise apsw.CantOpenError(f"{self.path} cannot use a write-ahead log")
        db.pragma("synchronous", self.synchronous)
        db.pragma("cell_size_check", 1)
        db.pragma("secure_delete", 0)
        db.wal_autocheckpoint(0)
        db.set_wal_hook(self._on_wal)
        version = int(db.pragma("user_version"))
        if version > VERSION and is_plausible(version):
            raise apsw.MismatchError(f"{self.path} has format {version}; this program supports {VERSION}")
        if version == 0:
            self._create()
        if schema(db) != _expected_schema():
            raise apsw.CorruptError(f"{self.path} has a damaged schema")

    def _create(self) -> None:
        with self.db:
            self.db.execute(_SCHEMA)
            self.db.pragma("application_id", APPLICATION)
            self.db.pragma("user_version", VERSION)

    def _on_wal(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def _select(self, query: str, bindings: tuple[object, ...] = ()) -> list[Any]:
        """Return a query's rows; text that is not UTF-8 is corruption like any other."""
        try:
            return list(self.db.execute(query, bindings))
        except UnicodeDecodeError as error:
            raise apsw.CorruptError(f"{self.path}: {error}") from error

    def load(self) -> Contents:
        """Read the bookkeeping; rows that fail their checksum are left out, their streams are in ``broken``."""
        broken: set[int] = set()
        tallies = []
        for *fields, check in self._select("SELECT lane, last, records, bytes, whole, checksum FROM tally"):
            if seal(*fields) == check:
                tallies.append(TallyRow(*fields))
            else:
                broken.add(fields[0])
        cursors = []
        query = "SELECT lane, consumer, next, done, ending, holes, checksum FROM cursor"
        for *fields, check in self._select(query):
            if seal(*fields) == check:
                cursors.append(CursorRow._make((*fields[:5], unpack_holes(fields[5]))))
            else:
                broken.add(fields[0])
                cursors += _restarted(fields)
        return Contents(self._load_lanes(), tallies, cursors, broken, self.damaged(), clean=self._is_clean())

    def _load_lanes(self) -> list[LaneRow]:
        found: dict[int, LaneRow] = {}
        for table in ("lane_copy", "lane"):
            for no, name, check in self._select(f"SELECT no, name, checksum FROM {table} NOT INDEXED"):  # noqa: S608
                if seal(no, name) == check:
                    found[no] = LaneRow(no, name)
        return [found[no] for no in sorted(found)]

    def _is_clean(self) -> bool:
        return self._select("SELECT last FROM tally WHERE lane = -1") == [(1,)]

    def damaged(self) -> dict[str, int]:
        """Return how many records were set aside or found missing, by stream."""
        found = self._select("SELECT lane, total(records) FROM quarantine GROUP BY lane")
        return {lane: int(records) for lane, records in found}

    def quarantine(self) -> list[DamageRow]:
        """Return the records that were set aside."""
        return [DamageRow(*row) for row in self._select("SELECT * FROM quarantine")]

    def read(self, first: int, last: int, limit: int, max_bytes: int) -> tuple[list[Row], bool]:
        """Read up to ``limit`` rows of a range, unverified; stop at ``max_bytes`` of payload.

        The flag says that the range holds no more.

        Raises
        ------
        apsw.CorruptError
            The pages cannot be read, or their positions do not grow: a damaged tree may lead in circles.
        """
        query = "SELECT position, time, checksum, payload FROM record WHERE position BETWEEN ? AND ? LIMIT ?"
        rows: list[Row] = []
        size = 0
        try:
            for row in self.db.execute(query, (first, last, limit)):
                if row[0] < first:
                    raise apsw.CorruptError(f"{self.path}: position {row[0]} comes after {first - 1}")
                first = row[0] + 1
                rows.append(row)
                size += len(row[3]) if isinstance(row[3], bytes) else 0
                if size >= max_bytes:
                    return rows, False
        except UnicodeDecodeError as error:
            raise apsw.CorruptError(f"{self.path}: {error}") from error
        return rows, len(rows) < limit

    def newest(self, first: int, last: int, limit: int) -> list[Row]:
        """Read up to ``limit`` rows of a range, unverified, the last one first."""
        query = (
            "SELECT position, time, checksum, payload FROM record"
            " WHERE position BETWEEN ? AND ? ORDER BY position DESC LIMIT ?"
        )
        return self._select(query, (first, last, limit))

    def get(self, position: int) -> Row | None:
        """Read one row, unverified."""
        query = "SELECT position, time, checksum, payload FROM record WHERE position = ?"
        found = self._select(query, (position,))
        return found[0] if found else None

    def first(self, first: int, last: int) -> tuple[int, int] | None:
        """Return position and time of the first record of a range."""
        query = "SELECT position, CAST(time AS INTEGER) FROM record WHERE position BETWEEN ? AND ? LIMIT 1"
        found = self._select(query, (first, last))
        return found[0] if found else None

    def sizes(self, first: int, last: int, limit: int, max_bytes: int) -> tuple[list[tuple[int, int]], bool]:
        """Return position and payload bytes of up to ``limit`` records of a range, without reading the payloads.

        Stops at ``max_bytes`` of payload. The flag says that the range holds no more.
        """
        query = "SELECT position, coalesce(length(payload), 0) FROM record WHERE position BETWEEN ? AND ? LIMIT ?"
        found: list[tuple[int, int]] = []
        size = 0
        for row in self.db.execute(query, (first, last, limit)):
            found.append(row)
            size += row[1]
            if size >= max_bytes:
                return found, False
        return found, len(found) < limit

    def count(self, first: int, last: int) -> tuple[int, int, int]:
        """Count a range the long way: records, payload bytes, last position (0 when empty)."""
        query = (
            "SELECT count(*), coalesce(sum(length(payload)), 0), coalesce(max(position), 0)"
            " FROM record WHERE position BETWEEN ? AND ?"
        )
        records, size, newest = self._select(query, (first, last))[0]
        return records, size, newest

    def known_damage(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return position and number of records of what was set aside in a range."""
        query = "SELECT position, CAST(records AS INTEGER) FROM quarantine WHERE position BETWEEN ? AND ?"
        return [(position, records or 0) for position, records in self._select(query, (first, last))]

    # Writing; between begin and commit

    def begin(self, *, synced: bool = True) -> None:
        """Open a transaction, whose commit waits for the disk if it is ``synced``."""
        mode = self.synchronous if synced else "NORMAL"
        if mode != self._mode:
            self.db.pragma("synchronous", mode)
            self._mode = mode
        self.db.execute("BEGIN IMMEDIATE")

    def insert(self, rows: Sequence[Row]) -> None:
        """Add records."""
        self.db.executemany("INSERT INTO record VALUES(?,?,?,?)", rows)

    def delete(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Remove ranges of positions, both ends included."""
        self.db.executemany("DELETE FROM record WHERE position BETWEEN ? AND ?", ranges)

    def save_lanes(self, lanes: Iterable[LaneRow]) -> None:
        """Store streams, both copies."""
        for lane in lanes:
            self.db.execute("INSERT OR REPLACE INTO lane VALUES(?,?,?)", (*lane, seal(*lane)))
            self.db.execute("INSERT OR REPLACE INTO lane_copy VALUES(?,?,?)", (*lane, seal(*lane)))

    def save_tallies(self, rows: Iterable[TallyRow]) -> None:
        """Store counts."""
        self.db.executemany("INSERT OR REPLACE INTO tally VALUES(?,?,?,?,?,?)", [(*row, seal(*row)) for row in rows])

    def save_cursors(self, rows: Iterable[CursorRow]) -> None:
        """Store cursors."""
        for row in rows:
            fields = (*row[:5], pack_holes(row.holes))
            self.db.execute("INSERT OR REPLACE INTO cursor VALUES(?,?,?,?,?,?,?)", (*fields, seal(*fields)))

    def drop_cursors(self, cursors: Iterable[tuple[int, str]]) -> None:
        """Forget cursors."""
        self.db.executemany("DELETE FROM cursor WHERE lane = ? AND consumer = ?", cursors)

    def set_aside(self, rows: Iterable[DamageRow]) -> None:
        """Add to the quarantine; counts of the same position add up."""
        self.db.executemany(_SET_ASIDE, rows)

    def commit(self) -> None:
        """Make the transaction durable; the only slow call, safe in another thread."""
        self.db.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction, if one is open."""
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")

    def checkpoint(self, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> int:
        """Copy the log into the file and return how many frames it had; every fsync's failure is raised."""
        frames, copied = self.db.wal_checkpoint(mode=mode)
        self.wal_pages = 0
        self.has_all = frames == copied
        return max(0, frames)

    def mark(self, *, clean: bool, cursors: Sequence[CursorRow] = (), tallies: Sequence[TallyRow] = ()) -> None:
        """Store durably whether the spool was closed in order, and the cursors and tallies that it had then."""
        self.begin()
        self.save_cursors(cursors)
        self.save_tallies([*tallies, TallyRow(-1, int(clean), 0, 0, 0)])
        self.commit()

    def close(self) -> None:
        """Close without a checkpoint; what is not committed is gone."""
        self.db.close(True)


def is_plausible(version: int) -> bool:
    """Whether a version may be a format's; any other comes from damage."""
    return 0 <= version <= _NEWEST_PLAUSIBLE


def schema(db: apsw.Connection) -> list[tuple[object, ...]]:
    """Return the schema as stored, to be compared."""
    try:
        return list(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"))
    except UnicodeDecodeError:
        return []


@cache
def _expected_schema() -> list[tuple[object, ...]]:
    db = apsw.Connection(":memory:")
    db.execute(_SCHEMA)
    found = schema(db)
    db.close()
    return found


def _restarted(fields: list[Any]) -> list[CursorRow]:
    """Return a damaged cursor as one that begins again with the stream's first record, if it names its consumer."""
    lane, consumer = fields[:2]
    return [CursorRow(lane, consumer, 0, 0, 0, [])] if isinstance(lane, int) and isinstance(consumer, str) else []


def pack_holes(positions: Sequence[int]) -> bytes:
    """Pack positions, eight bytes each."""
    return array("q", positions).tobytes()


def unpack_holes(blob: bytes) -> list[int]:
    """Unpack positions."""
    return array("q", blob).tolist()
