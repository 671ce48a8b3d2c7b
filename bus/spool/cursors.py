"""What a spool knows in memory: lanes, each consumer's place in them, and what is held. No I/O.

The size of all this depends on lanes, consumers and claimed windows, never on the backlog.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from bus.errors import SpoolError
from bus.ports.spool import ConsumerStats, Record
from bus.spool.cache import TailCache
from bus.spool.record import LANE_SHIFT, OVERHEAD, SEQUENCE_MASK, Row

WINDOW = 1024
"""A consumer claims in a lane at most this far beyond its stored place; after a crash no more is uncertain."""


class Cursor:
    """One consumer's place in one lane: below ``next`` all is done, but what is ``held`` or given ``back``.

    ``saved`` is ``next`` as it is on disk. ``suspects`` and ``horizon`` tell which records may have been claimed
    before the last start.
    ``oldest`` is the time of the record at ``next``.
    """

    __slots__ = (
        "back", "back_order", "consumer", "ending", "held", "horizon", "lane", "next", "oldest", "pending", "saved",
        "suspects",
    )  # fmt: skip

    def __init__(self, lane: Lane, consumer: str, start: int, pending: int = 0) -> None:
        self.lane = lane
        self.consumer = consumer
        self.next = start
        self.saved = start
        self.pending = pending
        self.held: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self.back_order: list[int] = []
        self.ending = False
        self.suspects: frozenset[int] = frozenset()
        self.horizon = 0
        self.oldest = 0

    @property
    def ready(self) -> bool:
        """Whether there is something to claim."""
        return bool(self.back) or self.next <= self.lane.committed

    @property
    def finished(self) -> bool:
        """Whether this consumer has claimed and acked everything that was ever appended."""
        return self.next > self.lane.last and not self.held and not self.back

    @property
    def moved(self) -> bool:
        """Whether its row on disk may be out of date although ``mark`` was not called."""
        return self.next != self.saved or bool(self.held) or bool(self.back)

    @property
    def ahead(self) -> int:
        """How many claims the disk does not know of."""
        return self.next - self.saved

    def is_done(self, position: int) -> bool:
        """Whether this consumer will not claim or ack the position any more."""
        return position < self.next and position not in self.held and position not in self.back

    def holes(self) -> list[int]:
        """Positions below ``next`` that are not done."""
        return sorted((*self.held, *self.back))

    def give_back(self, position: int, time: int) -> None:
        """Make a position the consumer's next claim."""
        if position not in self.back:
            self.back[position] = time
            heappush(self.back_order, position)

    def pop_back(self) -> tuple[int, int]:
        """Take the lowest position that was given back, and its time."""
        while True:
            position = heappop(self.back_order)
            if position in self.back:
                return position, self.back.pop(position)

    def forget(self, position: int) -> bool:
        """Drop a damaged position; return whether it was this consumer's to claim or ack."""
        if position >= self.next:
            return True
        held = self.held.pop(position, None) is not None
        return self.back.pop(position, None) is not None or held


class Lane:
    """A queue inside the spool. ``last`` is the newest position given out, ``committed`` the newest durable one."""

    __slots__ = (
        "bytes",
        "committed",
        "cursors",
        "last",
        "name",
        "no",
        "open",
        "records",
        "sole",
        "stored",
        "suspect",
        "whole",
    )

    def __init__(self, no: int, name: str) -> None:
        self.no = no
        self.name = name
        self.last = self.committed = no << LANE_SHIFT
        self.records = 0
        self.bytes = 0
        self.whole = 0
        self.cursors: dict[str, Cursor] = {}
        self.sole: Cursor | None = None
        self.open = False
        self.stored = False
        self.suspect = False

    @property
    def first(self) -> int:
        """The lowest position a record of this lane can have."""
        return (self.no << LANE_SHIFT) + 1

    @property
    def end(self) -> int:
        """The highest position a record of this lane can have."""
        return (self.no << LANE_SHIFT) | SEQUENCE_MASK

    def add(self, cursor: Cursor) -> None:
        """Attach a consumer: with more than one, each stores its acks; a sole one's acks just delete the records."""
        self.cursors[cursor.consumer] = cursor
        self._count()

    def remove(self, consumer: str) -> None:
        """End a consumer's part."""
        del self.cursors[consumer]
        self._count()

    def _count(self) -> None:
        self.sole = next(iter(self.cursors.values())) if len(self.cursors) == 1 else None
        self.open = not all(cursor.ending for cursor in self.cursors.values())
        if not self.open:
            self.sole = None


class Cursors:
    """All lanes of a spool.

    Parameters
    ----------
    consumers
        Attached to every new lane.
    cache_bytes
        Memory for the newest records.
    """

    def __init__(self, consumers: Sequence[str], cache_bytes: int) -> None:
        self.defaults = tuple(consumers)
        self.lanes: dict[str, Lane] = {}
        self.cache = TailCache(cache_bytes)
        self.dirty: dict[Cursor, None] = {}
        self.touched: dict[Lane, None] = {}
        # Lanes whose consumers have changed since the last commit.
        self.rejoined: dict[Lane, None] = {}
        self.doomed: list[int] = []
        self.ending: dict[Cursor, None] = {}
        self.dropped: dict[tuple[int, str], None] = {}
        self.records = 0
        self.bytes = 0
        self.changes = 0
        self._ready: dict[str, OrderedDict[str, None]] = {}
        self._next_lane = 1

    # Lanes and consumers

    def restore(self, lane: Lane) -> None:
        """Take over a lane as it was found on disk."""
        self.lanes[lane.name] = lane
        self.records += lane.records
        self.bytes += lane.bytes
        self._next_lane = max(self._next_lane, lane.no + 1)

    def open_lane(self, name: str) -> Lane:
        """Return a lane, made with the default consumers when it is new."""
        lane = self.lanes.get(name)
        if lane is None:
            lane = self.lanes[name] = Lane(self._next_lane, name)
            self._next_lane += 1
            self.touch(lane)
            self.attach_defaults(lane)
        return lane

    def attach_defaults(self, lane: Lane) -> None:
        """Attach the default consumers."""
        for consumer in self.defaults:
            self.attach(lane.name, consumer)

    def admit(self, name: str) -> None:
        """Refuse a record that nobody would ever claim."""
        if not self.open_lane(name).open:
            raise SpoolError(f"lane {name!r} has no consumer", hint="Attach one before the first append.")

    def attach(self, name: str, consumer: str) -> None:
        """Let a consumer take part from the next position on."""
        lane = self.open_lane(name)
        if consumer in lane.cursors:
            return
        start = lane.first if lane.suspect else lane.last + 1
        cursor = Cursor(lane, consumer, start, lane.records if lane.suspect else 0)
        if lane.sole is not None:  # while it was the only one, its acks deleted records and were not stored in its row
            self.mark(lane.sole)
        lane.add(cursor)
        self.touch(lane)
        self.mark(cursor)
        self.rejoined[lane] = None
        self.refresh(cursor)

    def detach(self, name: str, consumer: str) -> None:
        """End a consumer's part; its records are removed bit by bit with the next commits.

        Until then the cursor goes on under another name, so that the consumer can be attached anew.
        """
        cursor = self.find(name, consumer)
        if cursor is None:
            return
        lane = cursor.lane
        lane.remove(consumer)
        self.dropped[lane.no, consumer] = None
        self._ready.get(consumer, OrderedDict()).pop(name, None)
        while cursor.consumer in lane.cursors or not cursor.ending:
            cursor.consumer = f"\0{cursor.consumer}"
            cursor.ending = True
        lane.add(cursor)
        self.ending[cursor] = None
        self.mark(cursor)
        self.rejoined[lane] = None

    def find(self, name: str, consumer: str) -> Cursor | None:
        """Return a consumer's place in a lane, if it takes part."""
        lane = self.lanes.get(name)
        return lane.cursors.get(consumer) if lane else None

    def touch(self, lane: Lane) -> None:
        """Have the lane's counts stored with the next commit."""
        self.touched[lane] = None
        self.changes += 1

    def mark(self, cursor: Cursor) -> None:
        """Have the cursor stored with the next commit."""
        self.dirty[cursor] = None
        self.changes += 1

    def ready(self, consumer: str) -> Sequence[str]:
        """Lanes with something to claim, the one not claimed from for longest first."""
        return tuple(self._ready.get(consumer, ()))

    def is_ready(self, consumer: str, name: str | None) -> bool:
        """Whether the consumer could claim from the lane, or from any."""
        lanes = self._ready.get(consumer)
        return lanes is not None and (len(lanes) > 0 if name is None else name in lanes)

    def refresh(self, cursor: Cursor) -> None:
        """Add the lane to the consumer's ready ones, or take it out."""
        lanes = self._ready.setdefault(cursor.consumer, OrderedDict())
        if cursor.ready and not cursor.ending:
            lanes.setdefault(cursor.lane.name)
        else:
            lanes.pop(cursor.lane.name, None)

    def rotate(self, cursor: Cursor) -> None:
        """Put the lane last, since it was claimed from."""
        lanes = self._ready.setdefault(cursor.consumer, OrderedDict())
        if cursor.ready:
            lanes[cursor.lane.name] = None
            lanes.move_to_end(cursor.lane.name)
        else:
            lanes.pop(cursor.lane.name, None)

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
        self.rotate(cursor)
        return records

    def ack(self, consumer: str, records: Sequence[Record]) -> list[Record]:
        """Finish what is held among the records and return it."""
        lane: Lane | None = None
        cursor: Cursor | None = None
        finished = []
        for record in records:
            if lane is None or lane.name != record.lane:
                cursor = self.find(record.lane, consumer)
                lane = cursor.lane if cursor else None
            if cursor is None or cursor.held.pop(record.position, None) is None:
                continue
            finished.append(record)
            self._finish(cursor, record)
        self.changes += len(finished)
        return finished

    def _finish(self, cursor: Cursor, record: Record) -> None:
        lane = cursor.lane
        position = record.position
        cursor.pending -= 1
        if lane.sole is None:
            self.mark(cursor)
            for other in lane.cursors.values():
                if other is not cursor and not other.is_done(position):
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
        lane.records -= records
        lane.bytes -= size
        self.records -= records
        self.bytes -= size
        self.touched[lane] = None

    def recount(self, lane: Lane, records: int, size: int) -> None:
        """Put records into the counts."""
        lane.records += records
        lane.bytes += size
        self.records += records
        self.bytes += size
        self.touched[lane] = None

    def release(self, consumer: str, records: Sequence[Record]) -> None:
        """Make held records the next to be claimed."""
        for record in records:
            cursor = self.find(record.lane, consumer)
            if cursor is not None and cursor.held.pop(record.position, None) is not None:
                cursor.give_back(record.position, record.time)
                self.refresh(cursor)

    def moved(self) -> list[Cursor]:
        """Cursors whose row on disk is older than they are."""
        return [
            cursor for lane in self.lanes.values() if lane.stored for cursor in lane.cursors.values() if cursor.moved
        ]

    def mark_rejoined(self) -> None:
        """Have the cursors of lanes whose consumers have changed stored with the commit that is made now."""
        for lane in self.rejoined:
            for cursor in lane.cursors.values():
                if cursor.moved:
                    self.dirty[cursor] = None
        self.rejoined = {}

    def stats(self) -> Iterator[ConsumerStats]:
        """Count what each consumer has before it; records not yet committed count too."""
        for lane in self.lanes.values():
            for cursor in lane.cursors.values():
                if not cursor.ending:
                    yield ConsumerStats(lane.name, cursor.consumer, cursor.pending, self._oldest(cursor))

    def _oldest(self, cursor: Cursor) -> int | None:
        if cursor.pending <= 0:
            return None
        times = [waiting[min(waiting)] for waiting in (cursor.held, cursor.back) if waiting]
        if cursor.next <= cursor.lane.committed:
            row = self.cache.get(cursor.next)
            times.append(row[1] if row else cursor.oldest)
        return min(times, default=None)
