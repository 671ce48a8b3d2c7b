"""The end of deliveries whose subscription was removed, or that a person discarded."""

from __future__ import annotations

from typing import Final

from bus.domain.delivery.delivery import Compensation, Outcome, Status
from bus.domain.tracing.trace import DeliveryTrace, Trace, is_finished, start_trace
from bus.localized_text import N_

REMOVED: Final = N_("subscription removed")


def canceled(trace: Trace, subscription: str, now: int, reason: str = REMOVED) -> Outcome:
    """Return the canceled outcome of a delivery in a trace; ``now`` in milliseconds since the epoch.

    An attempt that is under way and succeeds outranks it.
    """
    delivery = trace.deliveries[subscription]
    return Outcome(
        message_id=trace.id,
        destination=trace.destination,
        subscription=subscription,
        retention_days=trace.retention_days,
        url=delivery.url,
        status=Status.CANCELED,
        generation=delivery.generation,
        at=now,
        reason=reason,
        attempts=delivery.attempts_made,
    )


def canceled_row(row: Compensation, trace: Trace | None, now: int) -> Outcome | None:
    """Return the canceled outcome of a row's delivery; None for a message to publish, or if it ended in the trace.

    The trace, which may not contain the row yet, is changed.
    """
    trace = trace or start_trace(row.message_id, row.destination, row.retention_days)
    if not row.subscription or is_finished(trace, row.subscription, row.generation):
        return None
    delivery = DeliveryTrace(generation=row.generation, attempts_made=row.attempts)
    if known := trace.deliveries.get(row.subscription):
        delivery.url = known.url
    trace.deliveries[row.subscription] = delivery
    return canceled(trace, row.subscription, now)
