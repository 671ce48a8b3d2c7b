"""From a draft to the record that the SDK's spool keeps of it."""

from __future__ import annotations

from bus.client.options import PreparedMessage
from bus.client.outbox import record_of
from bus.client.spooling.line import Line
from bus.domain.identity import new_id
from bus.domain.message import check_destination, check_size
from bus.domain.times import format_time
from bus.errors import InvalidMessage
from bus.http.draft import Draft


def prepared_of(draft: Draft, source: str, now: int, max_bytes: int) -> PreparedMessage:
    """Return what is stored of a draft: all that it says, and what it leaves open of id, time and source.

    The body goes as base64, whatever it is, since it is delivered byte for byte.

    Raises
    ------
    InvalidDestination
        The code is malformed. (Whether there is such a destination only the receiver knows.)
    MessageTooLarge
        It is over ``max_bytes``, or makes a line that fits into no request.
    InvalidMessage
        It belongs to a lease, which one producer has and no agent.
    """
    check_destination(draft.destination)
    check_size(draft.body, draft.headers, max_bytes)
    if draft.producer:
        raise InvalidMessage(
            "an agent sends nothing under a producer's lease", hint="send it to the receiver", field="producer"
        )
    line = Line(
        id=draft.id or new_id(now),
        destination=draft.destination,
        sent_at=format_time(draft.sent_at or now),
        content_type=draft.content_type,
        source=draft.source or source,
        biz_id=draft.biz_id,
        key=draft.key,
        routing_key=draft.routing_key,
        headers=draft.headers,
        deliver_at=format_time(draft.deliver_at) if draft.deliver_at else "",
        idempotency_key="" if draft.event else draft.idempotency_key,  # the receiver makes it of the event
        traceparent=draft.traceparent,
        tracestate=draft.tracestate,
        original_id=draft.original_id,
        replay=draft.replay,
        event=draft.event,
        body_base64=draft.body,
    )
    return PreparedMessage(
        line.id, record_of(line, now), line.destination, len(draft.body), line.biz_id, line.source, line.key
    )
