"""Discards as jobs: undelivered deliveries of one subscription end as ``canceled`` and are not sent any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from admin.repair.jobs import Item, Job
from bus.domain.delivery.canceling import canceled
from bus.domain.delivery.delivery import FINAL, UNDELIVERED, Outcome, Status
from bus.domain.delivery.intervention import DISCARDED, Intervention
from bus.domain.delivery.reasons import ACCEPTED_SINCE, ENDED_SINCE, EXPIRED, NOT_DISCARDED, OTHER_SINCE, RESENT_SINCE
from bus.domain.times import SKEW
from bus.domain.tracing.trace import DeliveryTrace, Trace, is_chosen
from bus.errors import Conflict
from bus.ports.clock import Clock
from bus.ports.store import TraceStore
from bus.registry import Registry
from bus.stores.cancellations import Cancellations


class DiscardAct:
    """The work of a discard: cancels deliveries, and has dispatchers ask the store before they post.

    A delivery that has ended since it was chosen, that was resent, or that does not meet the filter any more, stays as
    it is. Dispatchers are asked twice to check the store before they post messages received until now: before the
    first delivery is canceled, for messages that their transports bring from then on; and after the last, for messages
    that were in their memory meanwhile.

    Parameters
    ----------
    settle
        Waits a moment until every process that is alive has the configuration of now in force.
    """

    left_out: str = NOT_DISCARDED
    unknown: str = NOT_DISCARDED

    def __init__(
        self,
        store: TraceStore,
        registry: Registry,
        cancellations: Cancellations,
        clock: Clock,
        settle: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._registry = registry
        self._cancellations = cancellations
        self._clock = clock
        self._settle = settle

    async def item(self, job: Job, trace: Trace, subscription: str) -> Item:
        """Return the item of a delivery in the generation that it has.

        A selection goes by when messages were made. One that waited in its producer's queue, and was accepted only
        after the job was made, is ``skipped``.
        """
        item = Item(trace.id, subscription, trace.deliveries[subscription].generation)
        if trace.message is not None and trace.message.received_at > job.created_at:
            item.outcome, item.reason = "skipped", ACCEPTED_SINCE
        return item

    async def begin(self, job: Job) -> None:
        """Have dispatchers ask the store about messages that their transports bring."""
        await self._have_asked(job)

    async def apply(self, job: Job, items: Sequence[Item]) -> None:
        """Cancel what may still be delivered, and meets the filter as it is now: the job may have been paused."""
        traces = await asyncio.gather(*(self._store.trace(item.message_id) for item in items))
        outcomes: list[Outcome] = []
        for item, trace in zip(items, traces, strict=True):
            if trace is None or item.subscription not in trace.deliveries:
                item.outcome, item.reason = "missing", EXPIRED
            elif not _is_open(item, delivery := trace.deliveries[item.subscription]):
                continue
            elif is_chosen(delivery, job.selection):
                outcomes.append(canceled(trace, item.subscription, self._clock.now(), reason_of_job(job)))
            else:
                item.outcome, item.reason = "skipped", OTHER_SINCE
        await self._cancellations.end(outcomes)

    async def end(self, job: Job) -> None:
        """Have dispatchers ask the store about messages that were in their memory while deliveries were canceled."""
        await self._have_asked(job)

    def look(self, job: Job, item: Item, delivery: DeliveryTrace) -> bool:
        """Set the outcome of a delivery that ended; return whether it did."""
        if delivery.generation > item.generation:
            item.outcome, item.reason = "skipped", RESENT_SINCE
        elif delivery.status is Status.DELIVERED:
            item.outcome, item.reason = "delivered", delivery.reason
        elif delivery.status is Status.CANCELED and delivery.reason == reason_of_job(job):
            item.outcome, item.reason = "discarded", delivery.reason
        elif delivery.status in FINAL - UNDELIVERED:
            item.outcome, item.reason = "skipped", ENDED_SINCE
        return item.outcome != "waiting"

    async def _have_asked(self, job: Job) -> None:
        selection = job.selection
        if not job.chunks or selection.destination is None or selection.subscription is None:
            return
        key = (selection.destination, selection.subscription)
        while True:
            try:
                await self._registry.doubt(key, self._clock.now() + SKEW)
            except Conflict:
                await self._registry.load()
            else:
                break
        await self._settle()


def reason_of_job(job: Job) -> str:
    """Return the reason that is stored with the deliveries that a job discards."""
    return str(Intervention(DISCARDED, job.by, job.reason))


def _is_open(item: Item, delivery: DeliveryTrace) -> bool:
    return delivery.generation == item.generation and delivery.status in UNDELIVERED
