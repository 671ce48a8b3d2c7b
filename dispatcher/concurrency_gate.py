"""The gate of a subscription's next POST (disk, rate, breaker, slot), and the delivery that a probe carries."""

from __future__ import annotations

import enum
import sys
from collections import deque
from collections.abc import Callable
from typing import Final

from bus.domain.delivery.breaker import Breaker, BreakerState
from bus.domain.delivery.rate import TokenBucket
from bus.domain.subscription import Subscription
from bus.ports.concurrency_slots import SlotPool
from dispatcher.dependencies import Dependencies
from dispatcher.pending_deliveries import PendingDelivery
from dispatcher.reminder import Reminder

LOOK_AGAIN: Final = 0.2
_PROBED_SOON: Final = 10.0
"""Seconds before a probe from when on a retry is taken for it: less than any lease leaves for the start."""


class Gate:
    """Holds POSTs of one subscription, and has the worker reminded when the reason is over.

    Attributes
    ----------
    breaker
        What stops the attempts while the subscriber is down.
    slots
        Those that this process holds of what it shares with others, one for each request in flight.
    """

    def __init__(
        self,
        subscription: Subscription,
        dependencies: Dependencies,
        reminder: Reminder,
        pool: SlotPool,
        freed: Callable[[], None],
    ) -> None:
        self._dependencies = dependencies
        self._reminder = reminder
        self._subscription = subscription
        self._rate = TokenBucket(subscription.rate)
        self.breaker = Breaker()
        self.slots = pool.join("/".join(subscription.key), freed, self._spent)

    def update(self, subscription: Subscription) -> None:
        """Put another configuration in force."""
        self._subscription = subscription
        self._rate.change(subscription.rate)

    def take(self, count: int) -> None:
        """Count messages of the rate that go out."""
        self._rate.take(count)
        if self._subscription.rate is not None:
            self.slots.spend(count)

    def _spent(self, count: int) -> None:
        """Count messages of the rate that another process sent."""
        self._rate.available(self._dependencies.clock.monotonic(), count)
        self._rate.take(count)

    def opens(self, now: float) -> bool:
        """Whether a POST may go out; its slot, and the permission of a due probe, are taken. ``now`` is monotonic."""
        outcomes = self._dependencies.outcomes
        if not outcomes.has_room:
            self._reminder.when(sys.float_info.max, outcomes.room)
            return False
        if not outcomes.has_room_for(self._subscription.destination):
            self._reminder.after(now, LOOK_AGAIN)
            return False
        if self._subscription.rate is not None and (wait := self._rate.wait(now)) > 0:
            self._reminder.after(now, wait)
            return False
        if self.breaker.allows(now):
            wait = self.slots.take(self._subscription.max_concurrency)
            if wait:
                self.breaker.abandoned(now)
                self._reminder.after(now, wait)
            return not wait
        self._reminder.after(now, self.breaker.probe_in(now))
        return False

    def most(self, now: float) -> int:
        """Return how many messages the POST that may go out may have: a probe has one, and each is one of the rate."""
        if self.breaker.state is BreakerState.HALF_OPEN:
            return 1
        return max(1, self._rate.available(now, self._subscription.batch))

    def rate_wait(self, now: float) -> float:
        """Return for how many seconds the rate holds the next POST; 0 when it does not."""
        return self._rate.wait(now)


class _Kind(enum.Enum):
    RETRY = enum.auto()
    NEW = enum.auto()
    AGAIN = enum.auto()  # it got no answer as an earlier probe


class ProbeTurns:
    """The choice of the next probe: a retry, a new one, and one without an answer to an earlier probe take turns.

    A subscriber may fail with one kind and take another: none of them waits for the success of the others.

    Parameters
    ----------
    waiting
        The deliveries to choose from; the chosen one becomes the first.
    """

    def __init__(self, breaker: Breaker, waiting: deque[PendingDelivery]) -> None:
        self._breaker = breaker
        self._waiting = waiting
        self._order = deque(_Kind)

    def is_due(self, now: float) -> bool:
        """Whether the next POST is a probe, and may start; ``now`` is monotonic."""
        return self._breaker.state is not BreakerState.CLOSED and self._breaker.probe_in(now) == 0

    def choose(self) -> None:
        """Make the delivery of the kind whose turn it is the first one."""
        for kind in self._order:
            for place, entry in enumerate(self._waiting):
                if _kind_of(entry) is kind:
                    del self._waiting[place]
                    self._waiting.appendleft(entry)
                    return

    def started(self, entry: PendingDelivery) -> None:
        """Give the other kinds their turns before the kind of this probe has its next one."""
        kind = _kind_of(entry)
        self._order.remove(kind)
        self._order.append(kind)

    def room(self, now: float, most: int) -> int:
        """Return how many retries to take for the next probe: 1 if none waits for its first one, and ``most`` do not.

        A retry is leased, so none is taken long before it can start.
        """
        retries = [entry for entry in self._waiting if entry.is_retry]
        is_wanted = len(retries) < most and all(entry.was_probe for entry in retries)
        return int(is_wanted and self._breaker.probe_in(now) <= _PROBED_SOON)


def _kind_of(entry: PendingDelivery) -> _Kind:
    if entry.was_probe:
        return _Kind.AGAIN
    return _Kind.RETRY if entry.is_retry else _Kind.NEW
