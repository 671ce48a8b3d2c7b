"""The window of messages that a worker holds, and the batches of its POSTs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bus.domain.delivery.batch import BATCH_BYTES, size_in_batch
from bus.domain.subscription import Subscription
from dispatcher.pending_deliveries import PendingDeliveries, PendingDelivery

MOST_HELD: Final = 10_000
"""Messages that are held at once so that batches can fill."""
HELD_BYTES: Final = 32 * 2**20
"""Bytes of bodies from which on nothing more is pulled to fill batches."""


class Window:
    """The number of messages of a subscription that a worker holds at most, waiting or in flight.

    As many as two POSTs for each slot take; ``MOST_HELD`` where an order is kept, since what waits for others of its
    key uses no slot. To fill batches these are ``MOST_HELD`` at most; and while bodies of
    ``HELD_BYTES`` are held nothing is pulled or handed over, so that there are no more of them than these and those
    that came at once.

    Attributes
    ----------
    most
        The most there are.
    half
        Those of one POST for each slot; so many outcomes may wait to be recorded.
    """

    def __init__(self, subscription: Subscription, *, is_ordered: bool = False) -> None:
        rate, permits = subscription.rate, subscription.max_concurrency
        self._is_bounded = is_ordered or subscription.batch > 1
        fill = subscription.batch if rate is None else min(subscription.batch, max(1, int(rate)))
        self._permits = permits
        self.half = max(permits, min(permits * fill, MOST_HELD // 2))
        self.most = max(2 * self.half, MOST_HELD if is_ordered else 0)

    def pull(self, free: int, pending: PendingDeliveries) -> int:
        """Return how many messages to ask a transport for while so many are free; 0 for none."""
        return self.room(free, pending) if free >= self.half else 0

    def room(self, free: int, pending: PendingDeliveries) -> int:
        """Return how many messages may come while so many are free."""
        if not self._is_bounded or free <= 0:
            return max(0, free)
        left, least = HELD_BYTES - pending.body_bytes, 2 * self._permits
        if left <= 0:
            return 0
        if not len(pending):
            return min(free, least)
        mean = pending.body_bytes // len(pending) + 1
        return min(free, max(least, left // mean))


def gather(
    first: PendingDelivery,
    pending: PendingDeliveries,
    most: int,
    now: float,
    wants: Callable[[PendingDelivery], bool],
    is_doubtful: Callable[[PendingDelivery], bool],
) -> list[PendingDelivery]:
    """Return the first delivery, and of those that wait behind it what fits into the same POST.

    Nothing is waited for, and what does not fit goes first the next time.

    Parameters
    ----------
    most
        Messages in the POST.
    now
        Monotonic seconds; what may not start any more is dropped.
    wants
        Whether a message is to be delivered; one that is not was dealt with.
    is_doubtful
        Whether a delivery may not go out yet, nor what waits behind it.
    """
    load, size, waiting, skipped = [first], size_in_batch(first.delivery.message), pending.waiting, 0
    while waiting and len(load) < most and skipped < most:
        entry = waiting[0]
        if entry.until < now:
            pending.drop_overdue(now)
            continue
        size += size_in_batch(entry.delivery.message)
        if size > BATCH_BYTES or is_doubtful(entry):
            break
        waiting.popleft()
        if wants(entry):
            load.append(entry)
        else:
            size -= size_in_batch(entry.delivery.message)
            skipped += 1
    return load
