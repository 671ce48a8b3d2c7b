"""Deliveries that hold up a key, and how a person sets them aside."""

from __future__ import annotations

from typing import Final

from bus.domain.delivery.delivery import Compensation, Outcome, Status
from bus.domain.delivery.intervention import SET_ASIDE, Intervention
from bus.domain.subscription import Subscription
from bus.domain.tracing.trace import DeliveryTrace

HOLDS_UP: Final = frozenset({Status.RETRYING, Status.RESEND, Status.DEAD})
"""States of the first delivery of a key with which it holds up the others: it has failed, and is not set aside."""


def set_aside(
    row: Compensation, known: DeliveryTrace, subscription: Subscription, *, by: str, why: str, now: int
) -> Outcome:
    """Return the outcome by which a person sets aside the delivery that blocks a key, so that those behind it continue.

    It overtakes an attempt that is under way, whatever its result. ``now`` is in milliseconds since the epoch.
    """
    return Outcome(
        message_id=row.message_id,
        destination=row.destination,
        subscription=row.subscription,
        retention_days=row.retention_days,
        url=subscription.url,
        status=Status.PARKED,
        generation=max(row.generation, known.generation) + 1,
        at=now,
        reason=str(Intervention(SET_ASIDE, by, why)),
        attempts=max(row.attempts, known.attempts_made),
    )
