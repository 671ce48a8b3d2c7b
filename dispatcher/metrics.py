"""One subscription's metrics, with their label look-ups done once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bus.domain.delivery.breaker import BreakerState
from bus.domain.delivery.delivery import Outcome, Status
from bus.domain.subscription import Subscription
from bus.telemetry import labels, metrics


class Permits(NamedTuple):
    """One subscription's requests in flight, how many it may have, and its breaker."""

    key: tuple[str, str]
    in_use: int
    most: int
    breaker: BreakerState


def fill_permits(found: Sequence[Permits]) -> None:
    """Set the gauges of slots and breakers; subscriptions that share a series have the worst breaker of them."""
    worst: dict[str, BreakerState] = {}
    for permits in found:
        label = "/".join(labels.SUBSCRIPTIONS.of(*permits.key))
        metrics.PERMITS_IN_USE.labels(label).inc(permits.in_use)
        metrics.PERMITS_MAX.labels(label).inc(permits.most)
        worst[label] = max(worst.get(label, BreakerState.CLOSED), permits.breaker)
    for label, state in worst.items():
        metrics.BREAKER_STATE.labels(label).set(state)


class SubscriptionMetrics:
    """Counts what happens to one subscription's deliveries."""

    def __init__(self, subscription: Subscription) -> None:
        self._labels = labels.SUBSCRIPTIONS.of(*subscription.key)
        self._attempt_seconds = metrics.ATTEMPT_SECONDS.labels(*self._labels)
        self._latency_seconds = metrics.LATENCY_SECONDS.labels(*self._labels)
        self._delivered = metrics.DELIVERIES.labels(*self._labels, Status.DELIVERED)

    def attempted(self, milliseconds: float) -> None:
        """Count one POST."""
        self._attempt_seconds.observe(milliseconds / 1000)

    def decided(self, outcome: Outcome, received_at: int) -> None:
        """Count an outcome."""
        if outcome.status is Status.DELIVERED:
            self._delivered.inc()
            self._latency_seconds.observe(max(0, outcome.at - received_at) / 1000)
            return
        metrics.DELIVERIES.labels(*self._labels, outcome.status).inc()
        if outcome.status is Status.DEAD:
            metrics.DEAD.labels(*self._labels).inc()

    def probe_failed(self) -> None:
        """Count a probe that spent no attempt."""
        metrics.PROBE_FAILURES.labels(*self._labels).inc()

    def filter_failed(self) -> None:
        """Count a message on which the filter failed."""
        metrics.FILTER_FAILURES.labels(*self._labels).inc()
