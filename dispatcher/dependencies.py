"""What every worker of a dispatcher shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bus.domain.delivery.delivery import Delivery
from bus.domain.subscription import Subscription
from bus.ports.clock import Clock
from bus.ports.poster import Poster
from bus.ports.store import TraceStore
from dispatcher.outcomes import OutcomeLog


class Dependencies(NamedTuple):
    """What every worker of a dispatcher shares.

    ``since`` tells when this life of the process began (ms), by its clock of now. ``gone`` hears of a subscription
    whose subscriber answered 410, ``passed`` of a handed-over delivery whose outcome is durable. While ``may_start``
    says no, no request is started; whoever says yes again updates the workers.
    """

    poster: Poster
    outcomes: OutcomeLog
    store: TraceStore
    clock: Clock
    noise: Callable[[], float]
    node: str
    since: Callable[[], int]
    attempt_ids: Iterator[str]
    gone: Callable[[Subscription], None]
    passed: Callable[[Delivery], None]
    may_start: Callable[[], bool] = lambda: True
