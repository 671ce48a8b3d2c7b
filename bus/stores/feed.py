"""From spools to the store, at rates that can be changed while it runs."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

import msgspec

from bus.async_helpers import first_of
from bus.domain.claim import IDEMPOTENCY, claim_of, document_key
from bus.domain.delivery.delivery import Outcome
from bus.domain.lanes import destination_of
from bus.domain.message import Message
from bus.errors import Conflict, StoreError
from bus.ports.clock import Clock
from bus.ports.spool import Record, Spool, decoded
from bus.ports.store import Store
from bus.stores.budget import Budget
from bus.stores.refused import RefusedRecords

_log = logging.getLogger(__name__)
BATCH: Final = 2048
_LEAST: Final = 16
TICK: Final = 0.1
"""Seconds in which writes gather, so that a message and what came of it are one write of its document."""
_FIRST_BACKOFF: Final = 0.1
_LONGEST_BACKOFF: Final = 5.0
_IDLE: Final = 0.5
_CLAIMS: Final = 256
_MOST_REFUSALS: Final = 32  # calls that a batch may cost to be taken apart; one record of 2,048 is found with twelve


class Follower(Protocol):
    """Follows a source's records on their way to the store."""

    async def prepare(self) -> None:
        """Write to the store what must be durable there before it gets any record.

        Raises
        ------
        StoreError
            The store did not take it; ``prepare`` is called again.
        """
        ...

    def leaving(self, record: Record, write: Message | Outcome) -> Message | Outcome:
        """Return the write that the store gets for a record; it may have that from now on, until ``returned``."""
        ...

    def written(self, records: Sequence[Record]) -> None:
        """Note that the store has records, before they are acked."""
        ...

    def returned(self, records: Sequence[Record]) -> None:
        """Note that the store did not take records, as far as it answered; they leave again."""
        ...


class Source:
    """One consumer of a spool, whose records are store writes.

    Parameters
    ----------
    decode
        Turns a record's payload into a store write.
    budget
        How many writes a second are allowed; sources may share one.

    Attributes
    ----------
    follower
        Receives the records, when there is one.
    """

    def __init__(
        self,
        spool: Spool,
        consumer: str,
        decode: Callable[[bytes], Message | Outcome],
        budget: Budget,
        clock: Clock,
    ) -> None:
        self.spool = spool
        self.budget = budget
        self.refused = RefusedRecords(clock)
        self.follower: Follower | None = None
        self._consumer = consumer
        self._decode = decode

    @property
    def lanes(self) -> Sequence[str]:
        """Streams with records to claim."""
        return self.spool.lanes(self._consumer)

    async def wait(self) -> None:
        """Return when there are records to claim."""
        await self.spool.wait(self._consumer)

    async def claim(self, lane: str, limit: int) -> list[Record]:
        """Take up to ``limit`` records of a stream."""
        return await self.spool.claim(self._consumer, limit, lane)

    def read(self, records: Sequence[Record]) -> list[_ClaimedRecords]:
        """Return the store writes of records, but for those of another version, which stay claimed."""
        found = [(record, decoded(record, self._decode)) for record in records]
        leaves = self.follower.leaving if self.follower is not None else _as_it_is
        return [_ClaimedRecords(self, record, leaves(record, write)) for record, write in found if write is not None]

    def release(self, records: Sequence[Record]) -> None:
        """Give claimed records back."""
        self.spool.release(self._consumer, records)
        self.came_back(records)

    def came_back(self, records: Sequence[Record]) -> None:
        """Report to the follower that the store did not take records."""
        if self.follower is not None:
            self.follower.returned(records)

    def finish(self, records: Sequence[Record]) -> None:
        """Ack records that the store has; after a crash of the host some of them are written again."""
        if self.follower is not None:
            self.follower.written(records)
        self.spool.ack(self._consumer, records, synced=False)


def _as_it_is(_: Record, write: Message | Outcome) -> Message | Outcome:
    return write


class _ClaimedRecords(NamedTuple):
    source: Source
    record: Record
    write: Message | Outcome


_Part = Sequence[_ClaimedRecords]


class StoreFeed:
    """Moves the records of spools into the store and acks what is durable there.

    A batch that the store refuses is taken apart, so that a record that it does not take (its document is too large,
    its partition is damaged) holds up no other. Such records stay claimed, so that the spool keeps and counts them, and
    are written again from time to time. When so many are refused that it must be the store itself, they are released
    and tried with a growing backoff, as when it is unreachable. When it does not answer in time, the next batch is
    half as large, so that a slow store completes it within its deadline.

    Parameters
    ----------
    sources
        What is moved, in this order within a batch: messages before what came of them.
    count
        Counts the writes that the store has, before they are acked.
    tell
        Reports them, before they are counted; never raises.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        sources: Sequence[Source],
        count: Callable[[Sequence[Message | Outcome]], None],
        tell: Callable[[Sequence[Message | Outcome]], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._sources = sources
        self._unprepared = list(sources)
        self._count = count
        self._tell = tell
        self._backoff = _FIRST_BACKOFF
        self._most = BATCH
        self._idle = asyncio.Event()
        self._busy = False
        self.up = True

    def source(self, spool: Spool) -> Source:
        """Return the source of a spool."""
        return next(source for source in self._sources if source.spool is spool)

    async def run(self) -> None:
        """Feed until cancelled; the store may be unreachable for any time."""
        while True:
            self._busy = True
            for source in self._sources:
                if due := source.refused.due():
                    source.release(due)
            batch, is_cut = await self._gather()
            is_ready = await self._prepare(batch)
            is_taken = is_ready and bool(batch) and await self._write(batch)
            self._busy = False
            if is_ready and not batch:
                await self._pause()
                continue
            if self._has_all:
                self._idle.set()
            if is_taken and not is_cut:
                await self._clock.sleep(TICK)

    async def _prepare(self, batch: _Part) -> bool:
        """Return whether the store is ready for a batch; else that is released, and a backoff has passed."""
        try:
            while self._unprepared:
                follower = self._unprepared[-1].follower
                if follower is not None:
                    await follower.prepare()
                self._unprepared.pop()
                self.up = True
        except StoreError as error:
            _release(batch)
            await self._back_off(len(batch), error)
            return False
        return True

    @property
    def _has_all(self) -> bool:
        return not (self._busy or any(source.refused or source.lanes for source in self._sources))

    async def caught_up(self, timeout: float) -> bool:  # noqa: ASYNC109 - a bound, not a failure
        """Wait for at most ``timeout`` seconds until nothing waits for the store; return whether it came to that."""
        try:
            async with asyncio.timeout(timeout):
                while not self._has_all:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def _gather(self) -> tuple[list[_ClaimedRecords], bool]:
        """Claim a batch with a part for each source that has records; return whether there may be more."""
        batch: list[_ClaimedRecords] = []
        is_cut = False
        waiting = [source for source in self._sources if source.lanes]
        for number, source in enumerate(waiting):
            room = (self._most - len(batch)) // (len(waiting) - number)
            claimed, is_full = await self._claim(source, room)
            batch += claimed
            is_cut |= is_full
        return batch, is_cut

    async def _claim(self, source: Source, room: int) -> tuple[list[_ClaimedRecords], bool]:
        """Claim from the streams of a source, and return whether one had as much as it was allowed."""
        now = self._clock.monotonic()
        found: list[_ClaimedRecords] = []
        is_full = False
        for lane in source.lanes:
            destination = destination_of(lane)
            most = source.budget.allowance(destination, now, room - len(found))
            if most:
                records = await source.claim(lane, most)
                source.budget.take(destination, len(records))
                found += source.read(records)
                is_full |= len(records) == most
        return found, is_full

    async def _pause(self) -> None:
        """Wait until there may be something to claim, or refused records are due."""
        waiting = [source for source in self._sources if source.lanes]
        if waiting:
            now = self._clock.monotonic()
            soonest = min(source.budget.wait(map(destination_of, source.lanes), now) for source in waiting)
            await self._clock.sleep(min(max(soonest, 0.001), _IDLE))
            return
        refusals = [source.refused.wait for source in self._sources if source.refused]
        if not refusals:
            self._idle.set()
        later = [self._clock.sleep(max(min(refusals), 0.001))] if refusals else []
        await first_of(*(source.wait() for source in self._sources), *later)

    async def _write(self, batch: _Part) -> bool:
        """Write what the store takes of a batch, and return whether it takes anything; else a backoff has passed."""
        is_known = all(item.source.refused.knows(item.record) for item in batch)
        parts: list[_Part] = [batch]
        refusals = 0
        taken = False
        failed: StoreError | None = None
        while parts and refusals < _MOST_REFUSALS:
            part = parts.pop()
            try:
                await self._store.write([item.write for item in part])
                await self._keep_claims(part)
            except StoreError as error:
                failed = error
                refusals += 1
                parts += _split(part, error)
                if parts and parts[-1] is part:
                    break
            else:
                taken = True
                await self._tell([item.write for item in part])
                self._finish(part)
        for part in parts:
            _release(part)
        if failed is None or taken:
            self.up = True
            self._backoff = _FIRST_BACKOFF
            self._most = min(self._most * 2, BATCH)
            return True
        if parts or not is_known:  # else nothing new was tried, and what was is set aside again
            await self._back_off(len(batch), failed)
        return False

    async def _keep_claims(self, part: _Part) -> None:
        """Write which messages idempotency keys stand for: once these are acked, no spool says so any more."""
        claimed = [item.write for item in part if isinstance(item.write, Message) and item.write.claim]
        for begin in range(0, len(claimed), _CLAIMS):
            puts = [self._keep_claim(message) for message in claimed[begin : begin + _CLAIMS]]
            for failed in await asyncio.gather(*puts, return_exceptions=True):
                if failed is not None:
                    raise failed

    async def _keep_claim(self, message: Message) -> None:
        with suppress(Conflict):  # the receiver has written it, or a message before this one has the key
            key = document_key(message.claim, message.received_at)
            await self._store.put(IDEMPOTENCY, key, msgspec.json.encode(claim_of(message)), version=0)

    def _finish(self, part: _Part) -> None:
        self._count([item.write for item in part])
        for source, records in _by_source(part).items():
            source.finish(records)

    async def _back_off(self, count: int, error: StoreError) -> None:
        if self.up:
            _log.warning("the store does not take writes; %d stay in the spool: %s", count, error)
        self.up = False
        if error.retriable:
            self._most = max(self._most // 2, _LEAST)
        await self._clock.sleep(self._backoff)
        self._backoff = min(self._backoff * 2, _LONGEST_BACKOFF)


def _release(part: _Part) -> None:
    for source, records in _by_source(part).items():
        source.release(records)


def _by_source(part: _Part) -> dict[Source, list[Record]]:
    found: defaultdict[Source, list[Record]] = defaultdict(list)
    for item in part:
        found[item.source].append(item.record)
    return found


def _split(part: _Part, error: StoreError) -> list[_Part]:
    """Return what is to be tried of a part that the store did not take: itself when it is the store's fault."""
    if error.retriable:
        return [part]
    if len(part) > 1:
        middle = len(part) // 2
        return [part[middle:], part[:middle]]
    (item,) = part
    if not item.source.refused.add(item.record, error):
        return [part]
    item.source.came_back([item.record])
    return []
