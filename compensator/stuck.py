"""Deliveries that no transport holds any more and that have no outcome: they are compensated."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from bus.cluster.cluster_backlog import ClusterBacklog
from bus.domain.delivery.delivery import Origin, untried_row
from bus.domain.destination import Ordering
from bus.domain.subscription import Subscription
from bus.domain.times import SKEW
from bus.localized_text import AnyText, listed, localized
from bus.ports.clock import Clock
from bus.ports.store import Store
from bus.registry import Registry
from bus.telemetry.outage import Outage
from bus.transports.router import Lags, TransportRouter
from compensator.believed import BelievedTime
from compensator.watch import watch

_log = logging.getLogger(__name__)
_BATCH: Final = 200
_MOST_NAMED: Final = 3
_SLACK: Final = 2_000
_INTERVAL: Final = 5.0
_AT_ONCE: Final = 200
"""Subscriptions searched in one step, so that many cost no more than some."""
# ms; less than the span of the recent outcomes that a dispatcher remembers (``_RECENT`` in outcomes.py).
_BEHIND: Final = 5_000
# Seconds after a jump of the clock, until the reports of other processes and the store's rows are newer than it.
_PATIENCE: Final = 30.0
_AT_START: Final = 10.0


class StuckSearch:
    """Finds expected deliveries without an outcome for longer than ``stuck_after`` that are on no transport.

    A message older than the oldest one that a transport or a receiver's spool still holds is no longer on it. While a
    destination's outcomes wait for longer than a moment to be stored, its deliveries are not searched, since the store
    lacks them. Nor are those of a strict order ever: a group of brokers that does not answer may have them, and they
    come before what the others have; what is lost a person sends again. Times from other processes are corrected by how
    far their clocks may be ahead of this one's.
    """

    def __init__(
        self, store: Store, registry: Registry, router: TransportRouter, waiting: ClusterBacklog, clock: Clock
    ) -> None:
        self._store = store
        self._registry = registry
        self._router = router
        self._waiting = waiting
        self._clock = clock
        self._believed = BelievedTime(clock, _PATIENCE, _AT_START)
        self._passed_over: dict[tuple[str, str], float] = {}
        self._turn = 0

    @property
    def trouble(self) -> AnyText:
        """The subscriptions that were not searched for longer than their ``stuck_after``; empty for none."""
        now, subscriptions = self._clock.monotonic(), self._registry.catalog.subscriptions
        names = [
            "/".join(key)
            for key, since in self._passed_over.items()
            if key in subscriptions and now - since > subscriptions[key].stuck_after / 1000
        ]
        if not names:
            return ""
        return localized(
            "deliveries of {names} are not looked for where a broker lost them, until what waits for them from a clock "
            "that was ahead is delivered or that time has come",
            names=listed(names, _MOST_NAMED),
        )

    async def run(self) -> None:
        """Search until cancelled."""
        await self._clock.sleep(_INTERVAL)
        outage = Outage(_log, "stuck deliveries are not looked for without the store")
        await watch(self.step, self._clock, _INTERVAL, outage)

    async def step(self) -> int:
        """Look through all subscriptions once, or the next of many; return how many deliveries were claimed."""
        unpublished = self._waiting.unpublished()
        unseen = self._waiting.unseen()
        # Read once, after ``unpublished``: what a transport holds only leaves it, what arrives was unpublished before.
        lags = self._router.lags()
        claimed = 0
        lead = self._waiting.lead
        now = self._believed.now()
        if now is None:
            return 0
        for subscription in self._in_turn():
            settled = now - min(_BEHIND, subscription.stuck_after // 2)
            if not self._is_held(subscription) and unseen.get(subscription.destination, settled) >= settled:
                held = self._on_transports(subscription, lags) + self._waiting.held_elsewhere(*subscription.key)
                if subscription.destination in unpublished:
                    held.append(unpublished[subscription.destination])
                claimed += await self._claim(subscription, [time - lead for time in held], now)
            else:
                self._passed_over.pop(subscription.key, None)
        return claimed

    def _in_turn(self) -> list[Subscription]:
        known = list(self._registry.catalog.subscriptions.values())
        begin = self._turn if self._turn < len(known) else 0
        self._turn = begin + _AT_ONCE
        return known[begin : self._turn]

    def _is_held(self, subscription: Subscription) -> bool:
        destination = self._registry.catalog.destinations.get(subscription.destination)
        if destination is None or destination.ordering is Ordering.STRICT:
            return True
        return subscription.paused or destination.paused

    async def _claim(self, subscription: Subscription, oldest: list[int], now: int) -> int:
        present = self._believed.now()  # the store may have taken long for the subscriptions before
        if present is None or any(time > present + SKEW for time in oldest):
            # The oldest is from a clock that was ahead, so its time does not show how old what waits behind it is.
            self._passed_over.setdefault(subscription.key, self._clock.monotonic())
            return 0
        self._passed_over.pop(subscription.key, None)
        before = min([now - subscription.stuck_after, *(time - _SLACK for time in oldest)])
        stuck = await self._store.unsettled(*subscription.key, before, _BATCH)
        if stuck:
            _log.warning(
                "%d deliveries of %s/%s are on no transport and have no outcome; they are compensated",
                len(stuck),
                *subscription.key,
            )
            await self._store.compensate(
                [untried_row(message, subscription.name, self._clock.now(), Origin.STUCK) for message in stuck]
            )
        return len(stuck)

    def _on_transports(self, subscription: Subscription, lags: Mapping[str, Lags | None]) -> list[int]:
        """Return for each transport that answers the time of the oldest message that it holds for a subscription.

        What a transport that is down may hold counts as stuck and is compensated; the copy on that transport is
        recognised by the store when it comes back.
        """
        destination = self._registry.destination(subscription.destination)
        found = (lags.get(transport) for transport in destination.transports)
        held = (
            of_transport[subscription.key]
            for of_transport in found
            if of_transport is not None and subscription.key in of_transport
        )
        return [lag.oldest for lag in held if lag.oldest is not None]
