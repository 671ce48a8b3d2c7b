"""Deliveries that keep an order, as rows of the store and back."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bus.domain.delivery.delivery import FINAL, Compensation, Delivery, Origin, Outcome, Status
from bus.domain.delivery.verdict import behind
from bus.domain.message import decode_message
from bus.domain.subscription import Subscription
from bus.domain.tracing.trace import DeliveryTrace
from bus.ports.store import DeliveryKey
from dispatcher.pending_deliveries import PendingDelivery


def row_outcome(entry: PendingDelivery, subscription: Subscription, now: int) -> Outcome:
    """Return the outcome that makes a delivery's row: its last failure, or its wait for an earlier one of its key."""
    return entry.unstored if entry.unstored is not None else behind(entry.delivery, subscription, now)


def delivery_of(row: Compensation) -> Delivery:
    """Return the delivery that a row carries on."""
    return Delivery(
        message=decode_message(row.message),
        subscription=row.subscription,
        generation=row.generation,
        attempts=row.attempts,
        tries=row.tries,
        since=row.since,
        by=row.by,
        handed_over=True,
        order_key=row.order_key,
        place=row.place,
    )


def after(delivery: Delivery, outcome: Outcome) -> Delivery:
    """Return the delivery of the next attempt after a failure."""
    return msgspec.structs.replace(
        delivery,
        attempts=outcome.attempts,
        tries=outcome.tries,
        since=outcome.since,
        by=Origin.RETRY,
        handed_over=True,
    )


def names_of(rows: Sequence[Compensation]) -> list[DeliveryKey]:
    """Return as what to ask for the ends of rows' deliveries; one that is dead ends with what a person decides."""
    return [
        DeliveryKey(row.message_id, row.retention_days, row.subscription, row.generation + (not row.due_at))
        for row in rows
    ]


def decided(delivery: Delivery, known: DeliveryTrace) -> Delivery | None:
    """Return the continuation of a delivery that holds up its key, from its present trace; itself if it is over.

    None while no decision was made.
    """
    is_newer = known.generation > delivery.generation
    is_same = known.generation == delivery.generation
    if known.status in FINAL and (is_newer or (is_same and known.status is not Status.DEAD)):
        return delivery
    if not is_newer:
        return None
    return msgspec.structs.replace(
        delivery,
        generation=known.generation,
        attempts=max(known.attempts_made, delivery.attempts),
        tries=0,
        since=known.at,
        by=Origin.RESEND,
    )
