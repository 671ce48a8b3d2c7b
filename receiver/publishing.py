"""From the receiver's spool to the destination's transport."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from bus.domain.catalog import Catalog
from bus.domain.delivery.delivery import due_row
from bus.domain.destination import Destination
from bus.domain.message import Message, decode_message
from bus.errors import StoreError
from bus.localized_text import AnyText, localized
from bus.ports.clock import Clock
from bus.ports.spool import Record, Spool, decoded
from bus.ports.store import Store
from bus.ports.transport import OutgoingMessage
from bus.registry import Registry
from bus.transports.publishing import DestinationPublisher
from receiver.placement import PUBLISH

_log = logging.getLogger(__name__)
_BATCH: Final = 256
_MOST: Final = 2048
_PROBE: Final = 1
_FIRST_BACKOFF: Final = 0.05
_LONGEST_BACKOFF: Final = 5.0
_NAMED: Final = 10
_ENDING: Final = 5.0
"""Seconds that a stop waits for what transports were just given; what they confirm later is published again."""


class _MoveResult(NamedTuple):
    """The result of a move: if ``some`` records are safe elsewhere, how many are ``left``, and if only for capacity."""

    some: bool
    left: int
    lacks_room: bool


class SpoolPublisher:
    """One worker for each destination that has had messages, so that a stalled transport holds up no other."""

    def __init__(
        self, registry: Registry, publisher: DestinationPublisher, spool: Spool, store: Store, clock: Clock
    ) -> None:
        self._registry = registry
        self._publisher = publisher
        self._spool = spool
        self._store = store
        self._clock = clock
        self._group: asyncio.TaskGroup | None = None
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._moving: set[str] = set()
        self._is_store_away = False
        self._catalog = registry.catalog
        # By destination, what a worker waits for while its destination is paused or missing.
        self._held: dict[str, asyncio.Event] = {}
        registry.listen(self._follow)

    async def run(self, stopping: asyncio.Event) -> None:
        """Publish until ``stopping``, and end what is under way; what is not published stays in the spool."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for lane in self._spool.lanes(PUBLISH):
                self.notice(lane)
            await stopping.wait()
            self._group = None
            await self._end()

    async def _end(self) -> None:
        """Stop the workers, those that wait for an answer a little later."""
        moving = [task for lane, task in self._lanes.items() if lane in self._moving]
        for task in self._lanes.values():
            if task not in moving:
                task.cancel()
        if moving:
            await asyncio.wait(moving, timeout=_ENDING)
        for task in moving:
            task.cancel()

    def notice(self, destination: str) -> None:
        """Start a worker for the destination unless it has one."""
        if destination not in self._lanes and self._group is not None:
            self._lanes[destination] = self._group.create_task(self._work(destination))

    async def _follow(self, catalog: Catalog) -> None:
        """Have the workers look again whose destinations have changed, or are missing."""
        changed, self._catalog = catalog.since(self._catalog).destinations, catalog
        for code, event in self._held.items():
            if code in changed or code not in catalog.destinations:
                event.set()

    def count(self, message: Message) -> None:
        """Count and report a message that was accepted right into its transport's queue."""
        self._publisher.count(message)

    async def _work(self, lane: str) -> None:
        backoff, limit = _FIRST_BACKOFF, _BATCH
        while self._group is not None:
            await self._spool.wait(PUBLISH, lane)
            destination = self._catalog.destinations.get(lane)
            if destination.paused if destination is not None else self._is_missing(lane):
                await self._wait_for_change(lane)
                continue
            records = await self._spool.claim(PUBLISH, limit, lane)
            self._moving.add(lane)
            try:
                moved = await self._move(destination, records)
            finally:
                self._moving.discard(lane)
            # A transport without capacity is tried with one message, until it takes that. What it takes none of, as of
            # keys whose partition is unreachable, is claimed first again: so as many more, to reach the others behind.
            limit = _PROBE if moved.lacks_room else min(_BATCH + moved.left, _MOST)
            if moved.some or not moved.left:
                backoff = _FIRST_BACKOFF
            if moved.left and self._group is not None:
                await self._clock.sleep(backoff)
                backoff = min(backoff * 2, _LONGEST_BACKOFF)

    async def _wait_for_change(self, lane: str) -> None:
        """Return once the configuration of a destination may have changed."""
        event = self._held[lane] = asyncio.Event()
        try:
            await event.wait()
        finally:
            del self._held[lane]

    @property
    def trouble(self) -> AnyText:
        """Messages that wait for destinations that the configuration lacks; empty without any."""
        waiting = {found.lane for found in self._spool.waiting() if found.consumer == PUBLISH}
        missing = sorted(filter(self._is_missing, waiting))
        if not missing:
            return ""
        return localized(
            "messages wait for destinations that the configuration lacks: {names}; "
            "make them again, or drop the messages with bus doctor --accept-empty-store",
            names=", ".join(missing[:_NAMED]),
        )

    def _is_missing(self, destination: str) -> bool:
        """Whether the configuration lacks a destination without any record that it was removed."""
        catalog = self._catalog
        return destination not in catalog.destinations and (self._registry.is_old or not catalog.has_left(destination))

    async def _move(self, destination: Destination | None, records: list[Record]) -> _MoveResult:
        """Publish or schedule claimed records and ack what is safe."""
        now = self._clock.now()
        outgoing: list[tuple[Record, OutgoingMessage]] = []
        scheduled: list[tuple[Record, Message]] = []
        for record in records:
            message = decoded(record, decode_message)
            if message is None:
                continue
            if message.deliver_at > now:
                scheduled.append((record, message))
            else:
                outgoing.append((record, OutgoingMessage(message, record.payload)))
        unscheduled = 0 if not scheduled or await self._schedule(scheduled) else len(scheduled)
        kept, lacks_room = await self._publish(destination, outgoing) if outgoing else (0, False)
        left = unscheduled + kept
        # Scheduled messages that wait for the store are claimed first again: by one message nothing else would be seen.
        return _MoveResult(left < len(scheduled) + len(outgoing), left, lacks_room and not unscheduled)

    async def _publish(
        self, destination: Destination | None, outgoing: Sequence[tuple[Record, OutgoingMessage]]
    ) -> tuple[int, bool]:
        """Publish and ack what a transport takes; return how many none took, and whether only for lack of capacity."""
        if destination is None:
            # Removed while messages were on their way: their traces say that no subscription took them.
            self._spool.ack(PUBLISH, [record for record, _ in outgoing])
            return 0, False

        def ack(held: Sequence[int]) -> None:
            self._spool.ack(PUBLISH, [outgoing[n][0] for n in held])

        confirmed = await self._publisher.publish(destination, [item for _, item in outgoing], ack)
        kept = [record for (record, _), done in zip(outgoing, confirmed, strict=True) if not done]
        self._spool.release(PUBLISH, kept)
        return len(kept), bool(kept) and False not in confirmed

    async def _schedule(self, scheduled: Sequence[tuple[Record, Message]]) -> bool:
        """Put messages for later into the store as due rows; they stay in the spool until it has them."""
        records = [record for record, _ in scheduled]
        try:
            await self._store.compensate([due_row(message) for _, message in scheduled])
        except StoreError as error:
            if not self._is_store_away:
                _log.warning("messages for later wait in the spool for the store: %s", error)
            self._is_store_away = True
            self._spool.release(PUBLISH, records)
            return False
        self._is_store_away = False
        self._spool.ack(PUBLISH, records)
        return True
