"""Moves the records in the queues of a service that is gone to where they were going."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bus.bootstrap.identity import gone_from
from bus.bootstrap.spools import open_left, queues_of
from bus.domain.delivery.delivery import Origin, Outcome, decode_outcome, due_row, untried_row
from bus.domain.lanes import STORE, destination_of, turn_of
from bus.domain.message import Message, decode_message
from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.ports.spool import Record, Spool, decoded
from bus.ports.store import Store
from bus.ports.transport import OutgoingMessage
from bus.registry import Registry
from bus.spool import is_live
from bus.spool.retire import remove
from bus.stores.budget import Budget
from bus.stores.feed import Source, StoreFeed
from bus.transports.publishing import DestinationPublisher
from compensator.sweeper.ordered_drain import OrderedDrain

_log = logging.getLogger(__name__)
_BATCH: Final = 256
_SWEEPS: Final = 64
"""Commits in a row that may remove nothing: each sweeps for one consumer, and others may need its records still."""
_STORED_WITHIN: Final = 30.0


class DrainResult(NamedTuple):
    """The result for one directory: how many records were moved, how many are left, and whether it is removed."""

    directory: Path
    moved: int
    left: int
    removed: bool


class SpoolDrain:
    """Empties the queues of receivers and dispatchers; each record is acked once it is durable elsewhere.

    A receiver's messages are published and stored; a dispatcher's outcomes are stored; what waited in its direct queue
    becomes due work in the store, which a compensator hands to a live dispatcher. ``count`` counts what was stored,
    ``tell`` reports it.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        publisher: DestinationPublisher,
        ordered: OrderedDrain,
        clock: Clock,
        count: Callable[[Sequence[Message | Outcome]], None],
        tell: Callable[[Sequence[Message | Outcome]], Awaitable[None]],
    ) -> None:
        self._store = store
        self._registry = registry
        self._publisher = publisher
        self._ordered = ordered
        self._owners: set[str] = set()
        self._clock = clock
        self._count = count
        self._tell = tell
        self._directory = Path()
        # In this order: a dispatcher's outcomes are stored before its direct queue becomes due work; they may end it.
        # And what the direct queue has was accepted before what is still to be published.
        self._work: dict[str, Callable[[Spool], Awaitable[None]]] = {
            "outcomes": self._outcomes,
            "direct": self._direct,
            "receiver": self._receiver,
        }

    async def drain(self, directory: Path) -> DrainResult:
        """Empty the queues of a directory as far as their records can be moved, and remove it when it is empty.

        It is one of ``bus.bootstrap.spools.QUEUES``.

        Raises
        ------
        SpoolLocked
            Its process is back.
        SpoolFailed
            The disk failed.
        StoreError
            The store does not answer; what was not moved stays.
        """
        self._directory, self._owners = directory, set(gone_from(directory.parent))
        self._ordered.begin()
        async with open_left(directory) as spools:
            before = sum(spool.stats().records for spool in spools.values())
            for name, work in self._work.items():
                if name in spools:
                    try:
                        await work(spools[name])
                    finally:
                        await spools[name].settle()
            await _wait_for_sweeps(list(spools.values()))
            stats = [spool.stats() for spool in spools.values()]
        left = sum(found.records for found in stats)
        removed = not left and not any(found.damaged for found in stats) and remove(directory)
        return DrainResult(directory, before - left, left, removed)

    async def _receiver(self, spool: Spool) -> None:
        await self._feed(spool, decode_message)
        for lane in list(spool.lanes("publish")):
            while records := await spool.claim("publish", _BATCH, lane):
                readable = _readable(records)
                done = await self._publish(lane, readable)
                spool.ack("publish", done)
                if len(done) < len(readable):
                    break

    async def _publish(self, code: str, messages: Sequence[tuple[Record, Message]]) -> list[Record]:
        """Publish a destination's messages, scheduled ones as due work; return the records that can be acked."""
        destination = self._registry.catalog.destinations.get(code)
        if destination is None:
            return [record for record, _ in messages] if self._registry.catalog.has_left(code) else []
        if self._ordered.is_ordered(code) and self._ordered.delivered_by(code, self._owners):
            return [] if self._is_behind() else await self._for_each(code, messages)
        now = self._clock.now()
        later = [(record, message) for record, message in messages if message.deliver_at > now]
        await self._store.compensate([due_row(message) for _, message in later])
        soon = [
            (record, OutgoingMessage(message, record.payload))
            for record, message in messages
            if message.deliver_at <= now
        ]
        safe = [record for record, _ in later]
        await self._publisher.publish(
            destination, [item for _, item in soon], lambda held: safe.extend(soon[n][0] for n in held)
        )
        return safe

    def _is_behind(self) -> bool:
        """Whether a dispatcher that is gone has left queues beside this one: what is there was published before."""
        queues = queues_of(self._directory.parent, frozenset({"dispatcher"}))
        return any(path != self._directory and not is_live(path) for path in queues)

    async def _for_each(self, code: str, messages: Sequence[tuple[Record, Message]]) -> list[Record]:
        """Move messages for each subscription that they expect, in order; return the records that can be acked."""
        for name in sorted({name for _, message in messages for name in message.expected}):
            expected = [message for _, message in messages if name in message.expected]
            if await self._ordered.move(code, name, expected, self._owners) < len(expected):
                return []
        return [record for record, _ in messages]

    async def _outcomes(self, spool: Spool) -> None:
        await self._feed(spool, decode_outcome)
        for found in spool.stats().consumers:
            # Their rows are in the store, which hands out the next attempts from now on.
            while found.consumer != "store" and (records := await spool.claim(found.consumer, _BATCH, found.lane)):
                spool.ack(found.consumer, records)

    async def _direct(self, spool: Spool) -> None:
        await self._feed(spool, decode_message, STORE)
        for found in sorted(spool.stats().consumers, key=lambda one: turn_of(one.lane)):
            if found.consumer != STORE:
                await self._waiting(spool, found.lane, found.consumer)

    async def _waiting(self, spool: Spool, lane: str, name: str) -> None:
        """Move messages that wait for a subscription in one stream."""
        code = destination_of(lane)
        while records := await spool.claim(name, _BATCH, lane):
            readable, now = _readable(records), self._clock.now()
            if self._ordered.is_ordered(code):
                count = await self._ordered.move(code, name, [one for _, one in readable], self._owners)
            else:
                await self._store.compensate([untried_row(one, name, now, Origin.TRANSPORT) for _, one in readable])
                count = len(readable)
            spool.ack(name, [record for record, _ in readable[:count]])
            if count < len(readable):
                return

    async def _feed(self, spool: Spool, decode: Callable[[bytes], Message | Outcome], consumer: str = "store") -> None:
        """Write the spool's records to the store, at the store rates of their destinations."""
        budget = Budget(lambda: None, self._registry.store_rate)
        source = Source(spool, consumer, decode, budget, self._clock)
        feed = StoreFeed(self._store, self._clock, [source], self._count, self._tell)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(feed.run())
            is_done = await feed.caught_up(_STORED_WITHIN)
            running.cancel()
        if not is_done and not feed.up:
            raise StoreError("the store does not take what the spool holds")


async def _wait_for_sweeps(spools: Sequence[Spool]) -> None:
    """Wait until the records are removed that only detached consumers had not finished."""
    before, unchanged = -1, 0
    while (left := sum(spool.totals().records for spool in spools)) and unchanged < _SWEEPS:
        before, unchanged = left, unchanged + 1 if left == before else 0
        for spool in spools:
            await spool.settle()


def _readable(records: Sequence[Record]) -> list[tuple[Record, Message]]:
    return [(record, message) for record in records if (message := decoded(record, decode_message)) is not None]
