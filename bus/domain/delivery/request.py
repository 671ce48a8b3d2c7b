"""The request that a subscriber receives (docs/subscribers.md), to be sent and to be shown."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.domain.times import format_time
from bus.domain.tracing.context import TraceContext

USER_AGENT: Final = "Pier/1"
SIGNATURE: Final = "webhook-signature"
LATE: Final = "bus-out-of-order"
EPOCH: Final = "bus-epoch"


def constant_headers(subscription: Subscription) -> dict[str, str]:
    """Return the headers that are the same in every request of a subscription; its own win over the bus's."""
    own = {"user-agent": USER_AGENT, "bus-destination": subscription.destination}
    replaced = {name.lower() for name in subscription.headers}
    return {name: value for name, value in own.items() if name not in replaced} | subscription.headers


def trace_headers(context: TraceContext) -> list[tuple[str, str]]:
    """Return the headers by which a subscriber's spans are below the bus's own."""
    parent = ("traceparent", context.traceparent)
    return [parent, ("tracestate", context.state)] if context.state else [parent]


def message_headers(
    message: Message,
    attempt: int,
    now: int,
    signature: str,
    constant: Collection[str],
    *,
    is_late: bool = False,
    context: TraceContext | None = None,
) -> list[tuple[str, str]]:
    """Return the headers of one attempt beside the constant ones.

    Parameters
    ----------
    attempt
        Its number, from 1.
    now
        When it starts, in milliseconds since the epoch.
    signature
        Empty for a subscription without a secret.
    constant
        Names of the constant headers in lower case; they win over the message's own.
    is_late
        Whether it goes out of the order of its key.
    context
        That of the attempt's span, in the place of the message's own; None where it has none.
    """
    headers = [
        ("content-type", message.content_type),
        ("webhook-id", message.id),
        ("webhook-timestamp", str(now // 1000)),
        ("bus-attempt", str(attempt)),
        ("bus-sent-at", format_time(message.sent_at)),
    ]
    if signature:
        headers.append((SIGNATURE, signature))
    if message.biz_id:
        headers.append(("bus-biz-id", message.biz_id))
    if message.key:
        headers.append(("bus-key", message.key))
    if context is not None:
        headers += trace_headers(context)
    elif message.traceparent:
        headers.append(("traceparent", message.traceparent))
        if message.tracestate:
            headers.append(("tracestate", message.tracestate))
    if is_late:
        headers.append((LATE, "true"))
    if message.replay:
        headers.append(("bus-replay", message.replay))
    if message.headers:
        headers += [(name, value) for name, value in message.headers.items() if name.lower() not in constant]
    return headers
