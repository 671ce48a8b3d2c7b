"""Due work: leased in batches, handed to the dispatcher; it never POSTs itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from bus.async_helpers import first_of
from bus.cluster.cluster_backlog import ClusterBacklog
from bus.domain.delivery.delivery import Compensation, Delivery
from bus.domain.delivery.leases import lease_time
from bus.domain.message import Message, decode_message
from bus.domain.tracing import events as events_of
from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.ports.dispatching import LocalDispatcher
from bus.ports.events import Events
from bus.ports.spans import NO_SPANS, Spans
from bus.ports.store import DeliveryKey, Store
from bus.ports.transport import OutgoingMessage
from bus.registry import Registry
from bus.telemetry import labels, metrics
from bus.telemetry.outage import Outage
from bus.transports.publishing import DestinationPublisher
from compensator.believed import BelievedTime

_log = logging.getLogger(__name__)
_BATCH: Final = 256
_SHORTEST: Final = 0.005
_LONGEST: Final = 0.25
_AFTER_FAILURE: Final = 1.0
_PUBLISHED_AT_ONCE: Final = 64
_DISBELIEF: Final = 10.0
"""Seconds until a jump of the clock ends leases; by then it is known how far ahead of the others' it is."""


class Compensator:
    """Leases due work, as much as each subscription has capacity for, and hands it to dispatchers.

    ``owner`` names its leases; with a dispatcher in the same process, leases of an earlier run are ended at the start.
    It looks every 0.25 s at least, and when ``due`` is set.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        publisher: DestinationPublisher,
        dispatching: LocalDispatcher,
        events: Events,
        clock: Clock,
        owner: str,
        waiting: ClusterBacklog,
        due: asyncio.Event,
        spans: Spans = NO_SPANS,
    ) -> None:
        self._store = store
        self._registry = registry
        self._publisher = publisher
        self._dispatching = dispatching
        self._events = events
        self._clock = clock
        self._owner = owner
        self._reclaimed = False
        self._waiting = waiting
        self._due = due
        self._spans = spans
        self._refused_until: dict[str, float] = {}
        self._believed = BelievedTime(clock, _DISBELIEF, _DISBELIEF)
        self._in_vain = _SHORTEST * 4
        self._outage = Outage(_log, "due work waits for the store")

    async def run(self) -> None:
        """Work until cancelled; the store may be unreachable for any time."""
        while True:
            try:
                wait = await self.step()
            except StoreError as error:
                self._outage.goes_on(error)
                wait = _AFTER_FAILURE
            else:
                self._outage.is_over()
            await first_of(self._clock.sleep(wait), self._due.wait())
            self._due.clear()

    async def step(self) -> float:
        """Hand on one batch of due work; return the seconds after which to look again."""
        if not self._reclaimed and self._dispatching.is_local:
            # What an earlier run had handed over to its own dispatcher was lost with it.
            await self._store.reclaim(self._owner)
            self._reclaimed = True
        over = self._leases_over_by()
        now, due = self._clock.now(), await self._store.next_due()
        if due is None or due > now:
            return _LONGEST if due is None else min(max((due - now) / 1000, _SHORTEST * 4), _LONGEST)
        room = await self._room(await self._store.ready(now))
        until = now + self._waiting.too_slow + self._lease_time(room)
        rows = await self._store.lease(now, until, room, _BATCH, owner=self._owner, over=over)
        back = await self._publish([row for row in rows if not row.subscription])
        back += await self._hand_over([row for row in rows if row.subscription])
        if len(rows) == back:
            # What is due has no capacity: each look in vain doubles the wait for the next one.
            self._in_vain = min(self._in_vain * 2, _LONGEST)
            return self._in_vain
        self._in_vain = _SHORTEST * 4
        return _SHORTEST if len(rows) == _BATCH else _SHORTEST * 4

    def _leases_over_by(self) -> int:
        """Return by when leases that ended are over (ms): this process's clock may be ahead, or just have been set.

        None is over in the first seconds, for as long as the others' clocks may be unknown.
        """
        believed = self._believed.now()
        return 0 if believed is None else min(self._clock.now(), believed) - self._waiting.too_fast

    async def measure(self) -> Callable[[], None]:
        """Count unfinished deliveries; return the function that sets their gauge."""
        try:
            counts = await self._store.due(self._clock.now())
        except StoreError:
            return lambda: None  # the gauge stays as it was; that the store is unreachable is a metric of its own
        return partial(_fill, counts)

    async def _room(self, ready: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return how many rows to lease of each of these subscriptions; an empty name has messages to publish."""
        destinations = self._registry.catalog.destinations
        flowing = {key for key in ready if (found := destinations.get(key[0])) is not None and not found.paused}
        # While outcomes from before a dispatcher's restart wait in its spool, the store lacks some finished deliveries.
        unseen = self._waiting.unseen_of_earlier_lives()
        due = {(code, name) for code, name in flowing if name and code not in unseen}
        room = await self._dispatching.room(due) if due else {}
        now = self._clock.monotonic()
        scheduled = {(code, name) for code, name in flowing if not name and self._refused_until.get(code, 0.0) <= now}
        return room | dict.fromkeys(scheduled, _PUBLISHED_AT_ONCE)

    def _lease_time(self, keys: Iterable[tuple[str, str]]) -> int:
        subscriptions = self._registry.catalog.subscriptions
        return lease_time(subscriptions[key].timeout for key in keys if key in subscriptions)

    async def _publish(self, rows: Sequence[Compensation]) -> int:
        """Publish the messages of these rows, whose time has come; return how many are given back."""
        back = 0
        for row in rows:
            destination = self._registry.catalog.destinations.get(row.destination)
            if destination is None:
                has_left = self._registry.catalog.has_left(row.destination)
                await (self._store.finish([row]) if has_left else self._store.unlease([row]))
                back += not has_left
                continue
            message = _read(row)
            if message is None:
                continue
            started = self._clock.now()
            (confirmed,) = await self._publisher.publish(
                destination, [OutgoingMessage(message, row.message)], _settled_later
            )
            if confirmed:
                self._events.emit(events_of.handed_on(message, self._clock.now()))
                self._spans.handed(_delivery(row, message), started)
                await self._store.finish([row])
            else:
                self._refused_until[row.destination] = self._clock.monotonic() + _AFTER_FAILURE
                await self._store.unlease([row])
                back += 1
        return back

    async def _hand_over(self, rows: Sequence[Compensation]) -> int:
        """Offer these deliveries to dispatchers; return how many are given back."""
        readable = [(row, message) for row in await self._without_finished(rows) if (message := _read(row)) is not None]
        rows = [row for row, _ in readable]
        deliveries = [_delivery(row, message) for row, message in readable]
        started = self._clock.now()
        taken = await self._dispatching.offer(deliveries)
        now = self._clock.now()
        for delivery, was_taken in zip(deliveries, taken, strict=True):
            if was_taken:
                self._events.emit(events_of.handed(delivery, now))
                self._spans.handed(delivery, started)
        back = [row for row, was_taken in zip(rows, taken, strict=True) if not was_taken]
        if back:
            await self._store.unlease(back)
        return len(back)

    async def _without_finished(self, rows: Sequence[Compensation]) -> Sequence[Compensation]:
        """Remove rows whose delivery is finished, and return the others."""
        if not rows:
            return rows
        finished = await self._store.finished([_key(row) for row in rows])
        done = [row for row in rows if _key(row) in finished]
        if done:
            await self._store.finish(done)
        return [row for row in rows if _key(row) not in finished]


def _settled_later(_: Sequence[int]) -> None:
    """Do nothing: ``_publish`` finishes the row itself, once it has emitted the event."""


def _key(row: Compensation) -> DeliveryKey:
    return DeliveryKey(row.message_id, row.retention_days, row.subscription, row.generation)


def _fill(counts: Mapping[tuple[str, str], int]) -> None:
    metrics.COMPENSATIONS.clear()
    for key, count in counts.items():
        metrics.COMPENSATIONS.labels(*labels.SUBSCRIPTIONS.of(*key)).inc(count)


def _read(row: Compensation) -> Message | None:
    try:
        return decode_message(row.message)
    except msgspec.DecodeError:
        # Another version wrote it: it is not given back, and so stays in the store and in the gauge.
        _log.exception("the row of message %s is of another version; it stays in the store", row.message_id)
        return None


def _delivery(row: Compensation, message: Message) -> Delivery:
    return Delivery(
        message=message,
        subscription=row.subscription,
        generation=row.generation,
        attempts=row.attempts,
        tries=row.tries,
        since=row.since,
        by=row.by,
        handed_over=True,
    )
