"""Whether a subscription's next POST may go out: room for its outcome, the rate and the breaker."""

from __future__ import annotations

import sys
from typing import Final

from bus.domain.delivery.breaker import Breaker, BreakerState
from bus.domain.delivery.rate import TokenBucket
from bus.domain.subscription import Subscription
from dispatcher.dependencies import Dependencies
from dispatcher.reminder import Reminder

_LOOK_AGAIN: Final = 0.2


class Gate:
    """Holds POSTs of one subscription, and has the worker reminded when the reason is over.

    Attributes
    ----------
    breaker
        What stops the attempts while the subscriber is down.
    take
        Counts messages that go out.
    """

    def __init__(self, subscription: Subscription, dependencies: Dependencies, reminder: Reminder) -> None:
        self._dependencies = dependencies
        self._reminder = reminder
        self._subscription = subscription
        self._rate = TokenBucket(subscription.rate)
        self.breaker = Breaker()
        self.take = self._rate.take

    def update(self, subscription: Subscription) -> None:
        """Put another configuration in force."""
        self._subscription = subscription
        self._rate.change(subscription.rate)

    def opens(self, now: float) -> bool:
        """Whether a POST may go out; the permission of a due probe is taken. ``now`` is monotonic."""
        outcomes = self._dependencies.outcomes
        if not outcomes.has_room:
            self._reminder.when(sys.float_info.max, outcomes.room)
            return False
        if not outcomes.has_room_for(self._subscription.destination):
            self._reminder.after(now, _LOOK_AGAIN)
            return False
        if self._subscription.rate is not None and (wait := self._rate.wait(now)) > 0:
            self._reminder.after(now, wait)
            return False
        if self.breaker.allows(now):
            return True
        if self.breaker.state is BreakerState.OPEN:
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
