"""The deliveries of a selection: for a job's preview, the job itself, and failures since its creation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from admin.repair.jobs import Item, Job, Kind
from admin.repair.lost_deliveries import LostDeliveries
from admin.repair.resender import HAND_OVER, is_pending, target_of
from bus.domain.delivery.canceling import REMOVED
from bus.domain.delivery.delivery import Status
from bus.domain.delivery.reasons import ENDED_SINCE, EXPIRED, ON_ITS_WAY, PAUSED
from bus.domain.searching.selection import Selection
from bus.domain.tracing.signature import FAILING
from bus.domain.tracing.trace import Trace, is_chosen
from bus.ports.clock import Clock
from bus.ports.store import TraceStore
from bus.registry import Registry

_PAGE: Final = 500
_SAMPLE: Final = 10
_LONGEST_COUNT: Final = 10.0
_LOOKED_AT: Final = 1_000
_KNOWN_FOR: Final = 5.0
_MOST_KNOWN: Final = 100
_ENDED_WELL: Final = (Status.DELIVERED, Status.SKIPPED, Status.CANCELED)


class Preview(NamedTuple):
    """The number of deliveries of a selection, and its first messages.

    ``counted_to`` is None when all were counted; else the id of the oldest message that was: newer ones go first.
    """

    deliveries: int
    sample: list[Trace]
    counted_to: str | None


class NewFailures(NamedTuple):
    """The number of deliveries that failed after a job was frozen; there may be more unless ``complete``."""

    deliveries: int
    complete: bool


class Chooser:
    """Asks the store which deliveries a selection takes now."""

    def __init__(self, store: TraceStore, registry: Registry, lost: LostDeliveries, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._lost = lost
        self._clock = clock
        # By job, with the time of the count: pages ask for it again and again while a job runs.
        self._known: OrderedDict[str, tuple[float, NewFailures]] = OrderedDict()

    async def preview(self, selection: Selection) -> Preview:
        """Count the deliveries of a selection, for some seconds at most; as far as it gets, the count is exact."""
        end = self._clock.monotonic() + _LONGEST_COUNT
        count, cursor, sample = 0, None, list[Trace]()
        while True:
            page = await self._store.search(selection, cursor=cursor, limit=_PAGE)
            count += sum(len(self.names(trace, selection)) for trace in page.traces)
            sample += page.traces[: _SAMPLE - len(sample)]
            cursor = page.next
            if cursor is None:
                return Preview(count, sample, None)
            if self._clock.monotonic() >= end:
                return Preview(count, sample, page.traces[-1].id if page.traces else cursor)

    async def new_failures(self, job: Job) -> NewFailures | None:
        """Count deliveries that failed since a job was created and match its selection without an upper time.

        Only a limited number of the newest messages is read, and the answer is cached for some seconds. What the job
        resent itself does not count. None for a discard, and when the selection takes no failed deliveries.
        """
        if job.kind is Kind.DISCARD:
            return None
        if job.selection.status is not None and job.selection.status not in FAILING:
            return None
        now = self._clock.monotonic()
        counted_at, found = self._known.get(job.id, (0.0, None))
        if found is None or now - counted_at >= _KNOWN_FOR:
            found = await self._count_failures(job)
            self._known[job.id] = (now, found)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return found

    async def _count_failures(self, job: Job) -> NewFailures:
        endless = msgspec.structs.replace(job.selection, before=None)
        page = await self._store.search(endless, limit=_LOOKED_AT)
        count = sum(self._failed_since(trace, endless, job) for trace in page.traces)
        return NewFailures(count, page.next is None)

    async def unended(self, destination: str, deliveries: Sequence[tuple[str, str]]) -> list[Item]:
        """Return an item for each unfinished delivery (message's id, subscription), to finish it.

        A delivery that is delivered, skipped or canceled is skipped, and so is a pending one that is paused or younger
        than ``stuck_after``, which a transport may still hold. An older pending one gets an item with ``HAND_OVER``,
        any other one an item that resends it. One whose message or subscription is gone is ``missing``.

        Of a strictly ordered destination the chain says what is pending: what a group still holds is skipped, however
        old it is, and what no group has any more is handed over, also while it is paused; what is lost with a group
        however young.
        """
        traces = {message_id: await self._store.trace(message_id) for message_id in {each[0] for each in deliveries}}
        return [await self._unended(destination, traces[one], one, name) for one, name in deliveries]

    async def _unended(self, destination: str, trace: Trace | None, message_id: str, name: str) -> Item:
        if trace is None or trace.message is None or trace.destination != destination:
            return Item(message_id, name, HAND_OVER, "missing", EXPIRED)
        if name not in self._registry.catalog.names(destination):
            return Item(message_id, name, HAND_OVER, "missing", REMOVED)
        delivery = trace.deliveries.get(name)
        if delivery is not None and delivery.status in _ENDED_WELL:
            return Item(message_id, name, delivery.generation, "skipped", ENDED_SINCE)
        if is_pending(trace, name):
            return await self._waiting(trace, name)
        return Item(message_id, name, target_of(trace, name).generation)

    async def _waiting(self, trace: Trace, name: str) -> Item:
        """Return the item of a delivery that was never attempted."""
        if await self._lost.is_on_no_group(trace, name):
            return Item(trace.id, name, HAND_OVER)
        subscription = self._registry.subscription(trace.destination, name)
        if subscription.paused or self._registry.destination(trace.destination).paused:
            return Item(trace.id, name, HAND_OVER, "skipped", PAUSED)
        is_told = await self._lost.whereabouts(trace, name) is not None
        if is_told or not self._lost.is_overdue(trace, name):
            return Item(trace.id, name, target_of(trace, name).generation, "skipped", ON_ITS_WAY)
        return Item(trace.id, name, HAND_OVER)

    def names(self, trace: Trace, selection: Selection) -> list[str]:
        """Return the subscriptions whose deliveries of a message a selection takes."""
        known = self._registry.catalog.names(trace.destination)
        names = [name for name in trace.deliveries if name in known]
        if selection.subscription is not None:
            names = [selection.subscription] if selection.subscription in known else []
        if selection.status is not None or selection.asks_how_it_went:
            names = [name for name in names if is_chosen(trace.deliveries[name], selection)]
        return names

    def _failed_since(self, trace: Trace, selection: Selection, job: Job) -> int:
        found = [trace.deliveries[name] for name in self.names(trace, selection) if name in trace.deliveries]
        return sum(
            delivery.status in FAILING
            and delivery.at > job.created_at
            and all(resend.job != job.id for resend in delivery.resends)
            for delivery in found
        )
