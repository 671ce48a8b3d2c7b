"""The spool port in memory, for tests of what stands on it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from bus.domain.delivery.quota import SpoolCapacity
from bus.domain.lanes import destination_of
from bus.errors import SpoolClosed, SpoolError, SpoolFull
from bus.ports.spool import ConsumerStats, NewRecord, Record, SpoolStats, SpoolTotals, Waiter, tell

OVERHEAD = 32


@dataclass
class _Lane:
    """A lane's records, and for each consumer what it has not acked and what of that it holds."""

    last: int
    records: dict[int, Record] = field(default_factory=dict)
    open: dict[str, dict[int, None]] = field(default_factory=dict)
    held: dict[str, set[int]] = field(default_factory=dict)
    claimed_at: dict[str, int] = field(default_factory=dict)


class MemorySpool:
    """The `bus.ports.spool.Spool` port without a disk: "durable" lasts as long as the object.

    Parameters
    ----------
    consumers
        Attached to every lane by themselves.
    limit
        Bytes that records may take, 32 of overhead each.
    full
        Set it to have every append that is not urgent refused, as at the disk's reserve.
    """

    def __init__(self, *, consumers: Sequence[str] = ("send",), limit: int = 1 << 30) -> None:
        self._defaults = tuple(consumers)
        self._limit = limit
        self._lanes: dict[str, _Lane] = {}
        self._bytes = 0
        self._clock = 0
        self._closed = False
        self._waiters: list[asyncio.Future[None]] = []  # in the order in which they wake
        self.full = False

    async def append(self, records: Sequence[NewRecord], *, urgent: bool = False) -> list[int]:
        """Store the records, all or none."""
        positions = self._store(records, urgent=urgent)
        self._wake()
        return positions

    def append_with(
        self,
        records: Sequence[NewRecord],
        waiter: Waiter[list[int]],
        *,
        urgent: bool = False,
        lingers: bool = False,  # noqa: ARG002 - there is no commit to wait for
        consumer: str = "",
        done: Sequence[Record] = (),
    ) -> None:
        """Store the records, all or none, and tell the waiter in the next turn of the loop."""
        positions = self._store(records, urgent=urgent)
        self.ack(consumer, done)
        asyncio.get_running_loop().call_soon(tell, waiter, positions)
        self._wake()

    def _store(self, records: Sequence[NewRecord], *, urgent: bool) -> list[int]:
        self._check()
        size = sum(len(record.payload) + OVERHEAD for record in records)
        if self._bytes + size > self._limit or (self.full and not urgent):
            raise SpoolFull("the spool is full; what is stored stays stored")
        for record in records:
            if not self._lane(record.lane).open:
                raise SpoolError(f"stream {record.lane!r} has no consumer")
        self._bytes += size
        return [self._keep(record) for record in records]

    def _keep(self, record: NewRecord) -> int:
        lane = self._lane(record.lane)
        lane.last += 1
        lane.records[lane.last] = Record(lane.last, record.lane, record.payload, record.time)
        for waiting in lane.open.values():
            waiting[lane.last] = None
        return lane.last

    def _lane(self, name: str) -> _Lane:
        if name not in self._lanes:
            self._lanes[name] = _Lane(len(self._lanes) << 40)
            for consumer in self._defaults:
                self.attach(name, consumer)
        return self._lanes[name]

    def lanes(self, consumer: str) -> Sequence[str]:
        """Lanes in which this consumer could claim now, those that were claimed from longest ago first."""
        ready = [name for name in self._lanes if self._claimable(name, consumer)]
        return sorted(ready, key=lambda name: self._lanes[name].claimed_at.get(consumer, 0))

    def _claimable(self, name: str, consumer: str) -> list[int]:
        lane = self._lanes.get(name)
        if lane is None or consumer not in lane.open:
            return []
        held = lane.held[consumer]
        return [position for position in lane.open[consumer] if position not in held]

    async def wait(self, consumer: str, *lanes: str) -> None:
        """Return when this consumer could claim from one of these lanes; from any where none is named."""
        self._check()
        while not any(self._claimable(lane, consumer) for lane in lanes or self._lanes):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                self._waiters.remove(waiter)
            self._check()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def claim(self, consumer: str, limit: int, lane: str) -> list[Record]:
        """Take up to ``limit`` records of a lane, in order."""
        self._check()
        positions = sorted(self._claimable(lane, consumer))[: max(0, limit)]
        if not positions:
            return []
        self._clock += 1
        place = self._lanes[lane]
        place.claimed_at[consumer] = self._clock
        place.held[consumer].update(positions)
        return [place.records[position] for position in positions]

    async def newest(self, consumer: str, limit: int, lane: str, before: int | None = None) -> list[Record]:
        """Return the newest records that this consumer has not acked, the newest first."""
        self._check()
        place = self._lanes.get(lane)
        waiting = place.open.get(consumer, {}) if place is not None else {}
        positions = sorted((one for one in waiting if before is None or one < before), reverse=True)
        return [place.records[position] for position in positions[:limit]] if place is not None else []

    def ack(self, consumer: str, records: Sequence[Record], *, synced: bool = True) -> None:  # noqa: ARG002
        """Finish claimed records."""
        self._check()
        for record in records:
            lane = self._lanes.get(record.lane)
            if lane is None or record.position not in lane.held.get(consumer, ()):
                continue
            lane.held[consumer].discard(record.position)
            del lane.open[consumer][record.position]
            self._free(lane, record.position)

    def _free(self, lane: _Lane, position: int) -> None:
        if not any(position in waiting for waiting in lane.open.values()):
            self._bytes -= len(lane.records.pop(position).payload) + OVERHEAD

    def release(self, consumer: str, records: Sequence[Record]) -> None:
        """Give claimed records back."""
        self._check()
        for record in records:
            lane = self._lanes.get(record.lane)
            if lane is not None:
                lane.held.get(consumer, set()).discard(record.position)
        self._wake()

    async def settle(self) -> None:
        """Return at once: nothing is late here."""
        self._check()

    def attach(self, lane: str, consumer: str) -> None:
        """Let a consumer take part in a lane from the records appended next on."""
        self._check()
        place = self._lane(lane)
        place.open.setdefault(consumer, {})
        place.held.setdefault(consumer, set())

    def detach(self, lane: str, consumer: str) -> None:
        """End a consumer's part in a lane."""
        self._check()
        place = self._lanes.get(lane)
        if place is None or consumer not in place.open:
            return
        waiting = place.open.pop(consumer)
        del place.held[consumer]
        for position in waiting:
            self._free(place, position)

    def recovered(self, consumer: str, record: Record) -> bool:  # noqa: ARG002
        """Return False: there is no restart."""
        return False

    def acked(self, consumer: str, record: Record) -> bool:
        """Whether the consumer has acked the record."""
        place = self._lanes.get(record.lane)
        return place is not None and record.position not in place.open.get(consumer, (record.position,))

    def pending(self, consumer: str, lane: str) -> int:
        """Return how many records of a lane wait for this consumer, or are claimed by it."""
        place = self._lanes.get(lane)
        return len(place.open.get(consumer, ())) if place is not None else 0

    def totals(self) -> SpoolTotals:
        """Return what the whole holds."""
        return SpoolTotals(sum(len(lane.records) for lane in self._lanes.values()), self._bytes, self._limit, 0)

    def waiting(self) -> list[ConsumerStats]:
        """Return the consumers that have records to claim or to ack."""
        return [found for found in self.stats().consumers if found.records]

    def stats(self) -> SpoolStats:
        """Return counts."""
        consumers = [
            ConsumerStats(name, consumer, len(waiting), lane.records[min(waiting)].time if waiting else None)
            for name, lane in self._lanes.items()
            for consumer, waiting in lane.open.items()
        ]
        return SpoolStats(*self.totals(), consumers)

    def room(self, lane: str) -> SpoolCapacity:
        """Return what a lane's destination holds, and what an append without urgency could add."""
        places = [found for name, found in self._lanes.items() if destination_of(name) == destination_of(lane)]
        held = sum(len(record.payload) + OVERHEAD for place in places for record in place.records.values())
        return SpoolCapacity(held, self._bytes, 0 if self.full else self._limit - self._bytes)

    def crash(self) -> None:
        """Do what a crash does: nobody holds anything any more."""
        for lane in self._lanes.values():
            for held in lane.held.values():
                held.clear()

    async def close(self) -> None:
        """End; waiting callers get SpoolClosed."""
        self._closed = True
        self._wake()

    def _check(self) -> None:
        if self._closed:
            raise SpoolClosed("the spool is closed")
