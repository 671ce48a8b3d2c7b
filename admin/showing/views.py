"""Traces as responses of the API (``GET /openapi.json``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from admin.models.base import optional_time
from admin.models.responses.messages import (
    AttemptView,
    BatchView,
    CauseView,
    DeliveryView,
    EditView,
    HopView,
    MessageRow,
    MessageView,
    ReplayView,
    ResendOfView,
    TraceView,
)
from admin.repair.editing import Link
from admin.showing.contents import headers_of, response_text
from bus.domain.catalog import Catalog
from bus.domain.delivery.causes import Cause
from bus.domain.delivery.delivery import Attempt, Resend, Status
from bus.domain.delivery.reasons import PAUSED
from bus.domain.destination import TransportName
from bus.domain.message import Message
from bus.domain.replay import Replay
from bus.domain.times import format_time
from bus.domain.tracing.hops import Hop, hops_of
from bus.domain.tracing.trace import DeliveryTrace, Trace, attempts_in_order, attempts_of, next_attempt_at
from bus.localized_text import localized_text_of

_PHASES = ("dns", "connect", "tls", "send", "first_byte", "receive")


def message_row(trace: Trace) -> MessageRow:
    """Return the row of a message in a list."""
    message = trace.message
    return MessageRow(
        id=trace.id,
        destination=trace.destination,
        biz_id=message.biz_id if message else "",
        source=message.source if message else "",
        status=trace.status,
        delivered=sum(one.status is Status.DELIVERED for one in trace.deliveries.values()),
        subscriptions=len(trace.deliveries),
        sent_at=optional_time(message.sent_at) if message else None,
        received_at=optional_time(message.received_at) if message else None,
        completed_at=optional_time(trace.completed_at),
        bytes=trace.body_bytes,
        attempts=attempts_of(trace),
        next_attempt_at=optional_time(next_attempt_at(trace)),
    )


class Lineage(NamedTuple):
    """The edit that created a message, and the links to messages edited from it."""

    origin: Link | None
    edits: Sequence[Link]


def trace_view(
    trace: Trace, catalog: Catalog, causes: Mapping[str, Cause], which: str, lineage: Lineage, *, is_masked: bool
) -> TraceView:
    """Return the whole life of a message; ``which`` of the attempts: all, none, first:N or last:N."""
    attempts = {name: chosen(attempts_in_order(delivery), which) for name, delivery in trace.deliveries.items()}
    row = message_row(trace)
    return TraceView(
        **msgspec.structs.asdict(row),
        message=_message_view(trace.message, row) if trace.message is not None else msgspec.UNSET,
        reason=msgspec.UNSET if trace.deliveries else "no subscription",
        deliveries=[
            _delivery_view(trace, name, catalog, causes.get(name), attempts[name]) for name in sorted(trace.deliveries)
        ],
        hops=_hops_view(hops_of(trace, attempts, _carrier(trace, catalog))),
        masked=is_masked,
        replay=replay_view(trace.message),
        edited_from=origin_view(trace.message, lineage.origin),
        edits=[edit_view(link.id, link) for link in lineage.edits],
    )


def _message_view(message: Message, row: MessageRow) -> MessageView:
    return MessageView(
        **msgspec.structs.asdict(row),
        content_type=message.content_type,
        key=message.key,
        routing_key=message.routing_key,
        headers=headers_of(message),
        deliver_at=optional_time(message.deliver_at),
        traceparent=message.traceparent,
        original_id=message.original_id,
        idempotency_key=message.idempotency_key,
        expected=list(message.expected),
        retention_days=message.retention_days,
    )


def _carrier(trace: Trace, catalog: Catalog) -> str:
    """Return the place from which dispatchers take messages of a destination: a broker's name, or themselves."""
    found = catalog.destinations.get(trace.destination)
    if found is None:
        return "broker"
    return "dispatcher" if found.transport is TransportName.DIRECT else found.transport


def chosen(attempts: Sequence[Attempt], which: str) -> Sequence[Attempt]:
    """Return the attempts asked for."""
    end, _, count = which.partition(":")
    if end == "all":
        return attempts
    if end == "none" or not int(count):
        return ()
    return attempts[: int(count)] if end == "first" else attempts[-int(count) :]


def _hops_view(hops: Sequence[Hop]) -> list[HopView]:
    times = [None, *(hop.at for hop in hops)]
    return [
        HopView(
            at=format_time(hop.at) if hop.at is not None else None,
            place=hop.place,
            what=str(hop.what),
            what_text=localized_text_of(hop.what),
            subscription=hop.subscription or None,
            node=hop.node or None,
            attempt=hop.attempt or None,
            missing=hop.is_missing,
            ms_since_previous=hop.at - before if hop.at is not None and before is not None else None,
        )
        for before, hop in zip(times, hops, strict=False)
    ]


def edit_view(message_id: str, link: Link | None) -> EditView:
    """Return the other message of an edit, with its author and reason as long as the link is kept."""
    return EditView(
        id=message_id,
        by=link.by if link else None,
        reason=link.reason if link else None,
        at=format_time(link.at) if link else None,
    )


def origin_view(message: Message | None, link: Link | None) -> EditView | None:
    """Return the message that this one was edited from; None if it was not."""
    return edit_view(message.edited_from, link) if message is not None and message.edited_from else None


def replay_view(message: Message | None) -> ReplayView | None:
    """Return the replay that sent a message, and the message that it is a copy of; None if no replay sent it."""
    if message is None or not message.replay:
        return None
    replay = Replay.parse(message.replay)
    return ReplayView(name=replay.name, of=replay.of)


def _delivery_view(
    trace: Trace, name: str, catalog: Catalog, cause: Cause | None, attempts: Sequence[Attempt]
) -> DeliveryView:
    delivery = trace.deliveries[name]
    subscription = catalog.subscriptions.get((trace.destination, name))
    held = _held(trace, name, delivery, catalog)
    return DeliveryView(
        subscription=name,
        url=delivery.url or (subscription.url if subscription else ""),
        status=delivery.status,
        reason=delivery.reason or held[0],
        detail=held[1],
        at=optional_time(delivery.at),
        due_at=optional_time(delivery.due_at),
        generation=delivery.generation,
        attempts_made=delivery.attempts_made,
        attempts_kept=len(delivery.attempts),
        resends=[_resend_view(resend) for resend in delivery.resends],
        held=_cause_view(cause),
        attempts=[attempt_view(attempt) for attempt in attempts],
    )


def _cause_view(cause: Cause | None) -> CauseView | None:
    if cause is None:
        return None
    return CauseView(cause=cause.name, what=str(cause.what), what_text=localized_text_of(cause.what))


def _resend_view(resend: Resend) -> ResendOfView:
    return ResendOfView(
        generation=resend.generation,
        job=resend.job or None,
        by=resend.by,
        reason=resend.reason,
        at=format_time(resend.at),
    )


def _held(trace: Trace, name: str, delivery: DeliveryTrace, catalog: Catalog) -> tuple[str, str]:
    """Return why the configuration holds a delivery, and a detail; empty texts if it does not."""
    if delivery.status not in (Status.PENDING, Status.RESEND):
        return "", ""
    destination = catalog.destinations.get(trace.destination)
    subscription = catalog.subscriptions.get((trace.destination, name))
    if destination is not None and destination.paused:
        return PAUSED, "the destination is paused"
    if subscription is not None and subscription.paused:
        return PAUSED, subscription.paused_reason
    if delivery.status is Status.RESEND:
        return "", ""
    if trace.message is not None and trace.message.deliver_at > trace.message.received_at:
        return "scheduled", f"deliver at {format_time(trace.message.deliver_at)}"
    return "", ""


def attempt_view(attempt: Attempt) -> AttemptView:
    """Return one attempt; its phase ``queue`` is how long it waited in the dispatcher, where that is known."""
    queue = {"queue": attempt.started_at - attempt.taken_at} if attempt.taken_at else {}
    return AttemptView(
        id=attempt.id,
        n=attempt.n,
        by=attempt.by,
        started_at=format_time(attempt.started_at),
        duration_ms=round(attempt.duration, 3),
        phases=queue
        | {name: round(value, 3) for name, value in zip(_PHASES, attempt.phases, strict=True) if value is not None},
        status_code=attempt.status_code,
        error=attempt.error or None,
        response=response_text(attempt),
        node=attempt.node,
        generation=attempt.generation,
        taken_at=optional_time(attempt.taken_at),
        batch=BatchView(**attempt.batch._asdict()) if attempt.batch is not None else None,
        out_of_order=attempt.is_late,
    )
