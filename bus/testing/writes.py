"""Messages, outcomes and rows for tests of stores: valid in every field, distinct by number."""

from __future__ import annotations

from typing import Any, Final

from bus.domain.delivery.delivery import Attempt, Compensation, Origin, Outcome, Status
from bus.domain.identity import new_id
from bus.domain.message import Message, encode_message

NOON: Final = 1_795_262_400_000  # 2026-11-21T12:00:00Z
DESTINATION: Final = "orders"


def message(number: int = 0, **changes: Any) -> Message:
    """Make a message that was sent ``number`` milliseconds after noon and expects two deliveries."""
    fields: dict[str, Any] = {
        "id": new_id(NOON + number, number.to_bytes(10, "big")),
        "destination": DESTINATION,
        "body": b"body %d" % number,
        "sent_at": NOON + number,
        "received_at": NOON + number + 2,
        "source": "shop",
        "biz_id": f"order-{number}",
        "expected": ("billing", "mail"),
    }
    return Message(**fields | changes)


def outcome(of: Message, subscription: str, status: Status, attempts: int = 1, **changes: Any) -> Outcome:
    """Make what a dispatcher records after the given POST of a message."""
    at = of.received_at + attempts * 10
    fields: dict[str, Any] = {
        "message_id": of.id,
        "destination": of.destination,
        "subscription": subscription,
        "retention_days": of.retention_days,
        "url": "http://subscriber/hook",
        "status": status,
        "generation": 0,
        "at": at,
        "attempt": attempt(f"{of.id}.{subscription}.{attempts}", attempts, at),
        "attempts": attempts,
        "tries": attempts,
        "since": of.received_at,
    }
    if status is Status.RETRYING:
        fields |= {"due_at": at + 1_000, "reason": "500", "message": encode_message(of)}
    return Outcome(**fields | changes)


def attempt(name: str, n: int, started_at: int) -> Attempt:
    """Make one POST."""
    return Attempt(
        name, n, Origin.TRANSPORT, started_at, 2.5, (None, None, None, 0.5, 1.5, 0.5), 200, "", b"", "node-1"
    )


def row(of: Message, subscription: str = "billing", **changes: Any) -> Compensation:
    """Make a row that is due a second after its message was received."""
    fields: dict[str, Any] = {
        "message_id": of.id,
        "destination": of.destination,
        "subscription": subscription,
        "retention_days": of.retention_days,
        "generation": 0,
        "attempts": 1,
        "tries": 1,
        "since": of.received_at,
        "due_at": of.received_at + 1_000,
        "by": Origin.RETRY,
        "message": encode_message(of),
    }
    return Compensation(**fields | changes)
