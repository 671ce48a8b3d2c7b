"""One section of a spool's file, with its own streams, consumers and limit, and each consumer's place. No I/O."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from bus.domain.delivery.quota import SpoolCapacity
from bus.domain.lanes import destination_of
from bus.ports.spool import ConsumerStats, SpoolStats, SpoolTotals
from bus.spool.cache import TailCache
from bus.spool.record import LANE_SHIFT, SEQUENCE_MASK

SEPARATOR = ":"
"""Separates the names of a section and of a stream in the file; the only section of a spool has no name."""


@dataclass(frozen=True)
class SectionOptions:
    """The configuration of a section.

    Attributes
    ----------
    consumers
        Attached to every stream by themselves.
    limit
        Bytes that records may take, 32 of overhead each.
    """

    consumers: Sequence[str] = ("send",)
    limit: int = 10 << 30


class Cursor:
    """One consumer's place in one stream: below ``next`` all is done, but what is ``held`` or given ``back``.

    ``saved`` is ``next`` as it is on disk. ``suspects`` and ``horizon`` say which records may have been claimed
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
        """Whether its row on disk, but for what is marked already, may be older than it is."""
        return self.next != self.saved or bool(self.held) or bool(self.back)

    @property
    def ahead(self) -> int:
        """Number of claims that are not on disk."""
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


class Usage:
    """Bytes that all streams of one destination hold in a section, and those that are being appended to them."""

    __slots__ = ("bytes", "queued")

    def __init__(self) -> None:
        self.bytes = 0
        self.queued = 0


class Lane:
    """A queue inside a section of the spool.

    ``last`` is the newest position given out, ``committed`` the newest durable one. ``name`` is as in the section,
    ``stored_name`` as in the file, where streams of all sections are.
    """

    __slots__ = (
        "_turns", "bytes", "committed", "cursors", "last", "name", "no", "open", "records", "section", "sole", "stored",
        "stored_name", "suspect", "usage", "whole",
    )  # fmt: skip

    def __init__(self, no: int, name: str, section: Section) -> None:
        self.no = no
        self.name = name
        self.stored_name = f"{section.name}{SEPARATOR}{name}" if section.name else name
        self.section = section
        self.usage = section.usage(name)
        self.last = self.committed = no << LANE_SHIFT
        self.records = 0
        self.bytes = 0
        self.whole = 0
        self.cursors: dict[str, Cursor] = {}
        # All cursors; the first is one that was not done with a position at the last look.
        self._turns: deque[Cursor] = deque()
        self.sole: Cursor | None = None
        self.open = False
        self.stored = False
        self.suspect = False

    @property
    def first(self) -> int:
        """The lowest position a record of this stream can have."""
        return (self.no << LANE_SHIFT) + 1

    @property
    def end(self) -> int:
        """The highest position a record of this stream can have."""
        return (self.no << LANE_SHIFT) | SEQUENCE_MASK

    def add(self, cursor: Cursor) -> None:
        """Let a consumer take part; from the second on, acks must be stored and not just the last one's delete."""
        self.cursors[cursor.consumer] = cursor
        self._turns.append(cursor)
        self._count()

    def remove(self, consumer: str) -> None:
        """End a consumer's part."""
        self._turns.remove(self.cursors.pop(consumer))
        self._count()

    def is_done(self, position: int) -> bool:
        """Whether no consumer will claim or ack a position any more.

        One that is done goes behind the others: so the acks of a record look at each consumer about once, instead of
        at all of them each time.
        """
        turns = self._turns
        for _ in range(len(turns)):
            if not turns[0].is_done(position):
                return False
            turns.rotate(-1)
        return True

    def _count(self) -> None:
        self.sole = next(iter(self.cursors.values())) if len(self.cursors) == 1 else None
        self.open = not all(cursor.ending for cursor in self.cursors.values())
        if not self.open:
            self.sole = None


class Section:
    """The streams of one section, the bytes they hold, and the consumers that could claim from them.

    ``queued`` are bytes that are being appended, ``damaged`` records that were set aside or lost so far.
    """

    def __init__(self, name: str, options: SectionOptions, cache: TailCache) -> None:
        self.name = name
        self.consumers = tuple(options.consumers)
        self.limit = options.limit
        self.lanes: dict[str, Lane] = {}
        self.records = 0
        self.bytes = 0
        self.queued = 0
        self.damaged = 0
        self._cache = cache
        # Streams that have records, and those that have become empty since ``waiting`` was called last.
        self.filled: dict[Lane, None] = {}
        self._usages: dict[str, Usage] = {}
        self._ready: dict[str, OrderedDict[str, None]] = {}

    # What it holds

    def usage(self, lane: str) -> Usage:
        """Return the bytes that all streams of a stream's destination hold."""
        owner = destination_of(lane)
        usage = self._usages.get(owner)
        if usage is None:
            usage = self._usages[owner] = Usage()
        return usage

    def room(self, lane: str, disk: int | None) -> SpoolCapacity:
        """Return the usage of a stream's destination here, and what could be added, ``disk`` bytes at most."""
        usage = self._usages.get(destination_of(lane))
        held = usage.bytes + usage.queued if usage is not None else 0
        total = self.bytes + self.queued
        free = self.limit - total
        return SpoolCapacity(held, total, free if disk is None else min(free, disk))

    def count(self, lane: Lane, records: int, size: int) -> None:
        """Count records in, or with numbers below zero out."""
        lane.records += records
        lane.bytes += size
        lane.usage.bytes += size
        self.records += records
        self.bytes += size
        self.filled[lane] = None

    def totals(self) -> SpoolTotals:
        """Return the totals of the section."""
        return SpoolTotals(self.records, self.bytes, self.limit, self.damaged)

    def stats(self) -> SpoolStats:
        """Return counts kept in memory; records not yet committed count too."""
        return SpoolStats(*self.totals(), [found for lane in self.lanes.values() for found in self._consumers(lane)])

    def waiting(self) -> list[ConsumerStats]:
        """Return the consumers that have records to claim or to ack."""
        self.filled = {lane: None for lane in self.filled if lane.records}
        return [found for lane in self.filled for found in self._consumers(lane) if found.records]

    def _consumers(self, lane: Lane) -> Iterator[ConsumerStats]:
        for cursor in lane.cursors.values():
            if not cursor.ending:
                oldest = self._oldest(cursor) if cursor.pending > 0 else None
                yield ConsumerStats(lane.name, cursor.consumer, cursor.pending, oldest)

    def _oldest(self, cursor: Cursor) -> int | None:
        times = [waiting[min(waiting)] for waiting in (cursor.held, cursor.back) if waiting]
        if cursor.next <= cursor.lane.committed:
            row = self._cache.get(cursor.next)
            times.append(row[1] if row else cursor.oldest)
        return min(times, default=None)

    # Streams and consumers

    def take(self, lane: Lane) -> None:
        """Add a stream, and count the bytes that it holds."""
        self.lanes[lane.name] = lane
        self.filled[lane] = None
        self.records += lane.records
        self.bytes += lane.bytes
        lane.usage.bytes += lane.bytes

    def find(self, name: str, consumer: str) -> Cursor | None:
        """Return a consumer's place in a stream, if it is attached."""
        lane = self.lanes.get(name)
        return lane.cursors.get(consumer) if lane else None

    # Who could claim

    def ready(self, consumer: str) -> Sequence[str]:
        """Streams with records to claim, the one not claimed from for longest first."""
        return tuple(self._ready.get(consumer, ()))

    def is_ready(self, consumer: str, names: Sequence[str]) -> bool:
        """Whether the consumer could claim from one of these streams; from any where none is named."""
        lanes = self._ready.get(consumer)
        if not lanes:
            return False
        return not names or any(name in lanes for name in names)

    def pending(self, consumer: str, name: str) -> int:
        """Return how many records of a stream wait for a consumer, or are held by it."""
        cursor = self.find(name, consumer)
        return 0 if cursor is None else cursor.pending

    def refresh(self, cursor: Cursor) -> None:
        """Add the stream to the consumer's ready ones, or take it out."""
        lanes = self._ready.setdefault(cursor.consumer, OrderedDict())
        if cursor.ready and not cursor.ending:
            lanes.setdefault(cursor.lane.name)
        else:
            lanes.pop(cursor.lane.name, None)

    def forget(self, cursor: Cursor) -> None:
        """Take the stream out of the consumer's ready ones."""
        self._ready.get(cursor.consumer, OrderedDict()).pop(cursor.lane.name, None)

    def rotate(self, cursor: Cursor) -> None:
        """Put the stream last, since it was claimed from."""
        lanes = self._ready.setdefault(cursor.consumer, OrderedDict())
        if cursor.ready:
            lanes[cursor.lane.name] = None
            lanes.move_to_end(cursor.lane.name)
        else:
            lanes.pop(cursor.lane.name, None)
