"""Dependencies that the workers of a dispatcher share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bus.domain.delivery.delivery import Delivery
from bus.domain.subscription import Subscription
from bus.ports.clock import Clock
from bus.ports.concurrency_slots import OWN_SLOTS, SlotPool
from bus.ports.poster import Poster
from bus.ports.spans import NO_SPANS, Spans
from bus.ports.store import DeliveryStore
from dispatcher.outcomes import OutcomeLog


class Dependencies(NamedTuple):
    """The services that all workers of a dispatcher share.

    ``since`` returns when this process started (ms), by its clock as it is now. ``gone`` is called with a subscription
    whose subscriber answered 410, ``passed`` with a handed-over delivery whose outcome is durable. While ``may_start``
    returns False, no request is started; the workers ask it again and again. ``keeps`` says whether
    this process still keeps the order of a destination, ``epoch`` which number it has among those that did, 0 for none.
    ``slots`` are those of destinations without an order.
    """

    poster: Poster
    outcomes: OutcomeLog
    store: DeliveryStore
    clock: Clock
    noise: Callable[[], float]
    node: str
    since: Callable[[], int]
    attempt_ids: Iterator[str]
    gone: Callable[[Subscription], None]
    passed: Callable[[Delivery], None]
    may_start: Callable[[], bool] = lambda: True
    keeps: Callable[[str], bool] = lambda _: True
    epoch: Callable[[str], int] = lambda _: 0
    slots: SlotPool = OWN_SLOTS
    spans: Spans = NO_SPANS
