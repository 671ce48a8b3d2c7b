"""Traces as people and tools read them (contract.md, "HTTP: admin")."""

from __future__ import annotations

from typing import Any

from admin.models import optional_time
from bus.domain.catalog import Catalog
from bus.domain.delivery import Attempt, Status
from bus.domain.times import format_time
from bus.domain.trace import DeliveryTrace, Trace, attempts_in_order, attempts_of, next_attempt_at

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


def trace_view(trace: Trace, catalog: Catalog) -> dict[str, Any]:
    """Return the whole life of a message."""
    message = trace.message
    view = message_row(trace)
    if message is not None:
        view["message"] = {
            **message_row(trace),
            "content_type": message.content_type,
            "key": message.key,
            "routing_key": message.routing_key,
            "headers": message.headers,
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
        _delivery_view(trace, name, delivery, catalog) for name, delivery in sorted(trace.deliveries.items())
    ]
    return view


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
        "attempts": [_attempt_view(attempt) for attempt in attempts_in_order(delivery)],
    }


def _held(trace: Trace, name: str, delivery: DeliveryTrace, catalog: Catalog) -> tuple[str, str]:
    """Say why a delivery waits, when the configuration is why, and what about it a person should know."""
    if delivery.status is not Status.PENDING:
        return "", ""
    destination = catalog.destinations.get(trace.destination)
    subscription = catalog.subscriptions.get((trace.destination, name))
    if destination is not None and destination.paused:
        return "paused", "the destination is paused"
    if subscription is not None and subscription.paused:
        return "paused", subscription.paused_reason
    if trace.message is not None and trace.message.deliver_at > trace.message.received_at:
        return "scheduled", f"deliver at {format_time(trace.message.deliver_at)}"
    return "", ""


def _attempt_view(attempt: Attempt) -> dict[str, Any]:
    return {
        "id": attempt.id,
        "n": attempt.n,
        "by": attempt.by,
        "started_at": format_time(attempt.started_at),
        "duration_ms": round(attempt.duration, 3),
        "phases": {
            name: round(value, 3) for name, value in zip(_PHASES, attempt.phases, strict=True) if value is not None
        },
        "status_code": attempt.status_code,
        "error": attempt.error or None,
        "response": attempt.response.decode("utf-8", "replace") or None,
        "node": attempt.node,
    }
