"""Traces as people and tools read them (``GET /openapi.json``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from admin.models.base import optional_time
from admin.repair.editing import Link
from admin.showing.contents import headers_of, response_text
from admin.showing.sentences import told
from bus.domain.catalog import Catalog
from bus.domain.delivery.causes import Cause
from bus.domain.delivery.delivery import Attempt, Resend, Status
from bus.domain.delivery.reasons import PAUSED
from bus.domain.message import Message
from bus.domain.replay import Replay
from bus.domain.times import format_time
from bus.domain.tracing.hops import Hop, hops_of
from bus.domain.tracing.trace import DeliveryTrace, Trace, attempts_in_order, attempts_of, next_attempt_at

_PHASES = ("dns", "connect", "tls", "send", "first_byte", "receive")


def message_row(trace: Trace) -> dict[str, Any]:
    """Return a message as it stands in a list."""
    message = trace.message
    return {
        "id": trace.id,
        "destination": trace.destination,
        "biz_id": message.biz_id if message else "",
        "source": message.source if message else "",
        "status": trace.status,
        "sent_at": optional_time(message.sent_at) if message else None,
        "received_at": optional_time(message.received_at) if message else None,
        "completed_at": optional_time(trace.completed_at),
        "bytes": trace.body_bytes,
        "attempts": attempts_of(trace),
        "next_attempt_at": optional_time(next_attempt_at(trace)),
    }


def trace_view(trace: Trace, catalog: Catalog, causes: Mapping[str, Cause], which: str = "all") -> dict[str, Any]:
    """Return the whole life of a message; ``which`` of the attempts: all, none, first:N or last:N."""
    attempts = {name: chosen(attempts_in_order(delivery), which) for name, delivery in trace.deliveries.items()}
    message = trace.message
    view = message_row(trace)
    if message is not None:
        view["message"] = {
            **message_row(trace),
            "content_type": message.content_type,
            "key": message.key,
            "routing_key": message.routing_key,
            "headers": headers_of(message),
            "deliver_at": optional_time(message.deliver_at),
            "traceparent": message.traceparent,
            "original_id": message.original_id,
            "idempotency_key": message.idempotency_key,
            "expected": list(message.expected),
            "retention_days": message.retention_days,
        }
    if not trace.deliveries:
        view["reason"] = "no subscription"
    view["deliveries"] = [
        _delivery_view(trace, name, delivery, catalog)
        | {"held": _cause_view(causes.get(name))}
        | {"attempts": [attempt_view(attempt) for attempt in attempts[name]]}
        for name, delivery in sorted(trace.deliveries.items())
    ]
    view["hops"] = _hops_view(hops_of(trace, attempts))
    return view


def chosen(attempts: Sequence[Attempt], which: str) -> Sequence[Attempt]:
    """Return the attempts asked for."""
    end, _, count = which.partition(":")
    if end == "all":
        return attempts
    if end == "none" or not int(count):
        return ()
    return attempts[: int(count)] if end == "first" else attempts[-int(count) :]


def _hops_view(hops: Sequence[Hop]) -> list[dict[str, Any]]:
    times = [None, *(hop.at for hop in hops)]
    return [
        {
            "at": format_time(hop.at) if hop.at is not None else None,
            "place": hop.place,
            **told("what", hop.what),
            "subscription": hop.subscription or None,
            "node": hop.node or None,
            "attempt": hop.attempt or None,
            "missing": hop.is_missing,
            "ms_since_previous": hop.at - before if hop.at is not None and before is not None else None,
        }
        for before, hop in zip(times, hops, strict=False)
    ]


def edit_view(message_id: str, link: Link | None) -> dict[str, Any]:
    """Return the other end of a link between a message and the one made of it; by whom and why, while that is known."""
    return {
        "id": message_id,
        "by": link.by if link else None,
        "reason": link.reason if link else None,
        "at": format_time(link.at) if link else None,
    }


def origin_view(message: Message | None, link: Link | None) -> dict[str, Any] | None:
    """Return of what a message was made by editing, None of one that was not."""
    return edit_view(message.edited_from, link) if message is not None and message.edited_from else None


def replay_view(message: Message | None) -> dict[str, str] | None:
    """Return which replay sent a message, and of which one it is a copy; None of one that no replay sent."""
    return Replay.parse(message.replay)._asdict() if message is not None and message.replay else None


def _delivery_view(trace: Trace, name: str, delivery: DeliveryTrace, catalog: Catalog) -> dict[str, Any]:
    subscription = catalog.subscriptions.get((trace.destination, name))
    held = _held(trace, name, delivery, catalog)
    return {
        "subscription": name,
        "url": delivery.url or (subscription.url if subscription else ""),
        "status": delivery.status,
        "reason": delivery.reason or held[0],
        "detail": held[1],
        "at": optional_time(delivery.at),
        "due_at": optional_time(delivery.due_at),
        "generation": delivery.generation,
        "attempts_made": delivery.attempts_made,
        "attempts_kept": len(delivery.attempts),
        "resends": [_resend_view(resend) for resend in delivery.resends],
    }


def _cause_view(cause: Cause | None) -> dict[str, Any] | None:
    return {"cause": cause.name, **told("what", cause.what)} if cause is not None else None


def _resend_view(resend: Resend) -> dict[str, Any]:
    return {
        "generation": resend.generation,
        "job": resend.job or None,
        "by": resend.by,
        "reason": resend.reason,
        "at": format_time(resend.at),
    }


def _held(trace: Trace, name: str, delivery: DeliveryTrace, catalog: Catalog) -> tuple[str, str]:
    """Say why a delivery waits, when the configuration is why, and what about it a person should know."""
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


def attempt_view(attempt: Attempt) -> dict[str, Any]:
    """Return one attempt; ``queue`` is how long it waited in its dispatcher, where that is known."""
    queue = {"queue": attempt.started_at - attempt.taken_at} if attempt.taken_at else {}
    return {
        "id": attempt.id,
        "n": attempt.n,
        "by": attempt.by,
        "started_at": format_time(attempt.started_at),
        "duration_ms": round(attempt.duration, 3),
        "phases": queue
        | {name: round(value, 3) for name, value in zip(_PHASES, attempt.phases, strict=True) if value is not None},
        "status_code": attempt.status_code,
        "error": attempt.error or None,
        "response": response_text(attempt),
        "node": attempt.node,
        "generation": attempt.generation,
        "taken_at": optional_time(attempt.taken_at),
    }
