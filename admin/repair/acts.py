"""The acts of a job on its deliveries: the common part of resends and discards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from admin.repair.jobs import Item, Job
from bus.domain.tracing.trace import DeliveryTrace, Trace


class Act(Protocol):
    """One kind of work on deliveries; all but ``look`` may raise ``StoreError``, and may be repeated.

    Attributes
    ----------
    left_out
        Why an item was canceled with its job.
    unknown
        What is said of an item that the job did not wait for any more.
    """

    left_out: str
    unknown: str

    async def item(self, job: Job, trace: Trace, subscription: str) -> Item:
        """Return the item of a delivery that was selected; its outcome is not ``waiting`` if there is nothing to do."""
        ...

    async def begin(self, job: Job) -> None:
        """Get ready, once all items are chosen and before the first is applied."""
        ...

    async def apply(self, job: Job, items: Sequence[Item]) -> None:
        """Apply the act to items that wait; durable when it returns. An expired item gets the outcome ``missing``."""
        ...

    async def end(self, job: Job) -> None:
        """Put the applied items in force in every process, once no more items are applied."""
        ...

    def look(self, job: Job, item: Item, delivery: DeliveryTrace) -> bool:
        """Set an item's outcome if its delivery has one; return whether the act was applied to it."""
        ...
