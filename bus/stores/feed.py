"""From a spool to the store, at a rate that can be changed while it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from bus.domain.delivery.delivery import Outcome
from bus.domain.delivery.rate import TokenBucket
from bus.domain.lanes import destination_of
from bus.domain.message import Message
from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.ports.spool import Record, Spool, decoded
from bus.ports.store import TraceStore
from bus.stores.refused import RefusedRecords
from bus.waits import first_of

_log = logging.getLogger(__name__)
_BATCH: Final = 512
_FIRST_BACKOFF: Final = 0.1
_LONGEST_BACKOFF: Final = 5.0
_IDLE: Final = 0.5
_MOST_REFUSALS: Final = 32  # calls that a batch may cost to be taken apart; one record of 512 is found with ten
_Part = list[tuple[Record, Message | Outcome]]

StoreRates = Callable[[str], float | None]


class StoreFeed:
    """Moves the records of one spool consumer into the store and acks what is durable there.

    A batch that the store refuses is taken apart, so that a record that it does not take (its document is too large,
    its partition is damaged) holds up no other. Such records stay claimed, so that the spool keeps and counts them, and
    are written again from time to time. When so many are refused that it must be the store itself, they are released
    and tried with a growing backoff, as when it is away.

    Parameters
    ----------
    decode
        Turns a record's payload into a store write.
    total
        Writes a second for this process, asked before each batch; None for no limit.
    rate_of
        Writes a second for a destination, asked before each claim.
    count
        Counts the writes that the store has, before they are acked.
    written
        Called with the records that the store has, before they are acked.
    """

    def __init__(
        self,
        spool: Spool,
        store: TraceStore,
        clock: Clock,
        *,
        consumer: str,
        decode: Callable[[bytes], Message | Outcome],
        total: Callable[[], float | None],
        rate_of: StoreRates,
        count: Callable[[Sequence[Message | Outcome]], None],
        written: Callable[[Sequence[Record]], None] | None = None,
    ) -> None:
        self._spool = spool
        self._store = store
        self._clock = clock
        self._consumer = consumer
        self._decode = decode
        self._total = total
        self._rate_of = rate_of
        self._count = count
        self._written = written
        self._bucket = TokenBucket(None)
        self._buckets: dict[str, TokenBucket] = {}
        self._backoff = _FIRST_BACKOFF
        self._idle = asyncio.Event()
        self._busy = False
        self._refused = RefusedRecords(clock)
        self.up = True

    async def run(self) -> None:
        """Feed until cancelled; the store may be away for any time."""
        while True:
            self._busy = True
            if due := self._refused.due():
                self._spool.release(self._consumer, due)
            batch = await self._gather()
            if batch:
                await self._write(batch)
                continue
            self._busy = False
            await self._pause()

    async def caught_up(self, timeout: float) -> bool:  # noqa: ASYNC109 - a bound, not a failure
        """Wait until nothing in the spool waits for the store, at most ``timeout`` seconds; whether it came to that."""
        try:
            async with asyncio.timeout(timeout):
                while self._busy or self._refused or self._spool.lanes(self._consumer):
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def _gather(self) -> list[Record]:
        now = self._clock.monotonic()
        self._bucket.change(self._total())
        room = self._bucket.available(now, _BATCH)
        batch: list[Record] = []
        for lane in self._spool.lanes(self._consumer):
            if len(batch) >= room:
                break
            batch += await self._claim(lane, room - len(batch), now)
        self._bucket.take(len(batch))
        return batch

    async def _claim(self, lane: str, most: int, now: float) -> list[Record]:
        destination = destination_of(lane)
        bucket = self._buckets.get(destination)
        if bucket is None:
            bucket = self._buckets[destination] = TokenBucket(None)
        bucket.change(self._rate_of(destination))
        limit = bucket.available(now, most)
        if not limit:
            return []
        records = await self._spool.claim(self._consumer, limit, lane)
        bucket.take(len(records))
        return records

    async def _pause(self) -> None:
        lanes = self._spool.lanes(self._consumer)
        now = self._clock.monotonic()
        if not lanes and self._refused:
            await first_of(self._spool.wait(self._consumer), self._clock.sleep(max(self._refused.wait, 0.001)))
            return
        if not lanes:
            self._idle.set()
            await self._spool.wait(self._consumer)
            return
        waits = [self._buckets[code].wait(now) for code in map(destination_of, lanes) if code in self._buckets]
        soonest = max(self._bucket.wait(now), min(waits, default=0.0))
        await self._clock.sleep(min(max(soonest, 0.001), _IDLE))

    def _read(self, batch: Sequence[Record]) -> tuple[list[Record], list[Message | Outcome]]:
        records: list[Record] = []
        writes: list[Message | Outcome] = []
        for record in batch:
            if (write := decoded(record, self._decode)) is not None:
                writes.append(write)
                records.append(record)
        return records, writes

    async def _write(self, claimed: Sequence[Record]) -> None:
        batch, writes = self._read(claimed)
        is_known = bool(batch) and all(map(self._refused.knows, batch))
        parts: list[_Part] = [list(zip(batch, writes, strict=True))]
        refusals = 0
        taken = False
        failed: StoreError | None = None
        while parts and refusals < _MOST_REFUSALS:
            part = parts.pop()
            try:
                await self._store.write([write for _, write in part])
            except StoreError as error:
                failed = error
                refusals += 1
                parts += self._split(part, error)
                if parts and parts[-1] is part:
                    break
            else:
                taken = True
                self._finish(part)
        if parts:
            self._spool.release(self._consumer, [record for part in parts for record, _ in part])
        if failed is None or taken:
            self.up = True
            self._backoff = _FIRST_BACKOFF
        elif parts or not is_known:  # else all of them were refused before, and are set aside again
            await self._back_off(len(batch), failed)

    def _finish(self, part: _Part) -> None:
        records = [record for record, _ in part]
        self._count([write for _, write in part])
        if self._written is not None:
            self._written(records)
        self._spool.ack(self._consumer, records)

    def _split(self, part: _Part, error: StoreError) -> list[_Part]:
        """Return the parts to try in place of one that the store refused: the same one when the store is at fault."""
        if error.retriable:
            return [part]
        if len(part) > 1:
            middle = len(part) // 2
            return [part[middle:], part[:middle]]
        ((record, _),) = part
        return [] if self._refused.add(record, error) else [part]

    async def _back_off(self, count: int, error: StoreError) -> None:
        if self.up:
            _log.warning("the store does not take writes; %d stay in the spool: %s", count, error)
        self.up = False
        await self._clock.sleep(self._backoff)
        self._backoff = min(self._backoff * 2, _LONGEST_BACKOFF)
