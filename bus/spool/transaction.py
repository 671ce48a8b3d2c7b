"""One commit, assembled from the requests that were gathered, and rolled back when it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from zlib import crc32

from bus.ports.spool import NewRecord, Record
from bus.spool.cursors import Cursors
from bus.spool.damage import Damage
from bus.spool.file import CursorRow, DamageRow, LaneRow, SpoolFile, TallyRow
from bus.spool.record import LANE_SHIFT, OVERHEAD, SEQUENCE_MASK, Row, pack_key, runs
from bus.spool.section import Cursor, Lane, Section

SWEEP = 1000
"""Records that one commit removes for consumers that were detached."""
SWEEP_BYTES = 4 << 20
"""Bytes of payload from which on a commit removes no more for them."""
SWEEP_CURSORS = 64
"""Detached consumers that one commit looks at."""


class Entry:
    """One call of append: what to store, what to ack in the same transaction, and the positions given to it."""

    __slots__ = ("consumer", "done", "error", "finished", "positions", "records", "section", "size", "waiter")

    def __init__(self, section: Section, records: Sequence[NewRecord], size: int) -> None:
        self.section = section
        self.records = records
        self.size = size
        self.positions: list[int] = []
        self.consumer = ""
        self.done: Sequence[Record] = ()
        self.finished: list[Record] = []
        self.error: Exception | None = None
        self.waiter: Any = None


@dataclass
class Batch:
    """The contents of one transaction, so that it can be undone.

    ``synced`` says that its commit waits for the disk.
    """

    changes: int
    synced: bool
    entries: list[Entry] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    doomed: list[int] = field(default_factory=list)
    swept: list[int] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    fresh: list[Lane] = field(default_factory=list)
    cursors: list[tuple[Cursor, int]] = field(default_factory=list)
    gone: dict[Cursor, None] = field(default_factory=dict)
    dropped: list[tuple[int, str]] = field(default_factory=list)
    damage: list[DamageRow] = field(default_factory=list)


class Transactions:
    """The gathered appends and the one transaction under way.

    ``durable`` is the cursors's count of changes as of the last commit that waited for the disk, which the last one
    did if ``is_synced``; ``unmarked`` asks for the mark of an unclean end to be stored.
    """

    def __init__(self, cursors: Cursors, damage: Damage, *, unmarked: bool) -> None:
        self.cursors = cursors
        self.damage = damage
        self.unmarked = unmarked
        self.entries: list[Entry] = []
        self.batch: Batch | None = None
        self.durable = 0
        self.is_synced = True

    @property
    def pending(self) -> bool:
        """Whether there is something to commit."""
        cursors = self.cursors
        return bool(
            self.entries or cursors.doomed or cursors.touched or cursors.dirty or cursors.ending or self.damage.found
        )

    def is_settled(self, changes: int) -> bool:
        """Whether the first so many changes are durable."""
        return self.durable >= changes or (self.batch is None and not self.pending and self.is_synced)

    def add(self, entry: Entry) -> None:
        """Have an append be part of the next transaction."""
        self.entries.append(entry)
        self._queue(entry)

    def take(self) -> list[Entry]:
        """Return the appends that are in no transaction yet; the caller answers them."""
        entries, self.entries = self.entries, []
        return entries

    def _queue(self, entry: Entry) -> None:
        section = entry.section
        section.queued += entry.size
        for name, payload, _ in entry.records:
            section.lanes[name].usage.queued += len(payload) + OVERHEAD

    def _number(self, batch: Batch) -> None:
        """Give positions to what was queued, and count it."""
        cursors = self.cursors
        touched = cursors.touched
        add = batch.rows.append
        for entry in batch.entries:
            section = entry.section
            positions = entry.positions
            lane: Lane | None = None
            for name, payload, when in entry.records:
                if lane is None or lane.name != name:
                    lane = section.lanes[name]
                    touched[lane] = None
                size = len(payload) + OVERHEAD
                lane.last = position = lane.last + 1
                lane.bytes += size
                lane.usage.bytes += size
                lane.usage.queued -= size
                positions.append(position)
                add((position, when, crc32(payload, crc32(pack_key(position, when))), payload))
            section.bytes += entry.size
            section.queued -= entry.size
            if entry.done:
                entry.finished = cursors.ack(entry.consumer, entry.done)
        for place in touched:
            self._count(place, place.last - place.committed)

    def _count(self, lane: Lane, added: int) -> None:
        if added:
            lane.records += added
            lane.section.records += added
            lane.section.filled[lane] = None
            for cursor in lane.cursors.values():
                cursor.pending += added

    def write(self, file: SpoolFile, *, synced: bool) -> None:
        """Put everything gathered into a transaction; raises apsw errors, after which `abort` must be called.

        It is synced as well if it holds anything but acks.
        """
        cursors = self.cursors
        batch = self.batch = Batch(cursors.changes, synced, self.entries)
        self.entries = []
        self._number(batch)
        if cursors.ending:
            self._sweep(file, batch)
        batch.doomed, cursors.doomed = cursors.doomed, []
        batch.damage, self.damage.found = list(self.damage.found.values()), {}
        batch.dropped, cursors.dropped = list(cursors.dropped), {}
        batch.lanes = list(cursors.touched)
        cursors.mark_rejoined()
        batch.cursors = [(cursor, cursor.next) for cursor in cursors.dirty if cursor not in batch.gone]
        for lane in batch.lanes:
            if not lane.stored:
                batch.fresh.append(lane)
                lane.stored = True
        cursors.touched = {}
        cursors.dirty = {}
        more = batch.entries or batch.fresh or batch.damage or batch.dropped or batch.gone or batch.swept
        batch.synced = synced or self.unmarked or bool(more)
        self._store(file, batch)

    def _store(self, file: SpoolFile, batch: Batch) -> None:
        file.begin(synced=batch.synced)
        if batch.rows:
            file.insert(batch.rows)
        if batch.doomed:
            file.delete(runs(batch.doomed))
        if batch.damage:
            file.set_aside(batch.damage)
            file.delete((row.position, row.position) for row in batch.damage)
        if batch.fresh:
            file.save_lanes([LaneRow(lane.no, lane.stored_name) for lane in batch.fresh])
        file.save_tallies([tally_row(lane) for lane in batch.lanes])
        if batch.dropped:
            file.drop_cursors(batch.dropped)
        if batch.cursors:
            file.save_cursors([cursor_row(cursor) for cursor, _ in batch.cursors])
        # A commit that changes nothing does not wait for the disk, as one for acks that were not synced has to.
        if self.unmarked or not (batch.rows or batch.doomed or batch.lanes or batch.cursors):
            file.save_tallies([TallyRow(-1, 0, 0, 0, 0)])

    def commit(self, file: SpoolFile) -> None:
        """Delete what was swept, and make the transaction durable; slow, may run in another thread."""
        if self.batch is not None and self.batch.swept:
            # Here, since SQLite reads all pages of a large record to free them.
            file.delete(runs(self.batch.swept))
        file.commit()

    def committed(self) -> Batch:
        """Take over what became durable; returns the batch, whose entries can be answered."""
        batch = self.batch
        assert batch is not None  # noqa: S101
        self.batch = None
        self.unmarked = False
        self.is_synced = batch.synced
        if batch.synced:
            self.durable = batch.changes
        cursors = self.cursors
        cursors.cache.add(batch.rows)
        for cursor, position in batch.cursors:
            cursor.saved = position
        for lane in batch.lanes:
            self._publish(lane, batch)
        return batch

    def _publish(self, lane: Lane, batch: Batch) -> None:
        before, lane.committed = lane.committed, lane.last
        if before == lane.committed:
            return
        for cursor in lane.cursors.values():
            if cursor.next == before + 1:
                row = self.cursors.cache.get(cursor.next)
                cursor.oldest = row[1] if row else next(row[1] for row in batch.rows if row[0] == cursor.next)
            lane.section.refresh(cursor)

    def abort(self, *, keep: bool = False) -> Batch:
        """Undo in memory what the last `write` did; acks wait for the next one.

        With ``keep`` the appends wait as well; else the caller answers the batch's entries.
        """
        batch = self.batch
        assert batch is not None  # noqa: S101
        self.batch = None
        cursors = self.cursors
        cursors.doomed[:0] = batch.doomed + batch.swept
        cursors.touched.update(dict.fromkeys(batch.lanes))
        cursors.dirty.update({cursor: None for cursor, _ in batch.cursors})
        cursors.ending.update(batch.gone)
        cursors.dropped.update(dict.fromkeys(batch.dropped))
        self.damage.found.update({row.position: row for row in batch.damage})
        for cursor in batch.gone:
            cursor.lane.add(cursor)
        for lane in batch.fresh:
            lane.stored = False
        self._renumber(batch)
        for entry in batch.entries:
            self._unack(entry)
        for entry in batch.entries:
            entry.positions = []
        if keep:
            self.entries[:0] = batch.entries
            for entry in batch.entries:
                self._queue(entry)
        return batch

    def _renumber(self, batch: Batch) -> None:
        cursors = self.cursors
        for lane in cursors.touched:
            self._count(lane, lane.committed - lane.last)
            lane.last = lane.committed
            for cursor in lane.cursors.values():
                cursor.next = min(cursor.next, lane.last + 1)
        for row in batch.rows:
            lane, size = cursors.lanes[row[0] >> LANE_SHIFT], len(row[3]) + OVERHEAD
            lane.bytes -= size
            lane.usage.bytes -= size
        for entry in batch.entries:
            entry.section.bytes -= entry.size

    def _unack(self, entry: Entry) -> None:
        cursors = self.cursors
        doomed = set(cursors.doomed) if entry.finished else set()
        for record in entry.finished:
            cursor = cursors.find(record.position, entry.consumer)
            if cursor is None:
                continue
            cursor.held[record.position] = record.time
            cursor.pending += 1
            if record.position in doomed:
                doomed.remove(record.position)
                cursors.recount(cursor.lane, 1, len(record.payload) + OVERHEAD)
        if entry.finished:
            cursors.doomed = sorted(doomed)
        entry.finished = []

    def _sweep(self, file: SpoolFile, batch: Batch) -> None:
        """Let go of a bounded part of what detached consumers never finished, of each in turn."""
        ending = self.cursors.ending
        records, size = SWEEP, SWEEP_BYTES
        for cursor in list(islice(ending, SWEEP_CURSORS)):
            found, is_all = _take_unfinished(file, cursor, records, size)
            self._let_go(batch, cursor.lane, found)
            self.cursors.mark(cursor)
            self.cursors.touch(cursor.lane)
            del ending[cursor]
            if is_all:
                self._end(batch, cursor)
            else:
                ending[cursor] = None
            records -= len(found)
            size -= sum(taken for _, taken in found)
            if records <= 0 or size <= 0:
                break

    def _let_go(self, batch: Batch, lane: Lane, found: Sequence[tuple[int, int]]) -> None:
        """Have the records removed that no consumer needs any more."""
        for position, size in found:
            if position in self.damage.found:  # counted out already, and deleted by this very commit
                continue
            if lane.is_done(position):
                batch.swept.append(position)
                self.cursors.cache.drop(position)
                self.cursors.discount(lane, 1, size + OVERHEAD)

    def _end(self, batch: Batch, cursor: Cursor) -> None:
        lane = cursor.lane
        batch.gone[cursor] = None
        lane.remove(cursor.consumer)
        self.cursors.dropped[lane.no, cursor.consumer] = None
        for other in lane.cursors.values():
            self.cursors.mark(other)


def _take_unfinished(file: SpoolFile, cursor: Cursor, limit: int, left: int) -> tuple[list[tuple[int, int]], bool]:
    """Take records that a consumer never finished; return positions and bytes, and whether it has none any more.

    At most ``limit``, and none after ``left`` bytes.
    """
    lane, holes = cursor.lane, cursor.holes()
    found: list[tuple[int, int]] = []
    taken: list[int] = []
    for position in holes[:limit]:
        if left <= 0:
            break
        taken.append(position)
        for row in file.sizes(position, position, 1, left)[0]:
            found.append(row)
            left -= row[1]
    has_room = len(taken) == len(holes) and left > 0 and len(found) < limit
    ahead, is_all = file.sizes(cursor.next, lane.committed, limit - len(found), left) if has_room else ([], False)
    for position in taken:  # only now, since what a reading fails on is taken again
        cursor.forget(position)
    if has_room:
        cursor.next = lane.committed + 1 if is_all else ahead[-1][0] + 1
    return found + ahead, is_all


def tally_row(lane: Lane) -> TallyRow:
    """Return a stream's counts as they are stored."""
    return TallyRow(lane.no, lane.last, lane.records, lane.bytes, lane.whole)


def cursor_row(cursor: Cursor) -> CursorRow:
    """Return a consumer's place as it is stored."""
    done = (cursor.lane.last & SEQUENCE_MASK) - cursor.pending
    return CursorRow(cursor.lane.no, cursor.consumer, cursor.next, done, int(cursor.ending), cursor.holes())
