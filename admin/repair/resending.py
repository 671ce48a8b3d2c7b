"""Resends as jobs: each delivery starts again, and its first attempt decides the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from admin.repair.jobs import Item, Job
from admin.repair.lost_deliveries import LostDeliveries
from admin.repair.resender import HAND_OVER, Cause, Resender, Target, UntriedDelivery, is_pending, target_of
from bus.domain.delivery.delivery import Status
from bus.domain.delivery.reasons import EXPIRED, NOT_RESENT, ON_ITS_WAY, OUTCOME_UNKNOWN, RESENT_SINCE
from bus.domain.tracing.trace import DeliveryTrace, Trace
from bus.errors import NotFound

_OUTCOMES: Final = {Status.DELIVERED: "delivered", Status.SKIPPED: "skipped"}


class ResendAct:
    """The act of a resend: each generation was fixed when its item was chosen."""

    left_out: str = NOT_RESENT
    unknown: str = OUTCOME_UNKNOWN

    def __init__(self, resender: Resender, lost: LostDeliveries) -> None:
        self._resender = resender
        self._lost = lost

    async def item(self, job: Job, trace: Trace, subscription: str) -> Item:  # noqa: ARG002 - as of any act
        """Return the item that resends a delivery with its next generation.

        One that is pending is ``skipped``, unless no group of brokers has it any more: then it is handed over.
        """
        item = Item(trace.id, subscription, target_of(trace, subscription).generation)
        if is_pending(trace, subscription):
            if await self._lost.is_on_no_group(trace, subscription):
                item.generation = HAND_OVER
            else:
                item.outcome, item.reason = "skipped", ON_ITS_WAY
        return item

    async def begin(self, job: Job) -> None:
        """Need nothing."""

    async def apply(self, job: Job, items: Sequence[Item]) -> None:
        """Resend items at once, so that they share the store's commits; those that are handed over in their order."""
        cause = Cause(job.id, job.by, job.reason)
        handed = [item for item in items if item.generation == HAND_OVER]
        gone = await self._resender.hand_over([UntriedDelivery(item.message_id, item.subscription) for item in handed])
        for item in handed:
            if UntriedDelivery(item.message_id, item.subscription) in gone:
                item.outcome, item.reason = "missing", EXPIRED
        again = [item for item in items if item.generation > HAND_OVER]
        applying = [
            self._resender.apply(item.message_id, [Target(item.subscription, item.generation)], cause) for item in again
        ]
        results = await asyncio.gather(*applying, return_exceptions=True)
        for item, result in zip(again, results, strict=True):
            if isinstance(result, NotFound):
                item.outcome, item.reason = "missing", str(result)
            elif result is not None:
                raise result

    async def end(self, job: Job) -> None:
        """Need nothing."""

    def look(self, job: Job, item: Item, delivery: DeliveryTrace) -> bool:  # noqa: ARG002 - as of any act
        """Set the outcome once the first new attempt has ended; return whether it was resent."""
        if delivery.generation > item.generation:
            item.outcome, item.reason = "skipped", RESENT_SINCE
        elif delivery.generation == item.generation and delivery.status not in (Status.RESEND, Status.PENDING):
            item.outcome = _OUTCOMES.get(delivery.status, "failed")
            item.reason = delivery.reason
        return delivery.generation >= item.generation
