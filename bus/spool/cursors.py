"""The state of a spool in memory: streams of its sections, positions of consumers, held records. No I/O.

The size of all this depends on streams, consumers and claimed windows, never on the backlog.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bus.errors import SpoolError
from bus.ports.spool import Record
from bus.spool.cache import TailCache
from bus.spool.record import LANE_SHIFT, OVERHEAD, Row
from bus.spool.section import SEPARATOR, Cursor, Lane, Section, SectionOptions

WINDOW = 1024
"""A consumer's claims in a stream run at most this far ahead of its stored place, so that a crash leaves a bound."""


class Cursors:
    """All streams of a spool by number, and their changes that the next commit has to store.

    Parameters
    ----------
    sections
        How each section is set up, by name.
    cache_bytes
        Memory for the newest records.
    """

    def __init__(self, sections: Mapping[str, SectionOptions], cache_bytes: int) -> None:
        self.cache = TailCache(cache_bytes)
        self.sections = {name: Section(name, options, self.cache) for name, options in sections.items()}
        self.lanes: dict[int, Lane] = {}
        self.dirty: dict[Cursor, None] = {}
        self.touched: dict[Lane, None] = {}
        # Streams whose consumers have changed since the last commit.
        self.rejoined: dict[Lane, None] = {}
        self.doomed: list[int] = []
        self.ending: dict[Cursor, None] = {}
        self.dropped: dict[tuple[int, str], None] = {}
        self.changes = 0
        self._next_lane = 1

    # Streams and consumers

    def restore(self, lane: Lane) -> None:
        """Take over a stream as it was found on disk."""
        lane.section.take(lane)
        self.lanes[lane.no] = lane
        self._next_lane = max(self._next_lane, lane.no + 1)

    def open_lane(self, section: Section, name: str) -> Lane:
        """Return a stream, made with the section's consumers when it is new."""
        lane = section.lanes.get(name)
        if lane is None:
            lane = Lane(self._next_lane, name, section)
            self.restore(lane)
            self.touch(lane)
            self.attach_defaults(lane)
        return lane

    def attach_defaults(self, lane: Lane) -> None:
        """Attach the consumers that every stream of the section has."""
        for consumer in lane.section.consumers:
            self.attach(lane.section, lane.name, consumer)

    def admit(self, section: Section, name: str) -> None:
        """Refuse a record that no consumer would ever claim."""
        if not self.open_lane(section, name).open:
            raise SpoolError(f"stream {name!r} has no consumer", hint="Attach one before the first append.")

    def attach(self, section: Section, name: str, consumer: str) -> None:
        """Let a consumer take part from the next position on."""
        lane = self.open_lane(section, name)
        if consumer in lane.cursors:
            return
        start = lane.first if lane.suspect else lane.last + 1
        cursor = Cursor(lane, consumer, start, lane.records if lane.suspect else 0)
        if lane.sole is not None:  # what it acked alone was deleted, and its row does not say so
            self.mark(lane.sole)
        lane.add(cursor)
        self.touch(lane)
        self.mark(cursor)
        self.rejoined[lane] = None
        section.refresh(cursor)

    def detach(self, section: Section, name: str, consumer: str) -> None:
        """Detach a consumer; its records are removed step by step with the next commits.

        Until then the cursor is kept under another name, so that the consumer can be attached anew.
        """
        cursor = section.find(name, consumer)
        if cursor is None:
            return
        lane = cursor.lane
        lane.remove(consumer)
        self.dropped[lane.no, consumer] = None
        section.forget(cursor)
        while cursor.consumer in lane.cursors or not cursor.ending:
            cursor.consumer = f"\0{cursor.consumer}"
            cursor.ending = True
        lane.add(cursor)
        self.ending[cursor] = None
        self.mark(cursor)
        self.rejoined[lane] = None

    def section_of(self, stored_name: str) -> tuple[Section, str]:
        """Return the section and the stream of a name in the file; without a section it belongs to the first one."""
        name, separator, lane = stored_name.partition(SEPARATOR)
        if separator and name in self.sections:
            return self.sections[name], lane
        return next(iter(self.sections.values())), stored_name

    def count_damage(self, damaged: Mapping[str, int]) -> None:
        """Count records that were set aside, by the names of streams in the file."""
        for section in self.sections.values():
            section.damaged = 0
        for stored_name, records in damaged.items():
            self.section_of(stored_name)[0].damaged += records

    def find(self, position: int, consumer: str) -> Cursor | None:
        """Return a consumer's place in the stream of a position, if it is attached."""
        lane = self.lanes.get(position >> LANE_SHIFT)
        return lane.cursors.get(consumer) if lane else None

    def touch(self, lane: Lane) -> None:
        """Have the stream's counts stored with the next commit."""
        self.touched[lane] = None
        self.changes += 1

    def mark(self, cursor: Cursor) -> None:
        """Have the cursor stored with the next commit."""
        self.dirty[cursor] = None
        self.changes += 1

    def from_cache(self, cursor: Cursor, limit: int) -> list[Row]:
        """Return the rows to claim next as far as the cache has them, in order; nothing is claimed yet."""
        get = self.cache.get
        position = cursor.next
        end = min(position + limit, cursor.lane.committed + 1)
        rows = []
        while position < end:
            row = get(position)
            if row is None:
                break
            rows.append(row)
            position += 1
        return rows

    def hold(self, cursor: Cursor, rows: Sequence[Row], upto: int) -> list[Record]:
        """Claim rows, and set the cursor's place to ``upto``."""
        name = cursor.lane.name
        held = cursor.held
        records = []
        for position, time, _, payload in rows:
            held[position] = time
            records.append(Record(position, name, payload, time))
        if upto > cursor.next:
            cursor.next = upto
            if cursor.ahead >= WINDOW // 2 and cursor not in self.dirty:
                self.mark(cursor)
            row = self.cache.get(upto)
            if row is not None:
                cursor.oldest = row[1]
        cursor.lane.section.rotate(cursor)
        return records

    def ack(self, consumer: str, records: Sequence[Record]) -> list[Record]:
        """Finish what is held among the records and return it."""
        lane: Lane | None = None
        cursor: Cursor | None = None
        finished = []
        for record in records:
            if lane is None or lane.no != record.position >> LANE_SHIFT:
                cursor = self.find(record.position, consumer)
                lane = cursor.lane if cursor else None
            if cursor is None or cursor.held.pop(record.position, None) is None:
                continue
            finished.append(record)
            self._finish(cursor, record)
        self.changes += len(finished)
        return finished

    def acked(self, consumer: str, record: Record) -> bool:
        """Whether a consumer has acked a record."""
        cursor = self.find(record.position, consumer)
        return cursor is not None and cursor.is_done(record.position)

    def _finish(self, cursor: Cursor, record: Record) -> None:
        lane = cursor.lane
        position = record.position
        cursor.pending -= 1
        if lane.sole is None:
            self.mark(cursor)
            if not lane.is_done(position):
                return
        self.doom(lane, position, len(record.payload))

    def doom(self, lane: Lane, position: int, size: int) -> None:
        """Have a record deleted with the next commit."""
        self.doomed.append(position)
        self.cache.drop(position)
        self.discount(lane, 1, size + OVERHEAD)

    def discount(self, lane: Lane, records: int, size: int) -> None:
        """Take records out of the counts."""
        records = min(records, lane.records)
        size = lane.bytes if records == lane.records else min(size, lane.bytes)
        lane.section.count(lane, -records, -size)
        self.touched[lane] = None

    def recount(self, lane: Lane, records: int, size: int) -> None:
        """Put records into the counts."""
        lane.section.count(lane, records, size)
        self.touched[lane] = None

    def release(self, consumer: str, records: Sequence[Record]) -> None:
        """Make held records the next to be claimed."""
        for record in records:
            cursor = self.find(record.position, consumer)
            if cursor is not None and cursor.held.pop(record.position, None) is not None:
                cursor.give_back(record.position, record.time)
                cursor.lane.section.refresh(cursor)

    def moved(self) -> list[Cursor]:
        """Cursors whose row on disk is older than they are."""
        return [
            cursor for lane in self.lanes.values() if lane.stored for cursor in lane.cursors.values() if cursor.moved
        ]

    def mark_rejoined(self) -> None:
        """Have the cursors of streams whose consumers have changed stored with the commit that is made now."""
        for lane in self.rejoined:
            for cursor in lane.cursors.values():
                if cursor.moved:
                    self.dirty[cursor] = None
        self.rejoined = {}
